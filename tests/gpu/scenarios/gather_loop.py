"""A loop of asynchronous all-gathers, one for each parameter, as sharded optimizers have."""
import os

import scenario
import torch
import torch.distributed as dist

PARAMETERS, WIDTH = 256, 128

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", str(20000 + os.getpid() % 20000))
rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
scenario.start()
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
dist.init_process_group("nccl", rank=rank, world_size=world)
shards = [torch.randn(WIDTH, WIDTH, device="cuda") for _ in range(PARAMETERS)]
whole = [torch.empty(world * WIDTH, WIDTH, device="cuda") for _ in range(PARAMETERS)]


def step():
    works = [dist.all_gather_into_tensor(w, s, async_op=True) for w, s in zip(whole, shards)]
    for work in works:
        work.wait()
    loss = torch.stack([w[-1, -1] for w in whole[::16]]).sum()
    torch._foreach_mul_(shards, 0.999)
    return loss.item()


scenario.main(step, 40)
dist.destroy_process_group()
