/*
 * modes.h - the same test in each mode of TURBO_DEVMEM, each in a process of its own.
 */
#ifndef TURBO_TEST_MODES_H
#define TURBO_TEST_MODES_H

/*
 * Preloaded and TURBO_DEVMEM not set: runs this program once in each mode and returns the status to end
 * with: 0, 77 when each run was skipped, else that of a failed one. Otherwise -1: go on. First in main.
 */
int modes_main(char **argv);

#endif
