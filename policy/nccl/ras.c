/* ras.c - see ras.h. */
#include "ras.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SLICE_MS 100
#define TRIES 4      /* connections within the limit, while nobody greets */
#define GREETING 128 /* bytes of a line that is waited for */
#define DEFAULT_WHERE "localhost:28028"

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Written by ras_start() alone. */
static struct {
	bool off;
	char where[RAS_WHERE];
	unsigned addresses; /* 0: `where` is none that can be asked */
	union address address[2];
} ras;

struct question {
	int fd;
	uint64_t end; /* CLOCK_MONOTONIC, ms */
	bool (*go_on)(void *);
	void *arg;
};

/* ---- where ---- */

static void add(int family, const char *host, uint16_t port)
{
	union address a;

	memset(&a, 0, sizeof(a));
	a.any.sa_family = (sa_family_t)family;
	if (family == AF_INET)
		a.v4.sin_port = htons(port);
	else
		a.v6.sin6_port = htons(port);
	if (inet_pton(family, host, family == AF_INET ? (void *)&a.v4.sin_addr : (void *)&a.v6.sin6_addr) == 1)
		ras.address[ras.addresses++] = a;
}

/* HOST:PORT, [HOST]:PORT. Of names only localhost is known: looking others up takes locks, memory and time. */
static void take_address(const char *text)
{
	const char *colon = strrchr(text, ':');
	size_t bytes = colon ? (size_t)(colon - text) : 0;
	char host[INET6_ADDRSTRLEN], *end;
	long port = colon ? strtol(colon + 1, &end, 10) : 0;

	if (bytes > 2 && text[0] == '[' && text[bytes - 1] == ']') {
		text++;
		bytes -= 2;
	}
	if (!bytes || bytes >= sizeof(host) || port <= 0 || port > UINT16_MAX || *end)
		return;
	memcpy(host, text, bytes);
	host[bytes] = '\0';
	if (strcmp(host, "localhost") != 0) {
		add(strchr(host, ':') ? AF_INET6 : AF_INET, host, (uint16_t)port);
		return;
	}
	/* NCCL listens at the first that the system names. */
	add(AF_INET6, "::1", (uint16_t)port);
	add(AF_INET, "127.0.0.1", (uint16_t)port);
}

void ras_start(void)
{
	const char *where = getenv("NCCL_RAS_ADDR"), *enable = getenv("NCCL_RAS_ENABLE");
	char *end = NULL;

	memset(&ras, 0, sizeof(ras));
	ras.off = enable && *enable && strtoll(enable, &end, 0) == 0 && end != enable;
	where = where && *where ? where : DEFAULT_WHERE;
	snprintf(ras.where, sizeof(ras.where), "%s", where);
	take_address(where);
}

bool ras_wanted(uint64_t nccl, uint32_t missing)
{
	return !ras.off && ras.where[0] && nccl >= RAS_NCCL && missing > 0;
}

/* ---- the socket ---- */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* false: not until then, or nobody wants to know any more. */
static bool wait_for(const struct question *q, short events, uint64_t until)
{
	struct pollfd p = {.fd = q->fd, .events = events};

	for (;;) {
		uint64_t now = now_ms();
		if (now >= until || !q->go_on(q->arg))
			return false;
		int n = poll(&p, 1, (int)(until - now < SLICE_MS ? until - now : SLICE_MS));
		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
	}
}

static bool send_line(const struct question *q, const char *line, uint64_t until)
{
	size_t left = strlen(line);

	while (left > 0) {
		ssize_t n = send(q->fd, line, left, MSG_NOSIGNAL);
		if (n > 0) {
			line += n;
			left -= (size_t)n;
		} else if ((n == 0 || errno != EINTR) &&
				   ((n < 0 && errno != EAGAIN) || !wait_for(q, POLLOUT, until))) {
			return false;
		}
	}
	return true;
}

/* Bytes; 0 at the end, -1: an error, or not until then (ETIMEDOUT). */
static ssize_t receive(const struct question *q, char *to, size_t most, uint64_t until)
{
	for (;;) {
		if (!wait_for(q, POLLIN, until)) {
			errno = ETIMEDOUT;
			return -1;
		}
		ssize_t n = recv(q->fd, to, most, 0);
		if (n >= 0 || (errno != EINTR && errno != EAGAIN))
			return n;
	}
}

enum greeting { GREETED, SILENT, STRANGE, CLOSED };

/* A line, which begins with `with`. The server says nothing that it was not asked for. */
static enum greeting expect(const struct question *q, const char *with, uint64_t until)
{
	char line[GREETING];
	size_t used = 0;

	while (used < sizeof(line)) {
		ssize_t n = receive(q, line + used, sizeof(line) - used, until);
		if (n <= 0)
			return n < 0 && errno == ETIMEDOUT ? SILENT : CLOSED;
		used += (size_t)n;
		if (memchr(line, '\n', used))
			break;
	}
	return used > strlen(with) && memcmp(line, with, strlen(with)) == 0 ? GREETED : STRANGE;
}

