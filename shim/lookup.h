/*
 * lookup.h - dlsym, dlvsym and dlopen of the program, and who gets our functions.
 *
 * The exported stubs (stubs_*.S) ask the functions below and then jump to the real function
 * with the caller's arguments and return address untouched, or return a value. So an unknown
 * name behaves as if we were not there: RTLD_NEXT, RTLD_DEFAULT and RUNPATH, which depend on
 * who calls, mean what they meant.
 *
 * A hooked name is looked up for real, and the answer is replaced by ours when it is the
 * provider's own function and the caller is neither the driver nor a profiler. Names that
 * libturbo exports are not found in libturbo: the program must not see a function whose
 * library is not there.
 */
#ifndef TURBO_LOOKUP_H
#define TURBO_LOOKUP_H

#include <stdbool.h>

/* The constructor: `substitute` false leaves every answer real (TURBO=off). Before it, answers
 * are replaced, because what a program resolves early is never seen again. */
void lookup_start(bool substitute);

/* The functions of libc (or libdl), for our own use: as called from libturbo. NULL or failure
 * where they cannot be found. dlerror moves as it does for any caller. */
void *lookup_real_dlopen(const char *file, int mode);
void *lookup_real_dlsym(void *handle, const char *name);

/* Answers to `caller` (any address in its code) stay real: it is the driver, a profiler, a
 * debugger, or libturbo. Any thread, no allocation; one walk a new caller, cached. */
bool lookup_leaves_alone(const void *caller);

/* `caller` is NCCL's own code, or a plugin's. Any thread, no allocation, no lock where the answer is cached. */
bool lookup_is_nccl(const void *caller);

/* What a stub does: jump != NULL: go there, with `value` as first argument (dlsym, dlvsym) or
 * mode (dlopen); else return `value`. In two registers. */
struct lookup_route {
	void *jump;
	void *value;
};

/* The real dlsym, dlvsym and dlopen; NULL before the first use. The dlsym stub goes to the first
 * one at once when the name's first two letters begin no name in hook_table. */
extern void *lookup_loader_fns[] __attribute__((visibility("hidden")));

/* For the stubs; `caller` is the program's return address. */
struct lookup_route lookup_dlsym(void *handle, const char *name, const void *caller);
struct lookup_route lookup_dlvsym(void *handle, const char *name, const char *version, const void *caller);
struct lookup_route lookup_dlopen(int mode);

#endif
