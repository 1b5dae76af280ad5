"""An ordinary DataLoader with eight workers: milliseconds for `.cuda()` of each batch."""
import sys

import torch_common as common
import torch
from torch.utils.data import DataLoader, Dataset

BATCH, BATCHES, WARM = 256, 36, 8
SHAPE = (3, 224, 224)


class Images(Dataset):
    """Each item is a row of a block that every worker has: no work but the collation."""

    def __init__(self):
        self.rows = torch.randn(64, *SHAPE, generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return BATCH * BATCHES

    def __getitem__(self, i):
        return self.rows[i % 64]


def batches_ms(pin_memory):
    loader = DataLoader(Images(), batch_size=BATCH, num_workers=8, pin_memory=pin_memory)
    times, total = [], 0.0
    for x in loader:
        ms, y = common.timed(x.cuda)
        times.append(ms)
        total += float(y[-1].sum())
    return times[WARM:], total


if __name__ == "__main__":
    common.need_gpu()
    times, total = batches_ms(False)
    pinned = batches_ms(True)[0] if "--pinned" in sys.argv else []
    common.result(ms=times, pinned_ms=pinned, sum=total.hex(), bytes=4 * BATCH * SHAPE[0] * SHAPE[1] * SHAPE[2])
