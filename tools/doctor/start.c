/*
 * start.c - programs that a probe starts: their output is read to its end, line by line.
 *
 * They belong to the probe's process group and die with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"

extern char **environ;

struct channel {
	int fd;
	doctor_line *line;
	size_t have;
	char buf[16384];
};

static void become(const struct doctor_start *s, int out, int err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(null, 0);
	dup2(out >= 0 ? out : null, 1);
	dup2(err >= 0 ? err : null, 2);
	if (s->clean) {
		for (char **e = environ; *e;) {
			size_t n = strcspn(*e, "=");
			char name[256];
			if (n < sizeof(name) && (!strncmp(*e, "TURBO", 5) || !strncmp(*e, "LD_PRELOAD=", 11))) {
				memcpy(name, *e, n);
				name[n] = '\0';
				unsetenv(name);
			} else {
				e++;
			}
		}
	}
	if (s->preload)
		setenv("LD_PRELOAD", s->preload, 1);
	execvp(s->argv[0], s->argv);
	_exit(127);
}

/* What is complete is handed on; a line that is too long is cut. */
static void take(struct channel *c, void *arg, bool end)
{
	char *at = c->buf, *stop;
	c->buf[c->have] = '\0';
	while ((stop = memchr(at, '\n', c->have - (size_t)(at - c->buf)))) {
		*stop = '\0';
		c->line(arg, at);
		at = stop + 1;
	}
	c->have -= (size_t)(at - c->buf);
	memmove(c->buf, at, c->have);
	c->buf[c->have] = '\0';
	if (c->have && (end || c->have == sizeof(c->buf) - 1)) {
		c->line(arg, c->buf);
		c->have = 0;
	}
}

static void read_all(struct channel *c, unsigned count, void *arg)
{
	for (;;) {
		struct pollfd p[2] = {{c[0].fd, POLLIN, 0}, {count > 1 ? c[1].fd : -1, POLLIN, 0}};
		if (p[0].fd < 0 && p[1].fd < 0)
			return;
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return;
		for (unsigned i = 0; i < count; i++) {
			if (c[i].fd < 0 || !p[i].revents)
				continue;
			ssize_t n = read(c[i].fd, c[i].buf + c[i].have, sizeof(c[i].buf) - 1 - c[i].have);
			if (n < 0 && errno == EINTR)
				continue;
			if (n > 0)
				c[i].have += (size_t)n;
			take(&c[i], arg, n <= 0);
			if (n <= 0) {
				close(c[i].fd);
				c[i].fd = -1;
			}
		}
	}
}

int doctor_start(const struct doctor_start *s)
{
	static struct channel c[2];
	int out[2] = {-1, -1}, err[2] = {-1, -1}, status;
	if ((s->out && pipe2(out, O_CLOEXEC) != 0) || (s->err && pipe2(err, O_CLOEXEC) != 0))
		return -1;
	pid_t pid = fork();
	if (pid == 0)
		become(s, out[1], err[1]);
	if (out[1] >= 0)
		close(out[1]);
	if (err[1] >= 0)
		close(err[1]);
	c[0] = (struct channel){.fd = out[0], .line = s->out};
	c[1] = (struct channel){.fd = err[0], .line = s->err};
	if (pid < 0) {
		close(out[0]);
		close(err[0]);
		return -1;
	}
	read_all(c, 2, s->arg);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

unsigned doctor_fields(char *line, char **field, unsigned most)
{
	static char none[1];
	unsigned n = 0;
	for (char *at = line; at && n < most;) {
		field[n++] = at;
		at = n < most ? strchr(at, '\t') : NULL;
		if (at)
			*at++ = '\0';
	}
	for (unsigned i = n; i < most; i++)
		field[i] = none;
	return n;
}
