"""Timeline files, written from cupti/record.h alone: for tests that compare what reads them with something else."""
import ctypes

START = 1767225600 * 10**9  # 2026-01-01
KERNEL, COPY, MEMSET, GRAPH, API, SYNC, OVERHEAD, EVENT, COLLECTIVE, GAP, COUNTER = range(1, 12)
STREAM, THREAD, PROCESS, DEVICE = range(1, 5)
CHUNK, CHUNK_RECORDS = 65536, (65536 - 64) // 32


def fields(text):
    kinds = {"Q": ctypes.c_uint64, "q": ctypes.c_int64, "I": ctypes.c_uint32, "i": ctypes.c_int32, "H": ctypes.c_uint16,
             "B": ctypes.c_uint8}
    out = []
    for word in text.split():
        kind, name = word.split(":")
        times = int(kind[1:] or 0)
        base = ctypes.c_char if kind[0] == "s" else kinds[kind[0]]
        out.append((name, base * times if times else base))
    return out


class Record(ctypes.LittleEndianStructure):
    _fields_ = fields("Q:start I:duration I:correlation I:entry H:lane B:kind B:flags Q:value")


class Chunk(ctypes.LittleEndianStructure):
    _fields_ = fields("I:magic I:committed Q:sequence Q6:reserved")


class Entry(ctypes.LittleEndianStructure):
    _fields_ = fields("I:kind I:name I14:words")


class Lane(ctypes.LittleEndianStructure):
    _fields_ = fields("I:kind I:device I:context I:stream I:thread I:name I2:reserved")


class Table(ctypes.LittleEndianStructure):
    _fields_ = fields("Q:offset Q:capacity Q:used")


class Device(ctypes.LittleEndianStructure):
    _fields_ = fields("s64:name Q:memory_bytes I:multiprocessors H:major H:minor B16:uuid I:warp I:threads_a_block "
                      "I:threads_a_multiprocessor I:registers_a_multiprocessor I:shared_a_block I:shared_a_multiprocessor")


class Header(ctypes.LittleEndianStructure):
    _fields_ = (fields("s8:magic I:version I:header_bytes Q:file_bytes I:pid i:rank i:ranks i:local_rank I:mode "
                       "I:cupti_version I:driver_version I:device_count Q:start_ns Q:end_ns Q:pid_start_ticks Q:pid_ns "
                       "s64:host s256:command s32:version_text")
                + [(name, Table) for name in ("names", "entries", "lanes", "clocks")]
                + fields("Q:ring_offset I:chunk_bytes I:chunk_count Q24:count") + [("device", Device * 16)])


assert (ctypes.sizeof(Record), ctypes.sizeof(Chunk), ctypes.sizeof(Entry), ctypes.sizeof(Lane)) == (32, 64, 64, 32)
assert ctypes.sizeof(Header) <= 4096


class Timeline:
    """Records are (kind, name, lane, start, duration, ...): times in ns after START."""

    def __init__(self, rank=-1, ranks=-1, mode=2):
        self.rank, self.ranks, self.mode = rank, ranks, mode
        self.names, self.entries, self.lanes, self.records = bytearray(b"\0unknown\0"), [Entry(0, 1)], [Lane(PROCESS)], []
        self.entry_of, self.lane_of, self.name_of = {}, {}, {"": 0}

    def name(self, text):
        if text not in self.name_of:
            self.name_of[text] = len(self.names)
            self.names += text.encode() + b"\0"
        return self.name_of[text]

    def entry(self, kind, name, words=()):
        key = (kind, name, tuple(words))
        if key not in self.entry_of:
            self.entry_of[key] = len(self.entries)
            self.entries.append(Entry(kind, self.name(name), (ctypes.c_uint32 * 14)(*words)))
        return self.entry_of[key]

    def lane(self, kind, device=0, context=0, stream=0, thread=0):
        key = (kind, device, context, stream, thread)
        if key not in self.lane_of:
            self.lane_of[key] = len(self.lanes)
            self.lanes.append(Lane(kind, device, context, stream, thread))
        return self.lane_of[key]

    def add(self, kind, name, lane, start, duration, words=(), correlation=0, value=0, flags=0):
        self.records.append(Record(START + start, duration, correlation, self.entry(kind, name, words), lane, kind, flags,
                                   value))

    def write(self, path):
        h = Header(magic=b"TURBOTL1", version=1, header_bytes=4096, pid=1000 + max(self.rank, 0), rank=self.rank,
                   ranks=self.ranks, local_rank=self.rank, mode=self.mode, cupti_version=130001, driver_version=13000,
                   device_count=1, start_ns=START, end_ns=START + 10**12, host=b"node", command=b"test", chunk_bytes=CHUNK)
        h.device[0].name, h.device[0].memory_bytes, h.device[0].major = b"NVIDIA H200", 150754820096, 9
        h.device[0].multiprocessors, h.device[0].warp = 132, 32
        h.device[0].threads_a_block, h.device[0].threads_a_multiprocessor = 1024, 2048
        h.device[0].registers_a_multiprocessor, h.device[0].shared_a_multiprocessor = 65536, 233472
        body = b""
        for table, data, unit in ((h.names, bytes(self.names), 1), (h.entries, b"".join(map(bytes, self.entries)), 64),
                                  (h.lanes, b"".join(map(bytes, self.lanes)), 32), (h.clocks, bytes(32), 32)):
            table.offset, table.used = 4096 + len(body), len(data) // unit if table is not h.clocks else 0
            table.capacity = len(data) // unit
            body += data + bytes(-len(data) % 4096)
        h.ring_offset = 4096 + len(body)
        for at in range(0, max(1, len(self.records)), CHUNK_RECORDS):
            part = self.records[at:at + CHUNK_RECORDS]
            h.chunk_count += 1
            data = bytes(Chunk(0x4b484354, len(part), h.chunk_count)) + b"".join(map(bytes, part))
            body += data + bytes(CHUNK - len(data))
        h.count[0] = len(self.records)
        h.file_bytes = 4096 + len(body)
        with open(path, "wb") as file:
            file.write(bytes(h) + bytes(4096 - ctypes.sizeof(Header)) + body)
