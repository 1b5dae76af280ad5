"""Training under FSDP2."""
import os

import scenario
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

WIDTH, LAYERS = 2048, 12

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", str(20000 + os.getpid() % 20000))
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
scenario.start()
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
dist.init_process_group("nccl", rank=rank, world_size=world)
model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)]).cuda()
for block in model:
    fully_shard(block)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def step():
    x = torch.randn(4096, WIDTH)
    loss = model(x.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


scenario.main(step, 24)
dist.destroy_process_group()
