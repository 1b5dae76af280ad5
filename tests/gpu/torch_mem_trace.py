"""Writes PyTorch memory snapshots of short real trainings, for `turbo replay --import`.

    torch_mem_trace.py DIR [NAME...]

One process records one program after the other, each from an empty cache: DIR/NAME.pickle. Without
stack traces, which replay does not need and which make the files large.
"""
import os
import random
import sys

import torch_common as common
import torch
import torch_gpt as gpt
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

DEVICE, VOCABULARY = "cuda", 16384
ENTRIES = 400000


def train(steps, ids_of, model=None, loss_of=gpt.loss_of):
    torch.manual_seed(1)
    model = (model or gpt.Gpt(width=768, layers=6, heads=12, vocabulary=VOCABULARY, longest=2048)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        loss = loss_of(model, ids_of(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def ids(step, size, length):
    return gpt.batch(step, size, length, VOCABULARY, DEVICE)


def fixed():
    """The same shapes every step."""
    train(12, lambda step: ids(step, 8, 512))


def variable_length():
    """A length of its own for every step, and longer ones without gradients."""
    draw = random.Random(2)

    def ids_of(step):
        return ids(step, 6, 8 * draw.randint(8, 255))

    model = train(30, ids_of)
    with torch.no_grad():
        for step in range(4):
            gpt.loss_of(model, ids(step, 12, 8 * draw.randint(100, 250)))


class Experts(nn.Module):
    """Each token goes to two of the experts: shapes differ in every layer and step."""

    def __init__(self, width=768, experts=16):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(experts))

    def forward(self, x):
        flat = x.flatten(0, 1)
        weight, chosen = self.gate(flat).softmax(-1).topk(2, dim=-1)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            token, place = torch.where(chosen == i)
            if len(token):
                out = out.index_add(0, token, (expert(flat[token]) * weight[token, place, None]).to(out.dtype))
        return x + out.view_as(x)


def experts():
    model = nn.Sequential(nn.Embedding(VOCABULARY, 768), *[Experts() for _ in range(4)], nn.Linear(768, VOCABULARY))
    train(7, lambda step: ids(step, 8, 256), model)


def checkpointed():
    """Activations are computed again in the backward pass: small valleys, high peaks."""
    class Checkpointed(gpt.Gpt):
        def forward(self, ids):
            x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return self.head(self.norm(x))

    train(10, lambda step: ids(step, 8, 1024),
          Checkpointed(width=768, layers=8, heads=12, vocabulary=VOCABULARY, longest=2048))


def side_streams():
    """Batches are made on another stream and given over with record_stream."""
    side = torch.cuda.Stream()

    def ids_of(step):
        with torch.cuda.stream(side):
            noise = torch.randn(64 << 18, device=DEVICE)
            x = ids(step, 8, 256 + 32 * (step % 7))
            x = (x + (noise[: x.numel()].view_as(x) > 9)) % VOCABULARY
        torch.cuda.current_stream().wait_stream(side)
        x.record_stream(torch.cuda.current_stream())
        return x

    train(14, ids_of)


def generation():
    """Key and value caches that grow by a token, for several requests that come and go."""
    draw, caches = random.Random(3), []
    for step in range(400):
        if len(caches) < 12 and draw.random() < 0.2:
            length = draw.randint(64, 1500)
            caches.append([torch.zeros(24, 2, length, 1024, dtype=torch.bfloat16, device=DEVICE), draw.randint(20, 120)])
        for c in caches:
            c[0] = torch.cat([c[0], torch.zeros(24, 2, 1, 1024, dtype=torch.bfloat16, device=DEVICE)], dim=2)
            c[1] -= 1
        caches = [c for c in caches if c[1] > 0]


def convolutions():
    """Workspaces, and images of several sizes."""
    torch.manual_seed(1)
    layers, channels = [nn.Conv2d(3, 64, 7, stride=2, padding=3)], 64
    for i in range(9):
        wider = channels * 2 if i % 3 == 2 else channels
        layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, wider, 3, stride=wider // channels, padding=1)]
        channels = wider
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    draw = random.Random(5)
    for _ in range(20):
        side = 32 * draw.randint(4, 9)
        loss = F.cross_entropy(model(torch.randn(48, 3, side, side, device=DEVICE)), torch.zeros(48, dtype=torch.long, device=DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


PROGRAMS = [fixed, variable_length, experts, checkpointed, side_streams, generation, convolutions]


def record(program, folder):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=ENTRIES)
    program()
    torch.cuda.synchronize()
    path = os.path.join(folder, program.__name__ + ".pickle")
    torch.cuda.memory._dump_snapshot(path)
    events = len(torch.cuda.memory._snapshot()["device_traces"][0])
    torch.cuda.memory._record_memory_history(None)
    return {"file": path, "events": events, "bytes": os.path.getsize(path)}


if __name__ == "__main__":
    names = [p.__name__ for p in PROGRAMS]
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(names):
        sys.exit("usage: torch_mem_trace.py DIR [NAME...]   (%s)" % " ".join(names))
    common.need_gpu()
    os.makedirs(sys.argv[1], exist_ok=True)
    chosen = [p for p in PROGRAMS if not sys.argv[2:] or p.__name__ in sys.argv[2:]]
    common.result(on="PyTorch %s, %s" % (torch.__version__, torch.cuda.get_device_name()),
                  **{p.__name__: record(p, sys.argv[1]) for p in chosen})
