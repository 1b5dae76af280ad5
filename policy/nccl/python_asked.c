/*
 * python_asked.c - the interpreter's own account of its threads, under the GIL.
 *
 * No Python code runs: frames are made visible, attributes of code objects are read. The garbage collector is off
 * meanwhile, so no finalizer runs on our thread either.
 */
#include "python_gil.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"
#include "peek.h"

#define STATES 1024      /* threads of the interpreter that are looked at */
#define TEST_STATES 16   /* and compared */
#define STATE_WORDS 64   /* of a PyThreadState, where its thread's id is sought */
#define THREAD_WORDS 512 /* ints of glibc's struct pthread, where its Linux id is */

/* Offset of the pthread_t in a PyThreadState: where ours is in our own. 0: not found. */
static unsigned thread_offset(const struct python *p)
{
	uintptr_t word[STATE_WORDS] = {0};
	peek_some((uintptr_t)p->api.own_state(), word, sizeof(word));
	for (unsigned i = 2; i < STATE_WORDS; i++)
		if (word[i] == (uintptr_t)pthread_self())
			return i * (unsigned)sizeof(*word);
	return 0;
}

/* Offset of the Linux id in glibc's description of a thread, which is at the pthread_t: where two threads that know
 * theirs both have it. */
static unsigned tid_offset(pthread_t other, pid_t other_tid)
{
	int32_t mine[THREAD_WORDS] = {0}, its[THREAD_WORDS] = {0}, my_tid = (int32_t)syscall(SYS_gettid);
	peek_some((uintptr_t)pthread_self(), mine, sizeof(mine));
	peek_some((uintptr_t)other, its, sizeof(its));
	for (unsigned i = 1; i < THREAD_WORDS; i++)
		if (mine[i] == my_tid && its[i] == other_tid)
			return i * (unsigned)sizeof(*mine);
	return 0;
}

static const char *text_of(const struct python *p, void *code, const char *name, void **keep)
{
	const char *text = NULL;
	*keep = p->api.attribute(code, name);
	if (*keep)
		text = p->api.utf8(*keep);
	if (!text)
		p->api.clear_error();
	return text;
}

static void drop(const struct python *p, void *object)
{
	if (object)
		p->api.decref(object);
}

/* "FILE:LINE FUNCTION" as python_describe() writes it; false: a name is not text. */
static bool describe(const struct python *p, void *frame, struct lines *out)
{
	void *code = p->api.frame_code(frame), *file_object, *name_object;
	const char *file = text_of(p, code, "co_filename", &file_object);
	const char *name = text_of(p, code, p->version >= 0x030b ? "co_qualname" : "co_name", &name_object);
	int line = p->api.frame_line(frame);
	if (file && name) {
		size_t bytes = strlen(file);
		python_show_file(out, file, bytes);
		lines_byte(out, ':');
		lines_number(out, line > 0 ? (unsigned)line : 0);
		lines_byte(out, ' ');
		python_show_name(out, name);
	}
	drop(p, file_object);
	drop(p, name_object);
	drop(p, code);
	return file && name;
}

/* ---- asking ---- */

static struct {
	unsigned threads;
	uint32_t thread[PYTHON_STACKS];
	struct python_stacks out;
} ask;

static bool wanted(uint32_t tid)
{
	for (unsigned i = 0; i < ask.threads; i++)
		if (ask.thread[i] == tid)
			return true;
	return false;
}

static void add_frames(const struct python *p, void *state, struct lines *out)
{
	void *frame = p->api.state_frame(state);
	for (unsigned i = 0; frame && i < PYTHON_FRAMES; i++) {
		unsigned start = out->used;
		lines_string(out, "  python ");
		if (!describe(p, frame, out))
			lines_string(out, "?:0 ?");
		bool fits = lines_end(out, start);
		void *back = fits ? p->api.frame_back(frame) : NULL;
		drop(p, frame);
		frame = back;
	}
	drop(p, frame);
}

