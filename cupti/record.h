/*
 * record.h - layout of a timeline file, shared by the recorder and the tools.
 *
 * One file a process: a header page, four tables that only grow, and a ring of chunks that holds
 * fixed-size records. The recorder writes what is new several times a second, so that is what SIGKILL costs.
 * All integers are little-endian. A reader checks every offset, length and index before use and believes
 * nothing else; a file may end anywhere in the life of its process.
 *
 * Times are nanoseconds of CLOCK_REALTIME, which is the clock of CUPTI on Linux; the clock table says by how
 * much the two differed, and what CLOCK_MONOTONIC_RAW was.
 *
 * Publication: in each step of this order by a write of its own. The new elements of tables; the header, of which
 * `used` is over them; a chunk that is about to be used again gets `sequence` 0; its new records; its header, of
 * which `committed` is over them; the number of records. So a reader of a live file that reads in the opposite
 * order sees whole elements; a chunk whose sequence has changed while it was copied is left out.
 */
#ifndef TURBO_TIMELINE_RECORD_H
#define TURBO_TIMELINE_RECORD_H

#include <stdint.h>

#define TIMELINE_MAGIC "TURBOTL1"
#define TIMELINE_VERSION 1
#define TIMELINE_HEADER_BYTES 4096
/* In TURBO_TIMELINE_DIR: host (no slash), pid, and the number of the recording in this process. */
#define TIMELINE_FILE_FORMAT "turbo-%s-%d-%u.timeline"

#define TIMELINE_CHUNK_BYTES 65536
#define TIMELINE_CHUNK_MAGIC 0x4b484354u /* "TCHK" */
#define TIMELINE_DEVICES 16

/* What a record is. The same numbers say what kind of records an entry is for. */
enum timeline_kind {
	TIMELINE_NONE,   /* not written, or given up: skip it */
	TIMELINE_KERNEL, /* value: graph node id, 0 outside graphs */
	TIMELINE_COPY,   /* value: bytes */
	TIMELINE_MEMSET, /* value: bytes */
	TIMELINE_GRAPH,  /* a whole graph launch, where nodes are not recorded; value: graph id */
	TIMELINE_API,    /* a driver or runtime call on a host thread; correlation joins it to what it started */
	TIMELINE_SYNC,   /* a host thread waited for the device; value: 0 */
	TIMELINE_OVERHEAD,   /* CUPTI's own */
	TIMELINE_EVENT,      /* libturbo's own doing (shim/events.def); value: in the event's unit */
	TIMELINE_COLLECTIVE, /* an NCCL call on its host thread; value: its count in bytes, correlation: sequence
							number in the communicator, of sends and receives apart */
	TIMELINE_GAP, /* nothing was recorded meanwhile; the entry's name is the reason, the value how long, ns */
	TIMELINE_COUNTER, /* a sample: duration 0, value: what the entry's name says */
	TIMELINE_KINDS
};

enum timeline_flag {
	TIMELINE_FLAG_US = 1,    /* duration is in microseconds: it is more than 4.29 s */
	TIMELINE_FLAG_ASYNC = 2, /* a copy that its caller did not wait for */
	TIMELINE_FLAG_FAILED = 4 /* an API call, event or collective that did not succeed */
};

/* 32 bytes: 2046 fill a chunk, so a kernel takes 32.03 on disk. */
struct timeline_record {
	uint64_t start;       /* ns, CLOCK_REALTIME */
	uint32_t duration;    /* ns, see TIMELINE_FLAG_US; saturates */
	uint32_t correlation; /* CUPTI's correlation id, 0 none */
	uint32_t entry;       /* index in the entry table: what ran */
	uint16_t lane;        /* index in the lane table: where */
	uint8_t kind;         /* enum timeline_kind */
	uint8_t flags;        /* enum timeline_flag */
	uint64_t value;
};

struct timeline_chunk {
	uint32_t magic;
	uint32_t committed; /* records that are complete */
	uint64_t sequence;  /* 1, 2, …; 0: not in use */
	uint64_t reserved[6];
	struct timeline_record record[];
};

#define TIMELINE_CHUNK_RECORDS \
	((TIMELINE_CHUNK_BYTES - sizeof(struct timeline_chunk)) / sizeof(struct timeline_record))

/* What ran: interned, so that a record needs an index only. Entry 0 of a file is "unknown", kind NONE. */
struct timeline_entry {
	uint32_t kind; /* enum timeline_kind of its records */
	uint32_t name; /* byte offset of a terminated string in the name table; mangled for kernels */
	union {
		/* First, so that {.kind = ...} clears all of it: unused words are 0, and entries are compared whole. */
		uint32_t words[14];
		struct {
			uint32_t grid[3], block[3], cluster[3];
			uint32_t registers; /* a thread */
			uint32_t static_shared, dynamic_shared;
			uint32_t graph; /* graph id, 0 outside graphs */
		} kernel;           /* all zero: the table was full, or CUPTI did not say */
		struct {
			uint32_t direction;              /* CUpti_ActivityMemcpyKind */
			uint32_t from_kind, to_kind;     /* CUpti_ActivityMemoryKind */
			uint32_t from_device, to_device; /* of peer copies, else 0 */
			uint32_t graph;
		} copy;
		struct {
			uint32_t memory_kind; /* CUpti_ActivityMemoryKind */
			uint32_t graph;
		} memset;
		struct {
			uint32_t callback; /* CUPTI's callback id; 0: libturbo's own hook saw it */
			uint32_t runtime;  /* 1: a runtime call, 0: a driver call */
		} api;
		struct {
			uint32_t id;     /* enum event_id of the libturbo that recorded it */
			uint32_t device; /* of a staged copy: CUDA's index + 1; 0: not known */
		} event;
		struct {
			uint32_t communicator; /* number in this process, from 1 */
			uint32_t rank, ranks;
			uint32_t type; /* ncclDataType_t */
		} collective;
	};
};

