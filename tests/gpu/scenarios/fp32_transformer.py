"""A transformer in plain fp32."""
import scenario
import torch
from torch import nn

WIDTH, LAYERS, HEADS, BATCH, LENGTH = 1024, 8, 16, 16, 512

scenario.start()
layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
model = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(BATCH, LENGTH, WIDTH, device="cuda")


def step():
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


scenario.main(step, 10)
