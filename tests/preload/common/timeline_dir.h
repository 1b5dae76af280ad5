/*
 * timeline_dir.h - a folder of its own for the timelines of a test program.
 */
#ifndef TURBO_TEST_TIMELINE_DIR_H
#define TURBO_TEST_TIMELINE_DIR_H

/*
 * First in main(). Runs the program again with TURBO_TIMELINE_DIR naming a new, empty folder, which is
 * removed when that has ended: true in that second process, which goes on. In the first one it is
 * false, and *status is what main() must return.
 */
_Bool timeline_dir_enter(char **argv, int *status);

#endif
