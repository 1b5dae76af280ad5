"""A transformer on sequences of any length, whose memory nearly suffices: what the allocator keeps in sizes that do not come
again has to be given back all the time. The rest of the device is somebody else's, here a tensor's."""
import random

import scenario
import torch
from torch import nn

WIDTH, LAYERS, HEADS, BATCH, NEEDED = 1024, 8, 16, 16, 12 << 30

scenario.start()
ballast = torch.empty(max(0, torch.cuda.mem_get_info()[0] - NEEDED), dtype=torch.uint8, device="cuda")
layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
model = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
lengths = random.Random(3)


def step():
    x = torch.randn(BATCH, lengths.randrange(64, 900), WIDTH, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(x).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


scenario.main(step, 24, warm=8)
