"""A run that writes a checkpoint every few steps: weights and optimizer state come down and go into a file."""
import os
import tempfile

import scenario
import torch
from torch import nn

WIDTH, EVERY = 4096, 4

scenario.start()
model = nn.Sequential(*[m for _ in range(8) for m in (nn.Linear(WIDTH, WIDTH), nn.GELU())]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
count = 0


def step():
    global count
    x = torch.randn(2048, WIDTH, device="cuda")
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    count += 1
    if count % EVERY == 0:
        state = {"model": {k: v.cpu() for k, v in model.state_dict().items()},
                 "optimizer": {i: {k: v.cpu() for k, v in s.items()} for i, s in optimizer.state_dict()["state"].items()}}
        torch.save(state, os.path.join(folder.name, "checkpoint.pt"))
    return loss.item()


scenario.main(step, 2 * EVERY, warm=EVERY)
