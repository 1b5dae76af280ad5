/* tune.h - every number that was chosen or measured. */
#ifndef TURBO_FILES_TUNE_H
#define TURBO_FILES_TUNE_H

#define FILES_KIB ((uint64_t)1 << 10)
#define FILES_MIB ((uint64_t)1 << 20)
#define FILES_MS ((uint64_t)1000000)

/* ---- what is a run of reads ---- */

#define TRACK_DIRS 256       /* directories that are being counted */
#define TRACK_FILES 16       /* files of one directory until it is read ahead */
#define TRACK_CHILDREN 8     /* directories below one, and */
#define TRACK_CHILD_FILES 32 /* files in them, until all of them are */
#define TRACK_EXTENSIONS 8   /* kinds of files that are remembered for each */

/* ---- trees ---- */

#define TREE_FILES ((uint32_t)2 << 20)     /* more are left alone */
#define TREE_NAME_BYTES ((size_t)96 << 20) /* so are names beyond this */
#define TREE_DIRS ((uint32_t)64 << 10)

/* Files read ahead: so many at first, and so many more for each one that the program opens. A program that has
 * looked at some files and goes on to other things costs no more than this. */
#define JOB_LEAD_FILES 256
#define JOB_LEAD_PER_OPEN 64
#define JOB_IDLE_NS (10000 * FILES_MS) /* the program has opened nothing below it for so long: given up */
#define JOB_READERS 4    /* readahead() asks and goes on: it is directories and inodes that are waited for */
#define JOB_SIZE_TIMES 8 /* files larger than so many times the largest opened one are left alone, */
#define JOB_SIZE_LEAST (FILES_MIB)  /* but not below this */
#define JOB_FLIGHT (16 * FILES_MIB) /* bytes asked for between two waits for the disk */

/* The kernel cuts a readahead() at the device's limits, 128 KiB by default, and says nothing. */
#define READ_CHUNK (128 * FILES_KIB)

/* ---- directories that are left alone for a while ---- */

#define QUIET_CLAIM_MS \
	100 /* from a process's first opens to the verdict about their directory, and some more */
#define QUIET_HOLD_MS \
	500 /* after this a process that reads ahead, and has not said so again, is taken for dead */
#define QUIET_MS 1000   /* nothing to be done there: until the next look, and twice as long after each */
#define QUIET_TIMES 3   /* but not more often than so */
#define QUIET_BLOCKS 64 /* of 512 bytes that the process has had from disks since: not all was in memory */

/* ---- memory ---- */

#define MEMORY_CHECK_NS (100 * FILES_MS)

/* ---- large files ---- */

#define SHARD_BYTES (32 * FILES_MIB) /* smaller ones are read whole by a tree */
#define SHARD_FILES 16               /* watched at a time */
#define SHARD_WINDOW_LEAST (16 * FILES_MIB)
#define SHARD_WINDOW_MOST (128 * FILES_MIB)
#define SHARD_KERNEL_KIB 2048 /* where the kernel reads ahead so far by itself, streams are left to it */

/* ---- the thread ---- */

#define HELPER_POLL_NS (5 * FILES_MS)  /* while files are being opened */
#define HELPER_SLOW_NS (50 * FILES_MS) /* a little later */
#define HELPER_SLOW_AFTER_NS (100 * FILES_MS)
#define HELPER_PARK_AFTER_NS (400 * FILES_MS) /* then it sleeps until the next one */

/* ---- learned start-up ---- */

#define LEARN_FILES 4096
#define LEARN_BYTES (512u << 10)    /* of names, and of a list's file */
#define LEARN_NS (60000 * FILES_MS) /* what is opened later is not start-up */
#define LEARN_LISTS 64              /* files of lists that a user keeps */
#define LEARN_READERS 8
#define LEARN_RANGES 32 /* parts of one file */

#endif
