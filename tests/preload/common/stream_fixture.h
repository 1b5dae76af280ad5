/*
 * stream_fixture.h - what the test_devmem_stream programs share, on top of copy_fixture.h.
 */
#ifndef TURBO_TEST_STREAM_FIXTURE_H
#define TURBO_TEST_STREAM_FIXTURE_H

#include "copy_fixture.h"

/* Opens the driver and sets sim_total. */
void stream_open(void);
/* Calls of all driver functions; NULL where the driver is not the simulated one. */
extern uint64_t (*sim_total)(void);
/* Physical bytes of a device that this process holds; NULL as above. */
extern uint64_t (*sim_bytes)(int device);

/* Around a test: the end wants the heap to have served something (preloaded), and no mistakes. */
int stream_begin(void **state);
int stream_end(void **state);
int stream_end_any(void **state);
#define SERVED(f) cmocka_unit_test_setup_teardown(f, stream_begin, stream_end)
#define ANY(f) cmocka_unit_test_setup_teardown(f, stream_begin, stream_end_any)

CUdeviceptr alloc_on(CUstream s, size_t bytes);
void free_on(CUstream s, CUdeviceptr p);
CUstream stream_new(void); /* non-blocking */
/* Lets kernels of launch_spin_flag() go on; the next launch_spin_flag() spins again after
 * flag_reset(), which waits for all of them. */
void flag_raise(void);
void flag_reset(void);
cuuint64_t pool_number(CUmemoryPool pool, CUmemPool_attribute which);
CUmemoryPool default_pool(int device);

#endif
