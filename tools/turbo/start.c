/*
 * start.c - how the command is started by a libc older than the one that it was built with.
 *
 * What the linker puts before main() asks for __libc_start_main as it is since glibc 2.34; the one before takes the same
 * arguments, and newer libcs keep it. The Makefile links with --wrap.
 */
#include "../../shim/glibc.h"

#ifndef TURBO_SANITIZED
typedef int main_fn(int argc, char **argv, char **environment);
typedef void end_fn(void);
typedef int start_fn(main_fn *main, int argc, char **argv, main_fn *init, end_fn *fini, end_fn *loader_fini,
					 void *stack_end);

#ifdef GLIBC_FIRST
start_fn start_old;
__asm__(".symver start_old, __libc_start_main@" GLIBC_FIRST);
#else
start_fn __real___libc_start_main;
#define start_old __real___libc_start_main
#endif

start_fn __wrap___libc_start_main;
int __wrap___libc_start_main(main_fn *main, int argc, char **argv, main_fn *init, end_fn *fini,
							 end_fn *loader_fini, void *stack_end)
{
	return start_old(main, argc, argv, init, fini, loader_fini, stack_end);
}
#endif
