/*
 * watch.h - is CUPTI still recording? A client that our hooks do not see can take it away without a word.
 *
 * Launches that our hooks count, and neither a record nor a byte in the buffers that CUPTI holds for ten seconds: the
 * capture is lost. It is said once, and the time is marked in the file. The helper.
 */
#ifndef TURBO_CUPTI_WATCH_H
#define TURBO_CUPTI_WATCH_H

void watch_start(void);
/* Each second. */
void watch_tick(void);
void watch_stop(void);

#endif
