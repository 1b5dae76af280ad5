/* summary.h - what `turbo run` prints when its program ends. */
#ifndef TURBO_SUMMARY_H
#define TURBO_SUMMARY_H

/*
 * With TURBO_SUMMARY=on, in a process that used CUDA: the policies' own lines under one
 * heading, in one write to where the log goes. Silent when no policy did anything. Exit path,
 * one thread.
 */
void summary_print(void);

#endif
