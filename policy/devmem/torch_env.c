/*
 * torch_env.c - see torch_env.h.
 *
 * PyTorch reads the variable in static initialisers of libc10_cuda.so, so it is there from
 * our constructor on until that library is loaded and memory is first asked for (or cuInit is
 * called). A child started meanwhile inherits it together with TURBO_DEVMEM=stream: it would have
 * set it itself.
 *
 * Taking it out. Other threads may be in getenv() by then, and in setenv(), which moves the list, so
 * neither unsetenv() nor a write into the list is safe. The entry's text is ours, though, and
 * stays where it is: it is overwritten in place with a mark that every engaged process has
 * anyway. A reader sees one or the other name, or a mixture that is nobody's; the text is
 * terminated at all times. If the program has set the variable anew, its own text is in the
 * list and ours is in nobody's way.
 *
 * Python copies the list when it starts, so os.environ keeps the variable, and a child that is
 * given a copy of os.environ gets it, again beside TURBO_DEVMEM=stream.
 */
#define _GNU_SOURCE
#include "torch_env.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "elfsym.h"
#include "log.h"

static char entry[] = "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync";
static const char mark[] = "TURBO_ENGAGED=1"; /* shim/init.c */
_Static_assert(sizeof(mark) <= sizeof(entry), "the mark fits into the entry");

static int pending; /* the entry may be in the environment; relaxed, swapped by who takes it out */

static bool is_python(void)
{
	return strncmp(program_invocation_short_name, "python", strlen("python")) == 0;
}

void torch_env_start(void)
{
	if (!is_python() || getenv("PYTORCH_CUDA_ALLOC_CONF") || getenv("PYTORCH_ALLOC_CONF"))
		return;
	if (putenv(entry) == 0)
		__atomic_store_n(&pending, 1, __ATOMIC_RELAXED);
}

static int is_torch(struct elfsym_object *object, unsigned index, void *arg)
{
	(void)index;
	(void)arg;
	return elfsym_named(object, "libc10_cuda.so");
}

void torch_env_done(void)
{
	if (!__atomic_load_n(&pending, __ATOMIC_RELAXED) || !elfsym_walk(is_torch, NULL))
		return;
	if (!__atomic_exchange_n(&pending, 0, __ATOMIC_RELAXED))
		return;
	/* The name first: from then on nobody finds it. The terminating zero last. */
	for (unsigned i = 0; i < sizeof(mark); i++)
		__atomic_store_n(&entry[i], mark[i], __ATOMIC_RELAXED);
	log_info("devmem: PyTorch uses backend:cudaMallocAsync, which TURBO_DEVMEM=stream serves");
}
