/*
 * stacks_dump.c - where the threads are now: Python first, as the interpreter or the thread itself has it, then
 * native frames.
 */
#include "stacks.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guard.h"
#include "lines.h"
#include "python_gil.h"
#include "stacks_native.h"
#include "stacks_signal.h"

#define THREADS PYTHON_STACKS

static void name_of(uint32_t thread, struct lines *out)
{
	char path[64], name[32];
	snprintf(path, sizeof(path), "/proc/self/task/%u/comm", thread);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof(name));
	if (fd >= 0)
		close(fd);
	while (n > 0 && name[n - 1] == '\n')
		n--;
	lines_text(out, n > 0 ? name : "?", n > 0 ? (size_t)n : 1);
}

static void note(struct lines *out, const char *text)
{
	unsigned start = out->used;
	lines_string(out, "  note ");
	lines_string(out, text);
	lines_end(out, start);
}

static const struct python_stack *find(const struct python_stacks *s, uint32_t thread)
{
	for (unsigned i = 0; s && i < s->count; i++)
		if (s->stack[i].thread == thread)
			return &s->stack[i];
	return NULL;
}

/* Whole lines of `text`, as many as fit. */
static void lines_of(struct lines *out, const char *text, unsigned bytes)
{
	for (unsigned at = 0; at < bytes;) {
		const char *end = memchr(text + at, '\n', bytes - at);
		unsigned n = end ? (unsigned)(end - text) - at : bytes - at, start = out->used;
		lines_text(out, text + at, n);
		if (!lines_end(out, start))
			return;
		at += n + 1;
	}
}

static void one_thread(struct lines *out, uint32_t thread, const struct python_stacks *asked,
					   const struct stacks_reply *reply)
{
	unsigned start = out->used;
	const struct python_stack *s = find(asked, thread);
	lines_string(out, "thread ");
	lines_number(out, thread);
	lines_byte(out, ' ');
	name_of(thread, out);
	if (!lines_end(out, start))
		return;
	if (s)
		lines_of(out, asked->text + s->at, s->bytes);
	else if (reply->answer)
		lines_of(out, reply->answer->text, reply->answer->bytes);
	out->cut = false;
	if (reply->answer)
		stacks_native_lines(NULL, reply->answer->frame, reply->answer->frames, out);
	else
		note(out, reply->why);
}

/* The main thread first, each once. */
static unsigned all_threads(uint32_t *all, const uint32_t *threads, unsigned count)
{
	unsigned n = 1;
	all[0] = (uint32_t)getpid();
	for (unsigned i = 0; i < count && n < THREADS; i++) {
		unsigned seen = 0;
		while (seen < n && all[seen] != threads[i])
			seen++;
		if (seen == n && threads[i])
			all[n++] = threads[i];
	}
	return n;
}

unsigned stacks_dump(char *text, unsigned size, const uint32_t *threads, unsigned count, unsigned ms)
{
	uint32_t all[THREADS];
	struct stacks_reply reply[SIGNAL_THREADS];
	struct lines out;
	unsigned n = all_threads(all, threads, count), batches = (n + SIGNAL_THREADS - 1) / SIGNAL_THREADS;
	guard_enter();
	lines_begin(&out, text, size);
	const struct python *p = python_find();
	const struct python_stacks *asked = NULL;
	if (p && python_alive(p)) {
		asked = python_ask(p, all, n, ms / 2);
		if (!asked)
			note(&out, p->free_threaded ? "Python without a GIL is not asked"
										: "Python did not answer: its lock is held");
	} else if (p) {
		note(&out, "Python is not running");
	}
	for (unsigned i = 0; i < n; i += SIGNAL_THREADS) {
		unsigned some = n - i < SIGNAL_THREADS ? n - i : SIGNAL_THREADS;
		stacks_signal_ask(all + i, some, p && !asked, ms / 2 / batches, reply);
		for (unsigned j = 0; j < some; j++)
			one_thread(&out, all[i + j], asked, &reply[j]);
	}
	guard_leave();
	return out.used;
}