enum timeline_lane_kind {
	TIMELINE_LANE_STREAM = 1, /* device, context, stream */
	TIMELINE_LANE_THREAD,     /* thread */
	TIMELINE_LANE_PROCESS,    /* gaps, counters */
	TIMELINE_LANE_DEVICE      /* counters of a device */
};

/* Where it ran. Lane 0 of a file is the process. */
struct timeline_lane {
	uint32_t kind;    /* enum timeline_lane_kind */
	uint32_t device;  /* CUDA's index in the process */
	uint32_t context; /* CUPTI's ids */
	uint32_t stream;
	uint32_t thread; /* Linux thread id */
	uint32_t name;   /* byte offset in the name table, 0 none (the table begins with "") */
	uint32_t reserved[2];
};

/* One reading of three clocks, each second; the table is a ring: element i is at i modulo capacity. */
struct timeline_clock {
	uint64_t cupti, realtime, monotonic_raw; /* ns */
	uint64_t reserved;
};

struct timeline_table {
	uint64_t offset;   /* of element 0 in the file */
	uint64_t capacity; /* elements; bytes in the name table */
	uint64_t used;     /* elements or bytes that are complete; of the clock table: ever written */
};

struct timeline_device {
	char name[64];
	uint64_t memory_bytes;
	uint32_t multiprocessors;
	uint16_t major, minor; /* compute capability */
	uint8_t uuid[16];
	uint32_t warp, threads_a_block, threads_a_multiprocessor, registers_a_multiprocessor;
	uint32_t shared_a_block, shared_a_multiprocessor;
};

enum timeline_mode { TIMELINE_MODE_OFF, TIMELINE_MODE_SAMPLED, TIMELINE_MODE_KERNEL, TIMELINE_MODE_LAUNCH };

/* What was not recorded as it should, and how much was. */
enum timeline_count {
	TIMELINE_COUNT_RECORDS,       /* put into the ring */
	TIMELINE_COUNT_OVERWRITTEN,   /* of these, lost to newer ones */
	TIMELINE_COUNT_CUPTI_LOST,    /* CUPTI says that it dropped them */
	TIMELINE_COUNT_ZERO_TIME,     /* CUPTI had no start or end for them; not in the ring */
	TIMELINE_COUNT_BACKWARDS,     /* they end before they start; not in the ring */
	TIMELINE_COUNT_UNKNOWN,       /* of a kind that the recorder does not know */
	TIMELINE_COUNT_EVENTS_LOST,   /* libturbo's own, their queue was full */
	TIMELINE_COUNT_NO_BUFFER,     /* buffers that CUPTI asked for in vain */
	TIMELINE_COUNT_BAD_BUFFER,    /* buffers that could not be read to their end */
	TIMELINE_COUNT_TABLE_FULL,    /* records whose entry or lane is a substitute, because a table was full */
	TIMELINE_COUNT_LAUNCHES,      /* launches that libturbo's hooks saw while recording */
	TIMELINE_COUNT_SAMPLED_ON_NS, /* TURBO_TIMELINE=sampled: time recorded, of */
	TIMELINE_COUNT_SAMPLED_NS,    /* this time in all */
	TIMELINE_COUNT_DROPPED,       /* could not be put: the ring was held too long, or its file failed */
	TIMELINE_COUNTS = 24
};

struct timeline_header {
	union {
		struct {
			char magic[8];
			uint32_t version;
			uint32_t header_bytes;
			uint64_t file_bytes;
			uint32_t pid;
			int32_t rank, ranks,
				local_rank;           /* RANK, WORLD_SIZE, LOCAL_RANK as the launcher set them; -1 unknown */
			uint32_t mode;            /* enum timeline_mode */
			uint32_t cupti_version;   /* as cuptiGetVersion says */
			uint32_t driver_version;  /* as cuDriverGetVersion says */
			uint32_t device_count;    /* filled elements of device[] */
			uint64_t start_ns;        /* recording began */
			uint64_t end_ns;          /* … and ended in good order; 0: still going on, or killed */
			uint64_t pid_start_ticks; /* field 22 of /proc/PID/stat: tells a reused pid apart */
			uint64_t pid_ns;          /* inode of /proc/PID/ns/pid */
			char host[64];
			char command[256];
			char version_text[32]; /* libturbo's */
			struct timeline_table names, entries, lanes, clocks;
			uint64_t ring_offset;
			uint32_t chunk_bytes, chunk_count;
			uint64_t count[TIMELINE_COUNTS];
			struct timeline_device device[TIMELINE_DEVICES];
			uint32_t on_demand; /* 1: `turbo record` asked for it, 0: TURBO_TIMELINE did */
			char options[256];  /* libturbo's in force that a reader should know: "TURBO_COPY=on ..." */
		};
		unsigned char bytes[TIMELINE_HEADER_BYTES];
	};
};

_Static_assert(sizeof(struct timeline_record) == 32, "record is 32 bytes");
_Static_assert(sizeof(struct timeline_chunk) == 64, "chunk header is 64 bytes");
_Static_assert(sizeof(struct timeline_entry) == 64, "entry is 64 bytes");
_Static_assert(sizeof(struct timeline_lane) == 32, "lane is 32 bytes");
_Static_assert(sizeof(struct timeline_header) == TIMELINE_HEADER_BYTES, "header is one page");

#endif
