/* stats_file.h - between stats.c and stats_file.c. */
#ifndef TURBO_STATS_FILE_H
#define TURBO_STATS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "stats.h"

uint64_t *stats_cell(struct stats_area *area, unsigned lane, unsigned cell);

/* This process's command line, printable, terminated; left alone when it cannot be read. */
void stats_read_command(char *out, size_t size);

/* Forked child: the published file is the parent's. True if there was one. */
bool stats_file_forget(void);

#endif
