/*
 * record_target.h - one process that `turbo record` asks, through its stats page (shim/stats_page.h).
 *
 * Its page is mapped when it is a plain file of mode 0600 of this user (root: of anybody), is what stats_file.c takes
 * for a page of a running process, and that process has it mapped. All that is read from it is checked, because its
 * process may write what it likes. What goes wrong is said on stderr, with the process's number.
 */
#ifndef TURBO_RECORD_TARGET_H
#define TURBO_RECORD_TARGET_H

#include <sys/types.h>

#include "turbo.h"

enum target_state {
	TARGET_NONE,      /* given up, or never had */
	TARGET_IDLE,      /* ours to ask */
	TARGET_ASKED,     /* no answer yet */
	TARGET_RECORDING, /* it records, or has */
	TARGET_ENDED,     /* it has told the end */
	TARGET_LOST       /* it will not tell: `lost` says why */
};

struct target {
	uint32_t pid;
	enum target_state state;
	struct stats_header *page; /* mapped; NULL: given up */
	uint64_t start_ticks;
	uint32_t number; /* of what was asked */
	char path[4096]; /* of the page */
	dev_t dev;
	ino_t ino;
	const char *lost;
	uint64_t looked_ms, mapped_ms; /* CLOCK_MONOTONIC: when its life and its page were looked at */
	uint64_t stopped_ms;           /* since when the process is stopped, 0: it is not */
	bool seen;                     /* its recording was there, in this mount namespace */
	char file[sizeof(((struct stats_record *)0)->text)]; /* of the recording; printable */
	char end_text[sizeof(((struct stats_record *)0)->end_text)];
};

struct target_wish {
	const char *dir; /* absolute, shorter than stats_record.dir */
	uint32_t mode;   /* enum timeline_mode */
	uint32_t ms;
};

/* Finds the page, maps it, and makes this process the one that asks; false: refused, which was said. */
bool target_open(struct target *t);
/* Asks for a recording. */
void target_ask(struct target *t, const struct target_wish *wish);
/* ASKED: looks for the answer. It becomes RECORDING, or is refused and given up. */
void target_hear(struct target *t);
/* RECORDING: looks for the end. It becomes ENDED or LOST. */
void target_watch(struct target *t);
/* Asks for the end of what was asked for, heard or not. */
void target_stop(struct target *t);
/* Says why, and gives up: what was asked for is taken back. */
void target_refuse(struct target *t, const char *why);
/* The recording is not where it was: its folder was removed. */
bool target_file_gone(const struct target *t);
/* It may be asked by others. Nothing when it has been given up. */
void target_leave(struct target *t);

uint64_t target_now_ms(void); /* CLOCK_MONOTONIC */

#endif
