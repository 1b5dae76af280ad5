/*
 * job.h - one tree that is being read ahead: a thread that lists it and decides, and readers.
 *
 * Started, fed and stopped by the helper's thread, whose table of descriptors the job's threads share.
 */
#ifndef TURBO_FILES_JOB_H
#define TURBO_FILES_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "track.h"

/* Takes `run`, or keeps it in mind (the newest one only) until the present one is through. */
void job_ask(const struct track_run *run, bool network);

/* The program has opened the file at the absolute `path`. True: the present tree has it, or had, if it was the last one. */
bool job_opened(const char *path);

/* Now and then: starts what is kept in mind, stops what costs too much memory. */
void job_tick(uint64_t now);

/* A job is there: job_tick() and job_opened() want to be called. */
bool job_is_busy(void);

/* Any thread: threads end at their next file. */
void job_stop(void);

/* Forked child. */
void job_fork_child(void);

#endif
