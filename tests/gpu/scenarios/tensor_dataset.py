"""An MLP fed from a TensorDataset: batches are put together in the program's own process and go up by x.cuda()."""
import scenario
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ITEMS, FEATURES, BATCH = 65536, 3072, 4096

scenario.start()
data = TensorDataset(torch.randn(ITEMS, FEATURES), torch.randint(0, 10, (ITEMS,)))
batches = scenario.forever(DataLoader(data, batch_size=BATCH, shuffle=True))
model = nn.Sequential(nn.Linear(FEATURES, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def step():
    x, y = next(batches)
    x, y = x.cuda(), y.cuda()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


scenario.main(step, 16)
