/*
 * budget.h - how much of the host's memory we may put things into that nobody has asked for, and when to give it back. For any
 * policy.
 */
#ifndef TURBO_BUDGET_H
#define TURBO_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* Half of what the system and this process's cgroup have free or could free, in bytes; 0: nothing is known. System calls; no
 * allocation. */
uint64_t budget_bytes(void);

/* Memory is short: tasks of the system waited for it lately (PSI), or little is available. */
bool budget_pressed(void);

/* For tests: read below this folder instead of /. */
extern const char *budget_root __attribute__((visibility("hidden")));

#endif
