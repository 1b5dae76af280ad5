/*
 * learn_file.h - the folder of lists: which is this command's, read and written whole or not at all.
 */
#ifndef TURBO_FILES_LEARN_FILE_H
#define TURBO_FILES_LEARN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where lists are and which one is this command's. Constructor, because of the environment. False: there is no place. */
bool learn_file_start(void);
/* The command as a number. */
uint64_t learn_file_command(void);

/* The list, in memory of mmap()'s of `*room` bytes; NULL: there is none that is ours and of a bounded size. */
char *learn_file_read(size_t *size, size_t *room);

/* In place of the one that is there. The oldest lists beyond LEARN_LISTS are removed. */
bool learn_file_write(const char *text, size_t size);

/* The part of a command line (NUL-terminated arguments) that says what is run: up to the first that is no option, and what
 * follows a -m or -c. Its number: digits in code count for nothing, descriptors stand there. */
uint64_t learn_file_number(const char *program, const char *arguments, size_t size);

#endif
