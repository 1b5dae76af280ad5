"""Exports in Perfetto's format, decoded with Perfetto's own description of it: the tracks nest, every slice ends, and
they say what the Kineto export says."""
import collections
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import packages  # noqa: E402
import timelines  # noqa: E402

sys.path.insert(0, packages.folder())
try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
except ImportError as error:
    packages.skip(f"perfetto does not load here: {error}")

RANKS = 2
BEGIN, END, COUNTER = 1, 2, 4


class Sequence:
    """What one rank's packets say, with interned names looked up."""

    def __init__(self):
        self.names, self.categories, self.arguments = {}, {}, {}
        self.tracks, self.open, self.slices, self.samples = {}, collections.defaultdict(list), [], 0
        self.flows = collections.Counter()
        self.began = False

    def take(self, packet):
        if packet.sequence_flags & 1:
            self.began = True
        assert self.began, "a packet before the one that clears the state"
        for entry in packet.interned_data.event_names:
            self.names[entry.iid] = entry.name
        for entry in packet.interned_data.event_categories:
            self.categories[entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_names:
            self.arguments[entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in self.tracks
            assert not track.parent_uuid or track.parent_uuid in self.tracks, "a track before its parent"
            self.tracks[track.uuid] = track
        if packet.HasField("track_event"):
            self.event(packet.timestamp, packet.track_event)

    def event(self, time, event):
        assert event.track_uuid in self.tracks, "an event before its track"
        if event.type == COUNTER:
            assert self.tracks[event.track_uuid].HasField("counter")
            self.samples += 1
        elif event.type == BEGIN:
            name = self.names[event.name_iid] if event.name_iid else event.name
            arguments = {self.arguments[a.name_iid]: a for a in event.debug_annotations}
            self.flows.update(event.flow_ids)
            self.open[event.track_uuid].append((time, name, self.categories[event.category_iids[0]], arguments))
        else:
            begun = self.open[event.track_uuid].pop()
            assert time >= begun[0], "a slice that ends before it begins"
            self.slices.append((begun[0], time - begun[0], *begun[1:]))


def decode(path):
    trace = proto.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    sequences = collections.defaultdict(Sequence)
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id
        sequences[packet.trusted_packet_sequence_id].take(packet)
    return [sequences[number] for number in sorted(sequences)]


def check_rank(rank, sequence, kineto):
    assert not any(sequence.open.values()), "a slice without an end"
    assert not sequence.flows or set(sequence.flows.values()) == {2}, "a flow without two ends"
    base = kineto["baseTimeNanoseconds"]
    want = sorted((base + round(e["ts"] * 1000), round(e["dur"] * 1000), e["name"], e["cat"])
                  for e in timelines.spans(kineto))
    assert sorted(s[:4] for s in sequence.slices) == want, "not Kineto's events"
    assert sequence.samples == sum(e["ph"] == "C" for e in kineto["traceEvents"])
    names = collections.Counter(track.name for track in sequence.tracks.values())
    assert names["stream 7"] == 1 and names["stream 20"] == 1 and names[f"GPU {rank} NVIDIA H200"] == 1, names
    kernel = next(s for s in sequence.slices if s[3] == "kernel")[4]
    assert kernel["grid"].string_value.startswith("[") and kernel["registers per thread"].uint_value == 32
    print(f"rank {rank}: {len(want)} slices, {len(names)} tracks, {len(sequence.flows)} flows")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for more in ([], ["--launches"]):
            where = os.path.join(folder, "in" + "".join(more))
            files = timelines.make(where, "--ranks", RANKS, "--records", 3000, "--layers", 4, *more)
            out = os.path.join(folder, "all.pftrace")
            timelines.export(where, "-o", out)
            sequences = decode(out)
            assert len(sequences) == RANKS
            for rank, sequence in enumerate(sequences):
                kineto = os.path.join(folder, "one.json")
                timelines.export(files[rank], "-o", kineto)
                check_rank(rank, sequence, timelines.load(kineto))


if __name__ == "__main__":
    main()