static void ask_states(const struct python *p)
{
	unsigned at = thread_offset(p), tid_at = tid_offset(python_asking.caller, python_asking.caller_tid);
	struct lines out;
	lines_begin(&out, ask.out.text, sizeof(ask.out.text));
	ask.out.count = 0;
	void *state = at && tid_at ? p->api.first_state(p->api.main_interpreter()) : NULL;
	for (unsigned i = 0; state && i < STATES && ask.out.count < PYTHON_STACKS;
		 i++, state = p->api.next_state(state)) {
		uintptr_t thread;
		uint32_t tid;
		if (!peek((uintptr_t)state + at, &thread, sizeof(thread)) ||
			!peek(thread + tid_at, &tid, sizeof(tid)) || !wanted(tid))
			continue;
		struct python_stack *s = &ask.out.stack[ask.out.count++];
		*s = (struct python_stack){.thread = tid, .at = out.used};
		out.cut = false;
		add_frames(p, state, &out);
		s->bytes = out.used - s->at;
	}
	ask.out.used = out.used;
}

const struct python_stacks *python_ask(const struct python *p, const uint32_t *threads, unsigned count,
									   unsigned ms)
{
	if (p->free_threaded || !python_job_free(&python_asking))
		return NULL;
	ask.threads = count < PYTHON_STACKS ? count : PYTHON_STACKS;
	memcpy(ask.thread, threads, ask.threads * sizeof(*threads));
	return python_with_gil(&python_asking, p, ask_states, ms) ? &ask.out : NULL;
}

/* ---- the self-test ---- */

enum verdict { UNTESTED, AGREES, DIFFERS };
static int verdict; /* release when AGREES */

bool python_readable(const struct python *p)
{
	return p->layout_known && __atomic_load_n(&verdict, __ATOMIC_ACQUIRE) == AGREES;
}

/* What came of it; logged when the GIL has been given back. */
static struct {
	unsigned compared;
	bool differs;
	char theirs[200], ours[200];
} result;

/* One frame of ours against the interpreter's. */
static bool same_frame(const struct python *p, const struct python_frame *ours, void *frame)
{
	struct lines theirs, mine;
	void *code = p->api.frame_code(frame);
	bool same = code == (void *)ours->code;
	drop(p, code);
	lines_begin(&theirs, result.theirs, sizeof(result.theirs));
	lines_begin(&mine, result.ours, sizeof(result.ours));
	bool text = describe(p, frame, &theirs);
	bool read = python_describe(p, ours, &mine);
	/* A name that is no valid text has no text of theirs. */
	return same && read && (!text || strcmp(result.theirs, result.ours) == 0);
}

static void compare(const struct python *p, void *state)
{
	struct python_frame ours[PYTHON_FRAMES];
	unsigned n = python_frames(p, state, ours, PYTHON_FRAMES), i = 0;
	void *frame = p->api.state_frame(state);
	for (; frame && i < n && !result.differs; i++) {
		result.differs = !same_frame(p, &ours[i], frame);
		void *back = p->api.frame_back(frame);
		drop(p, frame);
		frame = back;
		result.compared++;
	}
	if (i < n || (frame && n < PYTHON_FRAMES))
		result.differs = true;
	drop(p, frame);
}

static void test(const struct python *p)
{
	memset(&result, 0, sizeof(result));
	void *state = p->api.first_state(p->api.main_interpreter());
	for (unsigned i = 0; state && i < TEST_STATES && !result.differs; i++, state = p->api.next_state(state))
		compare(p, state);
	if (result.differs || result.compared)
		__atomic_store_n(&verdict, result.differs ? DIFFERS : AGREES, __ATOMIC_RELEASE);
}

bool python_self_test(const struct python *p, unsigned ms)
{
	static bool said;
	if (!p->layout_known)
		return false;
	if (python_job_free(&python_testing) && !__atomic_load_n(&verdict, __ATOMIC_RELAXED))
		python_with_gil(&python_testing, p, test, ms);
	if (!python_job_free(&python_testing))
		return true;
	int seen = __atomic_load_n(&verdict, __ATOMIC_ACQUIRE);
	if (seen == DIFFERS && !said) {
		said = true;
		log_info("Python's frames are not read without its lock: it says \"%s\", they look like \"%s\"",
				 result.theirs, result.ours);
	}
	return seen != UNTESTED;
}
