/* flight_open.h - between the policy and the flight record. */
#ifndef TURBO_FLIGHT_OPEN_H
#define TURBO_FLIGHT_OPEN_H

#include <stdbool.h>

/* Whether calls are recorded. Any thread. */
void flight_switch(bool on);

/* Forked child, in the atfork handler: nothing is recorded any more. */
void flight_fork_child(void);

#endif
