/*
 * torch_env.h - PyTorch is put on the allocator that TURBO_DEVMEM=stream serves.
 */
#ifndef TURBO_DEVMEM_TORCH_ENV_H
#define TURBO_DEVMEM_TORCH_ENV_H

/* Constructor, one thread, in mode `stream` when the user named it: in a python process whose
 * environment does not configure PyTorch's allocator, PYTORCH_CUDA_ALLOC_CONF is set. */
void torch_env_start(void);

/* PyTorch may have read it: when its library is there, the variable is taken out again. Slow paths
 * only; any thread; costs one load once that is done. */
void torch_env_done(void);

#endif
