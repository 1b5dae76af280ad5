"""Optimizer state on the CPU: gradients come down and weights go up, every step."""
import scenario
import torch
from torch import nn

WIDTH = 8192

scenario.start()
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)).cuda()
master = [p.detach().cpu().clone() for p in model.parameters()]
optimizer = torch.optim.SGD(master, lr=0.01)


def step():
    x = torch.randn(512, WIDTH, device="cuda")
    loss = model(x).square().mean()
    model.zero_grad()
    loss.backward()
    for m, p in zip(master, model.parameters()):
        m.grad = p.grad.cpu()
    optimizer.step()
    with torch.no_grad():
        for m, p in zip(master, model.parameters()):
            p.copy_(m)
    return loss.item()


scenario.main(step, 6)
