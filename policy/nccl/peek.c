/* peek.c - see peek.h. */
#include "peek.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define LOWEST 4096u /* nothing is below */

size_t peek_some(uintptr_t from, void *to, size_t bytes)
{
	struct iovec here = {to, bytes}, there = {(void *)from, bytes};
	int saved = errno;
	long got = -1;
	if (from >= LOWEST && bytes <= UINTPTR_MAX - from)
		got = syscall(SYS_process_vm_readv, getpid(), &here, 1ul, &there, 1ul, 0ul);
	errno = saved;
	return got < 0 ? 0 : (size_t)got;
}

bool peek(uintptr_t from, void *to, size_t bytes)
{
	return peek_some(from, to, bytes) == bytes;
}
