/* NATIVE: it unwinds from handlers, and other stacks. */
/* test_stacks.c - sites and dumps of a process without Python; signals that nobody loses; tables and memory that lie. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "nccl/peek.h"
#include "nccl/python.h"
#include "nccl/stacks.h"
#include "nccl/stacks_signal.h"

static struct flight_page *page;

static uint32_t site(uintptr_t frame)
{
	return stacks_site(page, site, (const void *)frame);
}

static const char *text(uint32_t at)
{
	assert_in_range(at, 1, FLIGHT_SITE_BYTES);
	return page->sites + at - 1;
}

static void nothing_before_it_was_looked_for(void **state)
{
	(void)state;
	assert_int_equal(site(8), 0);
	assert_int_equal(stacks_python(), 0);
	assert_int_not_equal(site(8), 0);
	assert_int_equal(stacks_site(NULL, site, &page), 0);
}

static void a_stack_has_one_site(void **state)
{
	(void)state;
	uint32_t a = site(0x1000), b = site(0x2000), used = page->site_bytes;
	assert_int_not_equal(a, b);
	errno = ERANGE;
	assert_int_equal(site(0x1000), a);
	assert_int_equal(site(0x2000), b);
	assert_int_equal(errno, ERANGE);
	assert_int_equal(page->site_bytes, used);
	assert_non_null(strstr(text(a), "  native "));
	assert_null(strstr(text(a), "  python "));
}

/* Until all are known: while another thread makes a text, a new stack is not. */
static void *the_same(void *arg)
{
	uint32_t *got = arg;
	for (unsigned round = 0, known = 0; known < 8 * 1000 && round < 100000; round++) {
		for (unsigned i = 0; i < 8; i++) {
			uint32_t s = site(0x100000 + i * 16);
			if (s && got[i] && s != got[i])
				got[8] = 1;
			got[i] = s ? s : got[i];
			known = s ? known + 1 : 0;
		}
		if (!known)
			usleep(100);
	}
	return NULL;
}

static void threads_agree(void **state)
{
	pthread_t thread[4];
	static uint32_t got[4][9];
	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, the_same, got[i]), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 4; i++) {
		assert_memory_equal(got[i], got[0], sizeof(got[0]));
		assert_int_equal(got[i][8], 0);
	}
	for (int i = 0; i < 8; i++)
		assert_non_null(strstr(text(got[0][i]), "  native "));
}

static void room_ends(void **state)
{
	unsigned known = 0, unknown = 0;
	(void)state;
	for (uintptr_t i = 0; i < 4000; i++) {
		uint32_t s = site(0x500000 + i * 8);
		known += s != 0;
		unknown += s == 0;
		if (s)
			assert_true(s - 1 + strlen(text(s)) < FLIGHT_SITE_BYTES);
	}
	assert_in_range(known, 100, 1100);
	assert_in_range(unknown, 1000, 4000);
	assert_true(page->site_bytes <= FLIGHT_SITE_BYTES);
	assert_int_not_equal(site(0x500000), 0);
	/* Each text ends in one line's end. */
	for (uint32_t at = 0; at < page->site_bytes; at += (uint32_t)strlen(page->sites + at) + 1)
		if (page->sites[at])
			assert_int_equal(page->sites[at + strlen(page->sites + at) - 1], '\n');
}

/* ---- dumps ---- */

struct other {
	pthread_t thread;
	_Atomic pid_t tid;
	bool deaf, spins;
};
static atomic_bool stop;

static void *other(void *arg)
{
	struct other *o = arg;
	sigset_t all;
	sigfillset(&all);
	if (o->deaf)
		pthread_sigmask(SIG_BLOCK, &all, NULL);
	o->tid = gettid();
	while (!stop)
		if (!o->spins)
			usleep(1000);
	return NULL;
}

static void start(struct other *o, bool deaf, bool spins)
{
	*o = (struct other){.deaf = deaf, .spins = spins};
	stop = false;
	assert_int_equal(pthread_create(&o->thread, NULL, other, o), 0);
	while (!o->tid)
		usleep(100);
}

static int handlers(void)
{
	int n = 0;
	for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++) {
		struct sigaction a;
		n += sigaction(sig, NULL, &a) == 0 && a.sa_handler != SIG_DFL;
	}
	return n;
}

static char out[64 << 10];

/* The watch's thread. */
struct asked {
	uint32_t thread[80];
	unsigned count, ms, bytes;
};

