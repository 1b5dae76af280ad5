/*
 * glibc.h - runs with glibc 2.28 and later, whichever it was built with.
 *
 * Every source of the library and the command is compiled with it (-include), but not under sanitizers, which take these
 * functions by their plain names. A program built with glibc 2.34 asks the loader for functions by the versions that they
 * got when libpthread and libdl were merged into libc; these are older names of the same functions, which newer libcs
 * keep. In an older one they are there when the process has libpthread, so they are weak: who calls one that a process
 * without threads may come to asks glibc_has_threads() first. What was inline before 2.33 is a system call here.
 * tests/preload/test_glibc.sh fails on any symbol that is newer.
 */
#ifndef TURBO_GLIBC_H
#define TURBO_GLIBC_H

#ifndef __ASSEMBLER__
#include <features.h>

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34) && !defined(TURBO_SANITIZED)

/* No more headers than these: sources have their own names for what the others declare. */
#include <asm/unistd.h>
#include <pthread.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#define GLIBC_FIRST "GLIBC_2.2.5"
#define GLIBC_2003 "GLIBC_2.3.3"
#define GLIBC_2010 "GLIBC_2.12"
#elif defined(__aarch64__)
#define GLIBC_FIRST "GLIBC_2.17"
#define GLIBC_2003 GLIBC_FIRST
#define GLIBC_2010 GLIBC_FIRST
#endif

#ifdef GLIBC_FIRST
#define GLIBC_OLD(name, version) __asm__(".symver " #name ", " #name "@" version)
#define GLIBC_WEAK(name, version) \
	GLIBC_OLD(name, version);     \
	_Pragma(GLIBC_TEXT(weak name))
#define GLIBC_TEXT(words) #words
GLIBC_OLD(dladdr, GLIBC_FIRST);
GLIBC_OLD(dlerror, GLIBC_FIRST);
GLIBC_OLD(dlinfo, GLIBC_2003);
GLIBC_OLD(dlopen, GLIBC_FIRST);
GLIBC_OLD(dlsym, GLIBC_FIRST);
GLIBC_WEAK(pthread_attr_setstacksize, GLIBC_FIRST)
GLIBC_WEAK(pthread_create, GLIBC_FIRST)
GLIBC_WEAK(pthread_join, GLIBC_FIRST)
GLIBC_WEAK(pthread_key_create, GLIBC_FIRST)
GLIBC_WEAK(pthread_mutex_timedlock, GLIBC_FIRST)
GLIBC_WEAK(pthread_mutex_trylock, GLIBC_FIRST)
GLIBC_WEAK(pthread_mutexattr_destroy, GLIBC_FIRST)
GLIBC_WEAK(pthread_mutexattr_init, GLIBC_FIRST)
GLIBC_WEAK(pthread_mutexattr_setpshared, GLIBC_FIRST)
GLIBC_WEAK(pthread_once, GLIBC_FIRST)
GLIBC_WEAK(pthread_setspecific, GLIBC_FIRST)
GLIBC_WEAK(pthread_mutex_consistent, GLIBC_2010)
GLIBC_WEAK(pthread_mutexattr_setrobust, GLIBC_2010)
GLIBC_WEAK(pthread_setname_np, GLIBC_2010)
GLIBC_WEAK(__pthread_register_cancel, GLIBC_2003)
GLIBC_WEAK(__pthread_unregister_cancel, GLIBC_2003)
GLIBC_WEAK(__pthread_unwind_next, GLIBC_2003)
#undef GLIBC_WEAK
#undef GLIBC_TEXT
#undef GLIBC_OLD

#define glibc_has_threads() (pthread_create != 0)

extern long syscall(long number, ...);

/* The kernel's struct stat is libc's on these processors. */
static inline int glibc_fstatat(int folder, const char *path, struct stat *to, int flags)
{
	return (int)syscall(__NR_newfstatat, folder, path, to, flags);
}

static inline int glibc_fstat(int fd, struct stat *to)
{
	return (int)syscall(__NR_fstat, fd, to);
}

/* Both change the calling thread's mask alone, on Linux; their results differ. */
#define pthread_sigmask(how, set, old) sigprocmask(how, set, old)
#define fstatat(folder, path, to, flags) glibc_fstatat(folder, path, to, flags)
#define fstat(fd, to) glibc_fstat(fd, to)
#define stat(path, to) glibc_fstatat(-100 /* AT_FDCWD */, path, to, 0)
#define lstat(path, to) glibc_fstatat(-100, path, to, 0x100 /* AT_SYMLINK_NOFOLLOW */)
#endif

#endif
#ifndef glibc_has_threads
#define glibc_has_threads() 1
#endif
#endif

#endif
