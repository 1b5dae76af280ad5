/*
 * tune.h - every measured constant of the copy policy.
 *
 * Measured on an H200 (PCIe gen5 x16, 16 cores) with tools/bench/gpu; each can be
 * overridden with -D for a sweep.
 */
#ifndef TURBO_COPY_TUNE_H
#define TURBO_COPY_TUNE_H

/* What a worker claims. Small, so that eight of them deliver in order with little
 * waiting; halved at both ends of a copy. */
#ifndef COPY_PIECE_BYTES
#define COPY_PIECE_BYTES (256u << 10)
#endif
#ifndef COPY_PIECE_MIN
#define COPY_PIECE_MIN (32u << 10)
#endif
/* What a worker claims of a result. Also the workers that take part in one: five move more
 * than the device delivers, and the rest would only spin beside them. */
#ifndef COPY_PIECE_D2H
#define COPY_PIECE_D2H (128u << 10)
#endif
#ifndef COPY_D2H_WORKERS
#define COPY_D2H_WORKERS 5
#endif
/* Of a result whose pages were never touched: faults taken a megabyte at a time are 1.5 x
 * as fast as by the page (1 GiB: 14 against 9 GB/s). */
#ifndef COPY_PIECE_FRESH
#define COPY_PIECE_FRESH (1u << 20)
#endif
#ifndef COPY_PIECE_FIRST
#define COPY_PIECE_FIRST (64u << 10)
#endif
/* Pieces that may be unfinished at a time. */
#define COPY_CELLS 256

/* The unit in which copies hold ring memory. */
#define COPY_SLOT_BYTES (1u << 20)

/* Default ring, and what one copy may hold: half, so that a second thread's copy
 * finds room. */
#ifndef COPY_RING_MB
#define COPY_RING_MB 64
#endif
#define COPY_SLOTS_MAX 1024 /* 1 GiB of ring */
#ifndef COPY_JOB_SLOTS
#define COPY_JOB_SLOTS 32
#endif
#define COPY_JOB_SLOTS_MAX 64

/* Largest DMA to the device. Each costs the device 2.6 us beside its transfer (256 KiB:
 * 36, 2 MiB: 52, 8 MiB: 54.5 of 55.4 GB/s). */
#ifndef COPY_DMA_BYTES
#define COPY_DMA_BYTES (8u << 20)
#endif
/* From the device, where the workers cannot start before a DMA has ended; and how
 * many are kept queued. */
#ifndef COPY_D2H_DMA_BYTES
#define COPY_D2H_DMA_BYTES (2u << 20)
#endif
#ifndef COPY_D2H_FIRST
#define COPY_D2H_FIRST (128u << 10)
#endif
#ifndef COPY_D2H_AHEAD
#define COPY_D2H_AHEAD 4
#endif
/* DMAs of a copy on the program's stream, where the device is not asked. */
#ifndef COPY_FEED_BYTES
#define COPY_FEED_BYTES (512u << 10)
#endif

/* Copies to the device up to this size are written to the ring past the caches. Plain
 * stores meet lines that are dirty in other cores' caches and are half as fast (16 MiB:
 * 20 against 38 GB/s) until the source has pushed these out; from there on they spare
 * the memory two of three passes (1 GiB: 53 against 45 GB/s). Not so where the pages of the
 * source are yet to be faulted in (a batch that a DataLoader worker hands over in /dev/shm): 256 MiB
 * go at 18 GB/s by plain stores and 32 past the caches. Faulting them in first, by MADV_POPULATE_READ,
 * is worse (12-25): the workers then wait for each other in the kernel. */
#ifndef COPY_STREAM_BYTES
#define COPY_STREAM_BYTES (128u << 20)
#endif

/* Smallest staged copy by direction. With the workers awake 256 KiB already gain 1.3 x and
 * 1 MiB 2 x; but the first of eight parked threads runs 19 us after its wake-up and the
 * last after 205, and below 1 MiB that is what a lone copy would be made of. */
#ifndef COPY_MIN_H2D
#define COPY_MIN_H2D (1u << 20)
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
