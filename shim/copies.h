/*
 * copies.h - which copy of a library a call is for.
 *
 * A process may load several copies of NCCL (a wheel's and the system's), one after the other
 * or at once, and unload them. So no slot ever holds a function of theirs: each call through an
 * exported symbol asks here. It is for the copy that it comes from, else for the first one in
 * load order. That is the one the caller would be bound to: the loader takes a dependency from
 * the first loaded object of that name, and appends to its list, so nothing gets before it.
 *
 * The function returned cannot vanish under a caller that may call it: it is in the caller's
 * own object, or in one that the caller keeps loaded.
 */
#ifndef TURBO_COPIES_H
#define TURBO_COPIES_H

#include "hooks.h"

/*
 * The function of `id` for a call from `caller` (an address in its code); NULL when no copy of
 * `library` has it. A walk over the loaded objects. Any thread, constructors and destructors
 * too; no dl* call, no allocation.
 */
void *copies_search(enum hook_id id, const char *library, const void *caller);

/*
 * What the search found for the same call from the same object, or NULL: not known. No lock,
 * some 20 ns; always NULL before glibc 2.35, which has no _dl_find_object.
 */
void *copies_recall(enum hook_id id, const void *caller);

/* Objects were unloaded: recall nothing of what was found so far. Under the list lock. */
void copies_forget(void);

#endif
