/* node.c - see node.h. */
#include "node.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../sys.h"

int node_take(uint64_t what)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "turbo-%u-files-%016llx",
					 (unsigned)geteuid(), (unsigned long long)what);
	int fd = (int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return NODE_ALONE;
	if (syscall(SYS_bind, fd, &name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) ==
		0)
		return fd;
	n = errno;
	sys_close(fd);
	return n == EADDRINUSE ? NODE_TAKEN : NODE_ALONE;
}

void node_leave(int held)
{
	if (held >= 0)
		sys_close(held);
}
