/*
 * stacks_signal.h - a thread that is asked for its own frames, by a real-time signal.
 */
#ifndef TURBO_STACKS_SIGNAL_H
#define TURBO_STACKS_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#define SIGNAL_FRAMES 32
#define SIGNAL_TEXT 4096
#define SIGNAL_THREADS 16 /* asked at a time */

struct stacks_answer {
	unsigned frames;
	void *frame[SIGNAL_FRAMES]; /* the interrupted instruction first */
	unsigned bytes;             /* of lines "  python ...", 0: none */
	char text[SIGNAL_TEXT];
};

/* What became of the question. */
struct stacks_reply {
	const struct stacks_answer *answer; /* NULL: none; valid until the next call */
	const char *why;                    /* then */
};

/*
 * Asks `count` (at most SIGNAL_THREADS) threads of this process for their native frames, and for their Python frames
 * if `python`. At most `ms`. Threads that block the signal, or do not run, are left alone. One caller at a time.
 */
void stacks_signal_ask(const uint32_t *thread, unsigned count, bool python, unsigned ms,
					   struct stacks_reply *reply);

/* The handler goes away once all that were asked have answered; while one has not, it stays (a signal that nobody
 * handles would end the program). The same caller, now and then. */
void stacks_signal_settle(void);

void stacks_signal_fork_child(void);

#endif
