"""2,000 batches of varying sizes, as a loader makes them: resident memory all along, and what the device got."""
import os
import random

import torch_common as common
import torch

BATCHES = 2000


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    common.need_gpu()
    draw, kept, rss, total = random.Random(5), [], [], 0
    for i in range(BATCHES):
        x = torch.full((draw.randrange(1 << 18, 24 << 20),), i, dtype=torch.int32)
        kept.append(x)
        if len(kept) > 3:
            kept.pop(draw.randrange(3))
        total += int(x.cuda()[-1])
        if i >= 100 and i % 10 == 0:
            rss.append(resident())
    common.result(median=sorted(rss)[len(rss) // 2], most=max(rss), sum=total)
