/*
 * request.h - `turbo record`: recording on demand, asked for through the stats page (shim/stats_page.h).
 *
 * The page is a file of mode 0600, so who can ask may also read the process's memory. While nothing is recorded the
 * helper sleeps in a futex on the page's word until somebody asks: nothing wakes up, no descriptor is kept, no signal
 * is used. All but request_wake() is the helper's.
 */
#ifndef TURBO_CUPTI_REQUEST_H
#define TURBO_CUPTI_REQUEST_H

#include <stdbool.h>

/* The page exists: from now on this process listens. false: it is private memory, nobody can ask. */
bool request_listen(void);
/* Sleeps until somebody asks, or so many ms (-1: for ever). */
void request_sleep(int ms);
/* Wakes the helper, for the process's own reasons. Any thread. */
void request_wake(void);
/* Looks what is asked, begins and ends recordings. */
void request_poll(void);
/* Something is still to be done for who asked: to be polled soon. */
bool request_pending(void);

#endif
