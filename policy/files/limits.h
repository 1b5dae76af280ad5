/* limits.h - what the system allows a process, where loaders run into it. */
#ifndef TURBO_FILES_LIMITS_H
#define TURBO_FILES_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

/* The soft limit of open files that is asked for under `limit`; equal to the present one: none. */
rlim_t limits_wanted(const struct rlimit *limit);

/* Constructor. */
void limits_start(void);

/* The program has made an object of shared memory. Says once, for it and all its forked children, that there is too little. */
void limits_shared_memory(void);

/* What is said about a /dev/shm of `size` bytes of which `left` are free: false: nothing. */
bool limits_shared_text(uint64_t size, uint64_t left, char *out, size_t room);

#endif
