/*
 * torch_env.c - see torch_env.h.
 *
 * PyTorch reads the variable in static initialisers of libc10_cuda.so, so it is there from
 * our constructor on until that library is loaded and memory is first asked for (or cuInit is
 * called). A child started meanwhile inherits it together with TURBO_DEVMEM=stream: it would have
 * set it itself; so would one that is given a copy of os.environ (shim/own_env.c).
 */
#define _GNU_SOURCE
#include "torch_env.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "elfsym.h"
#include "log.h"
#include "own_env.h"

static struct own_env entry = OWN_ENV("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync");

static bool is_python(void)
{
	return strncmp(program_invocation_short_name, "python", strlen("python")) == 0;
}

void torch_env_start(void)
{
	if (is_python() && !getenv("PYTORCH_CUDA_ALLOC_CONF") && !getenv("PYTORCH_ALLOC_CONF"))
		own_env_put(&entry);
}

static int is_torch(struct elfsym_object *object, unsigned index, void *arg)
{
	(void)index;
	(void)arg;
	return elfsym_named(object, "libc10_cuda.so");
}

void torch_env_done(void)
{
	if (own_env_there(&entry) && elfsym_walk(is_torch, NULL) && own_env_take(&entry))
		log_info("devmem: PyTorch uses backend:cudaMallocAsync, which TURBO_DEVMEM=stream serves");
}
