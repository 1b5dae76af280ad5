/* summary.h - what `turbo run` prints when its program ends. */
#ifndef TURBO_SUMMARY_H
#define TURBO_SUMMARY_H

#include <stdbool.h>

/*
 * With TURBO_SUMMARY=on, in a process that used CUDA: the policies' own lines under one
 * heading, in one write to where the log goes. When no policy did anything: silent, or with
 * `always` one line that says so. Exit path, one thread.
 */
void summary_print(bool always);

#endif
