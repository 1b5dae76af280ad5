/* shard_name.h - numbered files: which comes before or after another. */
#ifndef TURBO_FILES_SHARD_NAME_H
#define TURBO_FILES_SHARD_NAME_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The path with the last number of its name changed by `step`, as many digits wide. Of "model-00002-of-00007.bin" the
 * first is meant. False: there is no number, or it gets wider, or too long.
 */
bool shard_name_step(const char *path, int step, char *out, size_t size);

#endif
