/*
 * simother.c - a test's second process.
 */
#include "simother.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

struct order {
	CUdeviceptr value;
	char letter;
};
struct answer {
	CUdeviceptr value;
	CUresult result;
};

void st_other_start(struct st_other *o)
{
	int to[2], from[2];
	char in[16], out[16];
	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	snprintf(in, sizeof in, "%d", to[0]);
	snprintf(out, sizeof out, "%d", from[1]);
	o->pid = fork();
	assert_true(o->pid >= 0);
	if (o->pid == 0) {
		close(to[1]);
		close(from[0]);
		execl("/proc/self/exe", "other", in, out, (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	o->to = to[1];
	o->from = from[0];
}

static bool send_all(int fd, const void *data, size_t n)
{
	return write(fd, data, n) == (ssize_t)n;
}

static bool receive_all(int fd, void *data, size_t n)
{
	for (char *at = data; n;) {
		ssize_t got = read(fd, at, n);
		if (got <= 0)
			return false;
		at += got;
		n -= (size_t)got;
	}
	return true;
}

void st_other_send(int fd, const void *data, size_t n)
{
	assert_true(send_all(fd, data, n));
}

void st_other_receive(int fd, void *data, size_t n)
{
	assert_true(receive_all(fd, data, n));
}

void st_other_tell(struct st_other *o, char order, CUdeviceptr value)
{
	struct order sent = {value, order};
	st_other_send(o->to, &sent, sizeof sent);
}

CUresult st_other_answer(struct st_other *o, CUdeviceptr *answer)
{
	struct answer got;
	st_other_receive(o->from, &got, sizeof got);
	if (answer)
		*answer = got.value;
	return got.result;
}

CUresult st_other_ask(struct st_other *o, char order, CUdeviceptr value, CUdeviceptr *answer)
{
	st_other_tell(o, order, value);
	return st_other_answer(o, answer);
}

void st_other_stop(struct st_other *o)
{
	int status = -1;
	close(o->to);
	close(o->from);
	assert_int_equal(waitpid(o->pid, &status, 0), o->pid);
	assert_int_equal(status, 0);
}

void st_other_kill(struct st_other *o)
{
	siginfo_t info;
	kill(o->pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)o->pid, &info, WEXITED | WNOWAIT), 0);
	close(o->to);
	close(o->from);
}

int st_other_main(char **argv, CUresult (*obey)(char order, CUdeviceptr *value, int in, int out))
{
	int in = atoi(argv[1]), out = atoi(argv[2]);
	struct order order;
	if (simtest_setup(NULL))
		return 1;
	while (receive_all(in, &order, sizeof order)) {
		struct answer a = {.value = order.value};
		a.result = obey(order.letter, &a.value, in, out);
		if (!send_all(out, &a, sizeof a))
			return 1;
	}
	return simtest_teardown(NULL) ? 1 : 0;
}
