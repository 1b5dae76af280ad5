/*
 * waits.h - which threads of the program are inside a call that waits, and since when: flight_page.wait.
 *
 * A thread takes a row at its first wait and keeps it until it ends. When all are taken, further threads are not shown.
 */
#ifndef TURBO_NCCL_WAITS_H
#define TURBO_NCCL_WAITS_H

/* The first communicator has been made: from now on waits are shown. */
void waits_start(void);
void waits_fork_child(void);

#endif
