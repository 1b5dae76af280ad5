/*
 * cpus.h - how many cores this process may count on.
 */
#ifndef TURBO_COPY_CPUS_H
#define TURBO_COPY_CPUS_H

/* Remembers the affinity mask that the process was started with. Later the main thread may
 * have been bound to one core (OMP_PROC_BIND), which says nothing about the rest. */
void cpus_start(void);
/* Gives the calling thread that mask rather than its creator's. */
void cpus_widen(void);

/* That mask and the cgroup quota, the smaller, shared among LOCAL_WORLD_SIZE ranks.
 * At least 1. Reads files: not on a hot path. */
unsigned cpus_share(void);

/* CPU quota of a cgroup v2 `cpu.max` or v1 quota and period, in cores rounded up;
 * 0: no limit. For tests. */
unsigned cpus_quota_v2(const char *cpu_max);

#endif