static void *asks(void *arg)
{
	struct asked *a = arg;
	a->bytes = stacks_dump(out, sizeof(out), a->thread, a->count, a->ms);
	return NULL;
}

static const char *dump(struct asked *a)
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, asks, a), 0);
	pthread_join(thread, NULL);
	assert_int_equal(a->bytes, strlen(out));
	return out;
}

/* The lines of one thread. */
static char *lines_of(uint32_t tid)
{
	static char copy[8192];
	char head[32];
	snprintf(head, sizeof(head), "thread %u ", tid);
	const char *at = strstr(out, head);
	assert_non_null(at);
	const char *end = strstr(at + 1, "thread ");
	snprintf(copy, sizeof(copy), "%.*s", (int)(end ? end - at : (long)strlen(at)), at);
	return copy;
}

static void a_dump_shows_each_thread(void **state)
{
	struct other o[3];
	(void)state;
	start(&o[0], false, false);
	start(&o[1], false, true);
	start(&o[2], true, false);
	struct asked a = {
		{(uint32_t)o[0].tid, (uint32_t)o[1].tid, (uint32_t)o[2].tid, (uint32_t)getpid(), 1}, 5, 2000, 0};
	dump(&a);
	assert_non_null(strstr(lines_of((uint32_t)getpid()), "  native "));
	assert_non_null(strstr(lines_of((uint32_t)o[0].tid), "  native libc"));
	assert_non_null(strstr(lines_of((uint32_t)o[1].tid), "  native "));
	assert_non_null(strstr(lines_of((uint32_t)o[2].tid), "  note it blocks signals\n"));
	assert_non_null(strstr(lines_of(1), "  note it is gone\n"));
	assert_int_equal(handlers(), 0);
	stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(o[i].thread, NULL);
}

static void no_more_threads_than_there_is_room(void **state)
{
	struct asked a = {.count = 80, .ms = 100};
	(void)state;
	for (unsigned i = 0; i < 80; i++)
		a.thread[i] = 1000000000 + i;
	dump(&a);
	char small[64];
	assert_in_range(stacks_dump(small, sizeof(small), a.thread, 80, 10), 0, 63);
	assert_int_equal(stacks_dump(small, 0, a.thread, 1, 10), 0);
}

/* A question whose time is over is answered later; the handler stays so long. */
static void a_late_answer_harms_nobody(void **state)
{
	struct other o;
	struct stacks_reply reply;
	(void)state;
	start(&o, false, true);
	for (int i = 0; i < 300; i++)
		stacks_signal_ask((uint32_t[]){(uint32_t)o.tid}, 1, true, 0, &reply);
	for (int i = 0; i < 1000 && handlers(); i++) {
		usleep(1000);
		stacks_signal_settle();
	}
	assert_int_equal(handlers(), 0);
	stop = true;
	pthread_join(o.thread, NULL);
}

static atomic_int program_calls;
static void program_handler(int sig)
{
	(void)sig;
	program_calls++;
}

static void a_signal_of_the_programs_is_left_to_it(void **state)
{
	struct sigaction mine = {.sa_handler = program_handler}, was;
	struct stacks_reply reply;
	struct other o;
	(void)state;
	start(&o, false, false);
	for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++)
		assert_int_equal(sigaction(sig, &mine, NULL), 0);
	stacks_signal_ask((uint32_t[]){(uint32_t)o.tid}, 1, false, 500, &reply);
	assert_null(reply.answer);
	assert_string_equal(reply.why, "no real-time signal is free");
	signal(SIGRTMIN + 3, SIG_DFL);
	stacks_signal_ask((uint32_t[]){(uint32_t)o.tid}, 1, false, 5000, &reply);
	assert_non_null(reply.answer);
	assert_in_range(reply.answer->frames, 2, SIGNAL_FRAMES);
	for (int sig = SIGRTMIN; sig <= SIGRTMAX; sig++) {
		assert_int_equal(sigaction(sig, NULL, &was), 0);
		assert_true(was.sa_handler == (sig == SIGRTMIN + 3 ? SIG_DFL : program_handler));
		signal(sig, SIG_DFL);
	}
	assert_int_equal(program_calls, 0);
	stop = true;
	pthread_join(o.thread, NULL);
}

