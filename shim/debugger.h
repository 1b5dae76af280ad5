/*
 * debugger.h - is a memory checker or a GPU debugger with this process?
 *
 * compute-sanitizer and cuda-memcheck report uses of memory that the program has freed, and leaks;
 * under cuda-gdb freed memory must be as gone as the program believes. All of them must see
 * every allocation and every free, so policies that change these are off while one is there. CUPTI works
 * with neither of them.
 */
#ifndef TURBO_DEBUGGER_H
#define TURBO_DEBUGGER_H

#include <stdbool.h>

/*
 * Looks everywhere: the environment, the loaded objects, who traces the process. Some 100 µs;
 * for cuda_ready. What it found, a sentence for the log, or NULL. errno is kept.
 */
const char *debugger_attached(void);

/*
 * Has a debugger attached since? Two loads while no object was unloaded, so it may be asked at
 * every call that goes to the driver anyway. Any thread; needs one debugger_attached() before.
 */
bool debugger_came(void);

/* What a look goes by; for tests. */
bool debugger_is_checker(const char *file);   /* a shared object, by the last part of its path */
bool debugger_is_tracer(const char *command); /* a process, by its name in /proc */

#endif
