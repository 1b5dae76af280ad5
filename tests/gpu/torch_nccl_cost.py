"""Steps of DDP and FSDP2 at world size 1: each a part that is timed in turns."""
import gc
import os

import torch_common as common
import torch
import torch.distributed as dist
import torch_gpt as gpt
from torch import nn

STEPS, ALL = 6, 1000


class Train:
    def __init__(self, wrap):
        torch.manual_seed(5)
        self.model = gpt.Gpt(layers=4, vocabulary=8192, longest=256).cuda()
        self.model = wrap(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.n, self.losses = 0, []
        self.steps(4)
        gc.collect()
        gc.freeze()

    def steps(self, n):
        for _ in range(n):
            loss = gpt.loss_of(self.model, gpt.batch(self.n, 8, 256, 8192, "cuda"))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.detach())
            self.n += 1

    def timed(self):
        gc.disable()
        self.steps(1)
        ms = [common.timed(lambda: self.steps(STEPS))[0] / STEPS for _ in range(3)]
        gc.enable()
        return ms

    def all_losses(self):
        self.steps(ALL - self.n)
        return [x.item().hex() for x in self.losses]


def fsdp(model):
    from torch.distributed.fsdp import fully_shard
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


if __name__ == "__main__":
    common.need_gpu()
    dist.init_process_group("nccl", init_method="file://" + os.environ["JOB_STORE"], rank=0, world_size=1,
                            device_id=torch.device("cuda", 0))
    torch.use_deterministic_algorithms(True, warn_only=True)
    parts = {"ddp": Train(nn.parallel.DistributedDataParallel), "fsdp": Train(fsdp)}
    common.taking_turns({**{name: p.timed for name, p in parts.items()},
                         "losses": lambda: {n: p.all_losses() for n, p in parts.items()}})
    dist.destroy_process_group()
