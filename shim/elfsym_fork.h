/*
 * elfsym_fork.h - walks over the loader's list, and fork().
 *
 * A walk holds the loader's list lock, and glibc does not reset that lock in a forked child.
 * If a thread of the parent holds it at fork, the child waits forever: in our walk, and in
 * the program's own dlopen(). So no fork happens during a walk of ours; and since others walk
 * too (an exception being thrown may), a child finds out before its first walk.
 */
#ifndef TURBO_ELFSYM_FORK_H
#define TURBO_ELFSYM_FORK_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

typedef int elfsym_phdr_visit(struct dl_phdr_info *info, size_t size, void *arg);
typedef int elfsym_iterate(elfsym_phdr_visit *visit, void *arg);

/*
 * As iterate(visit, arg), or 0 without a visit when the lock is stuck: what is known already is
 * all there is then. May be nested. Waits for a fork in progress, and in a child's first call
 * for the answer, each for a bounded time. Any thread; keeps errno.
 */
int elfsym_iterate_safely(elfsym_iterate *iterate, elfsym_phdr_visit *visit, void *arg);

/* False in a child that has not taken the lock yet, or cannot. */
bool elfsym_walkable(void);

/* fork.c. The first waits for other threads' walks to end; the last is async-signal-safe. */
void elfsym_fork_prepare(void);
void elfsym_fork_parent(void);
void elfsym_fork_child(void);

#endif
