/*
 * budget.h - how much memory files may be read ahead into, and when to stop.
 */
#ifndef TURBO_FILES_BUDGET_H
#define TURBO_FILES_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that may be read ahead now: half of what the system and this process's cgroup have free or could free. 0: nothing is
 * known. System calls; no allocation. */
uint64_t budget_bytes(void);

/* Memory is short: tasks of the system waited for it lately (PSI), or little is available. */
bool budget_pressed(void);

/* For tests: read below this folder instead of /. */
extern const char *budget_root __attribute__((visibility("hidden")));

#endif
