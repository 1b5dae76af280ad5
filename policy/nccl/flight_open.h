/* flight_open.h - between the policy and the flight record. */
#ifndef TURBO_FLIGHT_OPEN_H
#define TURBO_FLIGHT_OPEN_H

/* Forked child, in the atfork handler: nothing is recorded any more. */
void flight_fork_child(void);

#endif