/* 0, or an errno; ETIMEDOUT: not until then. */
static int connect_to(struct question *q, const union address *to, uint64_t until)
{
	socklen_t bytes = to->any.sa_family == AF_INET ? sizeof(to->v4) : sizeof(to->v6);
	int error = 0;

	q->fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (q->fd < 0)
		return errno;
	if (connect(q->fd, &to->any, bytes) == 0)
		return 0;
	if (errno != EINPROGRESS && errno != EINTR)
		return errno;
	if (!wait_for(q, POLLOUT, until))
		return ETIMEDOUT;
	bytes = sizeof(error);
	return getsockopt(q->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 ? error : errno;
}

/* ---- the question ---- */

enum meeting { MET, NOBODY, HUNG };

/* MET: q->fd is open, and RAS there. HUNG: another try may be luckier. Why not, in *why. */
static enum meeting meet(struct question *q, const union address *to, uint64_t until, const char **why)
{
	int error = connect_to(q, to, until);
	enum greeting g = CLOSED;

	if (!error)
		g = send_line(q, "CLIENT PROTOCOL 2\n", until) ? expect(q, "SERVER PROTOCOL ", until) : CLOSED;
	if (g == GREETED)
		return MET;
	if (q->fd >= 0)
		close(q->fd);
	q->fd = -1;
	if (error && error != ETIMEDOUT) {
		/* Of two addresses the one where there is somebody tells more. */
		*why = *why ? *why : error == ECONNREFUSED ? "nothing listens there" : "it cannot be reached";
		return NOBODY;
	}
	*why = g == STRANGE            ? "what listens there is no RAS service"
		   : g == CLOSED && !error ? "it closed the connection"
								   : "it does not answer";
	return g == STRANGE ? NOBODY : HUNG;
}

/*
 * All processes of a job on a machine listen at the same address, and the system picks one for each connection: if that
 * one is stopped, another may answer the next. NULL: q->fd is open.
 */
static const char *open_question(struct question *q, unsigned limit_ms)
{
	const char *why = NULL;
	unsigned left = ras.addresses;
	union address to[2];

	memcpy(to, ras.address, sizeof(to));
	for (unsigned tries = 0; left && tries < TRIES; tries++) {
		for (unsigned i = 0; i < left;) {
			uint64_t until = now_ms() + limit_ms / TRIES;
			enum meeting m = meet(q, &to[i], until < q->end ? until : q->end, &why);
			if (m == MET)
				return NULL;
			if (m == NOBODY)
				to[i] = to[--left];
			else
				i++;
		}
	}
	return why;
}

static void read_answer(const struct question *q, struct ras_answer *a)
{
	ssize_t n = 1;

	while (n > 0 && a->bytes < RAS_BYTES) {
		n = receive(q, a->text + a->bytes, RAS_BYTES - a->bytes, q->end);
		a->bytes += n > 0 ? (unsigned)n : 0;
	}
	if (n > 0)
		a->cut = "what it said further is left out";
	else if (n < 0)
		a->cut = errno == ETIMEDOUT ? "it had not said more in time" : "the connection broke";
	if (a->bytes == 0)
		a->none = n < 0 && errno == ETIMEDOUT ? "it greets, but does not answer in time"
											  : "it closed the connection without an answer";
	for (unsigned i = 0; i < a->bytes; i++)
		if (!a->text[i])
			a->text[i] = '?';
	a->text[a->bytes] = '\0';
}

/* "  2 job processes are considered dead", "  Missing communicator data from 2 job processes". */
static void count(struct ras_answer *a)
{
	static const char missing[] = "  Missing communicator data from ";
	char *end;

	for (const char *line = a->text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		bool silent = strncmp(line, missing, sizeof(missing) - 1) == 0;
		const char *figure = line + (silent ? sizeof(missing) - 1 : 2);
		if (strncmp(line, "  ", 2) != 0 || *figure < '0' || *figure > '9')
			continue;
		unsigned long n = strtoul(figure, &end, 10);
		if (n > 1000000 || strncmp(end, " job process", 12) != 0)
			continue;
		size_t rest = strcspn(end, "\n");
		if (silent)
			a->silent = (unsigned)n;
		else if (memmem(end, rest, " considered dead", 16))
			a->dead = (unsigned)n;
	}
}

void ras_ask(struct ras_answer *a, unsigned limit_ms, bool (*go_on)(void *), void *arg)
{
	struct question q = {-1, now_ms() + limit_ms, go_on, arg};

	a->none = a->cut = NULL;
	a->dead = a->silent = a->bytes = 0;
	a->text[0] = '\0';
	memcpy(a->where, ras.where, sizeof(a->where));
	if (!ras.addresses) {
		a->none = "that is no address with a port, and names are not looked up";
		return;
	}
	a->none = open_question(&q, limit_ms);
	if (a->none)
		return;
	/* For RAS, how long it waits for other processes. One that does not know the word is asked all the same. */
	enum greeting g = send_line(&q, "TIMEOUT 1\n", q.end) ? expect(&q, "", q.end) : CLOSED;
	if (g == SILENT || g == CLOSED || !send_line(&q, "VERBOSE STATUS\n", q.end))
		a->none = g == SILENT ? "it greets, but does not answer in time"
							  : "it closed the connection without an answer";
	else
		read_answer(&q, a);
	close(q.fd);
	count(a);
}
