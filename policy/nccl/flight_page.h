/*
 * flight_page.h - layout of a flight file: what one process has asked of NCCL, and how far it got.
 *
 * One file a process, written by it alone, read by the other ranks of the user on the machine and by `turbo nccl`.
 * The program's threads never touch it: they write into memory of their own (flight_page()), and a thread of ours
 * copies what has changed into the file every FLIGHT_COPY_MS, with pwrite(). So a file that somebody truncates or
 * deletes, a full disk and a dead file server cost the readers, never the program (a store into a mapping would be
 * SIGBUS), and one that is gone is made anew under its name. A killed process leaves it behind, at most that old.
 * The writer keeps one page of the file mapped, without access: who execs has it no longer (proc_maps()).
 *
 * Readers use pread(), not a mapping, for the same reason, and trust nothing: every index, length and text is
 * checked. Of a changing record the odd `version` is in the file before its new content, the even one after it: a
 * copy is whole when its version is even and, read again afterwards, still the same. So too with `life`.
 *
 * Times are ns of CLOCK_MONOTONIC, which all processes of a machine share; 0: not yet. Integers are little-endian.
 * Fields marked _Atomic change while others read, relaxed unless said.
 */
#ifndef TURBO_FLIGHT_PAGE_H
#define TURBO_FLIGHT_PAGE_H

#include <stdatomic.h>
#include <stdint.h>

#define FLIGHT_MAGIC "TURBOFL1"
#define FLIGHT_VERSION 1
/* In /dev/shm, else TMPDIR, else /tmp; (uid, pid) as printf's %u and %d. */
#define FLIGHT_FILE_FORMAT "turbo-%u-%d.flight"

#define FLIGHT_COPY_MS 50
#define FLIGHT_COMMS 128 /* communicators alive at once; later ones are counted, not recorded */
/* Newest operations of a communicator that are kept; a power of two. The driver queues as many launches, then the next
 * one waits: what is open is always among them. */
#define FLIGHT_OPS 1024
#define FLIGHT_WAITS 64 /* threads whose waits are shown */
#define FLIGHT_SITE_BYTES (256 << 10)
#define FLIGHT_DUMP_BYTES (64 << 10)

enum flight_function {
	FLIGHT_NONE,
	FLIGHT_ALL_GATHER,
	FLIGHT_ALL_REDUCE,
	FLIGHT_ALL_TO_ALL,
	FLIGHT_BROADCAST,
	FLIGHT_GATHER,
	FLIGHT_REDUCE,
	FLIGHT_REDUCE_SCATTER,
	FLIGHT_SCATTER,
	FLIGHT_SEND,
	FLIGHT_RECV,
	FLIGHT_PUT_SIGNAL,
	FLIGHT_SIGNAL,
	FLIGHT_WAIT_SIGNAL,
	/* Calls that all ranks of a communicator make: numbered with its collectives. */
	FLIGHT_INIT,
	FLIGHT_SPLIT,
	FLIGHT_SHRINK,
	FLIGHT_GROW,
	FLIGHT_FINALIZE,
	FLIGHT_DESTROY,
	/* A launch of a CUDA graph that holds collectives of this communicator: one operation of it. */
	FLIGHT_GRAPH,
	FLIGHT_FUNCTIONS
};

/* flight_op.flags */
#define FLIGHT_GROUPED 0x01u  /* between ncclGroupStart and ncclGroupEnd */
#define FLIGHT_CAPTURED 0x02u /* recorded into a graph: does not run by itself */
#define FLIGHT_FAILED 0x04u   /* NCCL refused it */
#define FLIGHT_BLIND 0x08u    /* nothing tells when it starts and ends on the GPU */

struct flight_op {
	_Atomic uint32_t version; /* odd while the issuing thread writes; release and acquire */
	uint32_t sequence; /* number among the communicator's collective calls, from 1; 0: not a collective one */
	uint32_t pair;     /* number among the sends to `peer`, or the receives from it, from 1; else 0 */
	uint16_t function; /* enum flight_function */
	uint8_t type, flags;   /* ncclDataType_t */
	uint64_t index;        /* number among the communicator's operations in this process, from 1 */
	uint64_t count, bytes; /* elements; bytes as the caller counts them, 0: not known */
	int32_t peer;          /* root or peer; -1: none */
	uint16_t reduction;    /* ncclRedOp_t; 0xffff: made by the user, or none */
	uint16_t grouped;      /* operations of the group so far, this one included; 0: not in a group */
	uint32_t group;        /* number of the process's group; 0: none */
	uint32_t thread;       /* Linux thread id of the issuer */
	uint32_t site;         /* byte offset + 1 in `sites` of the stack that issued it; 0: not known */
	uint32_t launch;       /* who knows about its events, progress.c */
	uint64_t stream;
	uint64_t signature; /* of all collective calls up to this one: equal on all ranks that called the same */
	uint64_t issued;    /* the call began */
	_Atomic uint64_t returned, started, done; /* the call came back; the GPU began, and ended */
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct flight_op) == 128, "two cache lines");

