/*
 * tune.h - every measured constant of the copy policy.
 *
 * Measured on an H200 (PCIe gen5 x16, 16 cores) with tools/bench/gpu; each can be
 * overridden with -D for a sweep.
 */
#ifndef TURBO_COPY_TUNE_H
#define TURBO_COPY_TUNE_H

/* Bytes of a ring slot, the largest chunk: at 2 MiB one DMA takes 38 us, so the
 * 1-2 us between DMAs cost < 5 %. */
#ifndef COPY_SLOT_BYTES
#define COPY_SLOT_BYTES (2u << 20)
#endif

/* First and last chunks: small, so that the first DMA starts and the last copy
 * ends soon (pipeline fill and drain). */
#ifndef COPY_FIRST_BYTES
#define COPY_FIRST_BYTES (128u << 10)
#endif

/* Default ring and the slots one copy may hold. Half, so that a second thread's
 * copy finds free ones. */
#ifndef COPY_RING_MB
#define COPY_RING_MB 64
#endif
#define COPY_SLOTS_MAX 512 /* 1 GiB of ring */
#define COPY_JOB_SLOTS_MAX 32
#ifndef COPY_JOB_SLOTS
#define COPY_JOB_SLOTS 16
#endif

/* Smallest staged copy by direction. */
#ifndef COPY_MIN_H2D
#define COPY_MIN_H2D (2u << 20)
#endif
#ifndef COPY_MIN_D2H
#define COPY_MIN_D2H (1u << 20)
#endif

/* What the driver itself may read of a pageable source before the stream's
 * earlier work is done: exactly the first 2 MiB, measured. */
#define COPY_EARLY_BYTES (2u << 20)

/* More than 8 workers gained nothing (12 equal to 8). */
#ifndef COPY_THREADS_MAX
#define COPY_THREADS_MAX 8
#endif
#define COPY_THREADS_LIMIT 64

/* A worker with nothing to do spins this long before it parks: longer than the
 * gap between chunks, short beside a batch. */
#ifndef COPY_SPIN_US
#define COPY_SPIN_US 50
#endif

#endif