static void a_forked_child_is_off(void **state)
{
	int status;
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		alarm(20);
		stacks_fork_child();
		_exit(site(0x1000) == 0 && stacks_python() == 0 && site(0x1000) != 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- what lies ---- */

static uint64_t dice = 88172645463325252u;
static uint64_t roll(void)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	return dice ^= dice << 17;
}

static void absent_memory_is_no_fault(void **state)
{
	char to[16];
	size_t size = (size_t)getpagesize();
	char *at = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)state;
	assert_true(at != MAP_FAILED);
	munmap(at + size, size);
	errno = ERANGE;
	assert_true(peek((uintptr_t)at + size - 16, to, 16));
	assert_false(peek((uintptr_t)at + size - 15, to, 16));
	assert_int_equal(peek_some((uintptr_t)at + size - 15, to, 16), 15);
	assert_false(peek(0, to, 1));
	assert_false(peek(UINTPTR_MAX - 3, to, 16));
	assert_int_equal(errno, ERANGE);
	munmap(at, size);
}

static int yes(void)
{
	return 1;
}

#define ARENA (1u << 16)

/* A heap in which every word is a pointer into it, an odd number or a type, read with every version's layout. */
static void nonsense_is_no_stack(void **state)
{
	static const uint32_t version[] = {0x0309, 0x030a, 0x030b, 0x030c};
	struct python_frame frame[PYTHON_FRAMES];
	char buf[400];
	bool threads;
	char *heap = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned found = 0;
	(void)state;
	assert_true(heap != MAP_FAILED);
	print_message("seed %llu\n", (unsigned long long)dice);
	for (int round = 0; round < 300; round++) {
		struct python p = {.layout_known = true};
		assert_true(python_layout_find(&p.layout, version[round % 4], heap, &threads));
		p.api.code_type = heap + 64;
		p.api.text_type = heap + 128;
		p.api.bytes_type = heap + 192;
		p.api.initialized = yes;
		for (unsigned i = 0; i < ARENA; i += 8) {
			uint64_t r = roll(), word = (uintptr_t)heap + r % ARENA / 8 * 8;
			unsigned what = r >> 32 & 15;
			if (what == 0)
				word = r;
			else if (what < 4)
				word = r % 200;
			else if (what < 10)
				word = (uintptr_t)heap + 64 * (1 + r % 3);
			memcpy(heap + i, &word, 8);
		}
		for (int i = 0; i < 40; i++) {
			struct lines l;
			unsigned n = python_frames(&p, heap + roll() % ARENA / 8 * 8, frame, PYTHON_FRAMES);
			found += n;
			assert_in_range(n, 0, PYTHON_FRAMES);
			for (unsigned j = 0; j < n; j++) {
				lines_begin(&l, buf, sizeof(buf));
				python_describe(&p, &frame[j], &l);
				assert_true(l.used < sizeof(buf) && strlen(buf) == l.used);
				assert_null(strchr(buf, '\n'));
			}
		}
	}
	assert_true(found > 100); /* else it tries nothing */
	munmap(heap, ARENA);
}

static void a_published_layout_must_fit(void **state)
{
	struct python_layout l;
	uint64_t word[64] = {0};
	bool threads;
	(void)state;
	assert_false(python_layout_find(&l, 0x030d, word, &threads));
	memcpy(word, "xdebugpy", 8);
	word[1] = 0x030e00f0;
	assert_false(python_layout_find(&l, 0x030d, word, &threads));
	word[1] = 0x030d00f0;
	assert_true(python_layout_find(&l, 0x030d, word, &threads));
	word[23] = 1 << 20;
	assert_false(python_layout_find(&l, 0x030d, word, &threads));
	word[23] = 72;
	word[2] = 1;
	assert_false(python_layout_find(&l, 0x030d, word, &threads));
	assert_true(threads);
	assert_false(python_layout_find(&l, 0x0311, word, &threads));
	assert_false(python_layout_find(&l, 0x0308, word, &threads));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_before_it_was_looked_for),
		cmocka_unit_test(a_stack_has_one_site),
		cmocka_unit_test(threads_agree),
		cmocka_unit_test(room_ends),
		cmocka_unit_test(a_dump_shows_each_thread),
		cmocka_unit_test(no_more_threads_than_there_is_room),
		cmocka_unit_test(a_late_answer_harms_nobody),
		cmocka_unit_test(a_signal_of_the_programs_is_left_to_it),
		cmocka_unit_test(a_forked_child_is_off),
		cmocka_unit_test(absent_memory_is_no_fault),
		cmocka_unit_test(nonsense_is_no_stack),
		cmocka_unit_test(a_published_layout_must_fit),
	};
	page = calloc(1, sizeof(*page));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