enum flight_state { FLIGHT_FREE, FLIGHT_MAKING, FLIGHT_LIVE, FLIGHT_ENDING, FLIGHT_GONE, FLIGHT_ABORTED };

struct flight_comm {
	/* From FREE to MAKING when a thread takes the place; a place that is GONE may be taken again. Release when
	 * the rest is there, acquire. */
	_Atomic uint32_t state;
	_Atomic uint32_t life;       /* counted up when the place is taken: copies of two lives do not mix */
	uint64_t key[2];             /* equal on all ranks: of the unique id, or of parent, ordinal and colour */
	_Atomic int32_t rank, ranks; /* -1: not known yet */
	int32_t device;
	uint32_t number; /* in this process, from 1; of the parent, 0: none */
	uint32_t parent;
	uint32_t nonblocking; /* 1: its calls return before they are done */
	char name[48];        /* as the program named it, or "" */
	uint64_t made;
	_Atomic uint64_t issued;    /* index of the newest operation; release, after the operation */
	_Atomic uint64_t sequence;  /* of the newest collective call */
	_Atomic uint64_t started;   /* all operations up to this index have begun on the GPU, */
	_Atomic uint64_t done;      /* and all up to this one have ended (or never run by themselves) */
	_Atomic uint64_t changed;   /* time of the last change of any of these */
	_Atomic uint64_t best_rate; /* bytes a second, the best seen of an operation; 0: none yet */
	_Atomic uint32_t verdict;   /* enum judge_verdict that was given to the program through it; 0: none */
	uint8_t unused[76];
	struct flight_op op[FLIGHT_OPS]; /* operation `index` stands at index % FLIGHT_OPS */
} __attribute__((aligned(64)));

/* A thread of the program that has gone into a call and not come back. */
enum flight_wait_kind { FLIGHT_WAIT_NONE, FLIGHT_WAIT_GPU, FLIGHT_WAIT_NCCL };
struct flight_wait {
	_Atomic uint32_t thread; /* 0: free; taken by compare-and-swap */
	_Atomic uint32_t kind;
	_Atomic uint64_t since; /* stored before `kind`, release; 0: not in one */
};

/* What a rank asks all others of: the stacks of their threads, for a report. */
struct flight_dump {
	_Atomic uint32_t version; /* odd while it is written; release */
	uint32_t bytes;           /* of text, at most FLIGHT_DUMP_BYTES */
	uint64_t asked_by;        /* pid << 32 | number of the request that this answers */
	uint64_t made;
	char text[FLIGHT_DUMP_BYTES - 32]; /* lines; see stacks.h */
};

struct flight_page {
	union {
		struct {
			char magic[8];
			uint32_t version;
			uint32_t pid;
			uint64_t start_ticks;          /* field 22 of /proc/PID/stat: tells a reused pid apart */
			uint64_t pid_ns;               /* inode of /proc/PID/ns/pid: `pid` means nothing in another one */
			uint64_t made, made_real;      /* the same moment, CLOCK_MONOTONIC and CLOCK_REALTIME */
			uint32_t comms, ops;           /* FLIGHT_COMMS, FLIGHT_OPS */
			uint64_t comm_off, comm_bytes; /* of comm[0], and from one to the next */
			char host[64];
			char command[192];
			int32_t rank, local_rank,
				world;                  /* of the environment (RANK, LOCAL_RANK, WORLD_SIZE); -1: not given */
			uint32_t python;            /* major << 8 | minor; 0: none */
			uint64_t nccl;              /* ncclGetVersion; 0: not known */
			_Atomic uint64_t heartbeat; /* the judge's last look, */
			_Atomic uint64_t
				stuck; /* and since when an operation has been open for longer than a look; 0: none */
			_Atomic uint64_t sampled;     /* the sampler's last return from the driver */
			_Atomic uint64_t python_tick; /* Python ran something of ours last */
			_Atomic uint32_t leaving;     /* 1: the process is ending in order */
			_Atomic uint32_t lost;        /* communicators and operations that found no room */
			_Atomic uint32_t asks;        /* counted up when this process wants the others' stacks */
			_Atomic uint32_t verdict;     /* enum judge_verdict of this process's judge, last */
			_Atomic uint32_t comm_high;   /* places ever used: comm[0 .. comm_high - 1] exist in the file */
			_Atomic uint32_t site_bytes;  /* used of `sites`; release, after the text */
		};
		unsigned char bytes[1024];
	};
	struct flight_wait wait[FLIGHT_WAITS];
	/* Stacks, each a text that ends in 0: a line a frame, innermost first. */
	char sites[FLIGHT_SITE_BYTES];
	struct flight_dump dump;
	/* Followed, at comm_off, by the communicators. The file ends with the last one in use. */
};

#endif
