"""A small deterministic training run, fed by worker processes: every loss, some activations and the
final state, to the last bit."""
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch_common as common  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

ITEMS, BATCH, EPOCHS, SIDE = 1024, 128, 2, 96


class Images(Dataset):
    """Noise that depends on the index alone."""

    def __len__(self):
        return ITEMS

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(3, SIDE, SIDE, generator=g), i % 10


def network():
    return nn.Sequential(nn.Conv2d(3, 32, 4, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=4), nn.ReLU(),
                         nn.Flatten(), nn.Linear(64 * 6 * 6, 1024), nn.ReLU(), nn.Linear(1024, 10))


def train(context):
    torch.manual_seed(7)
    net = network().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(Images(), batch_size=BATCH, shuffle=True, num_workers=2, pin_memory=False,
                        multiprocessing_context=context, generator=torch.Generator().manual_seed(3))
    losses, activations = [], []
    for _ in range(EPOCHS):
        for step, (x, y) in enumerate(loader):
            x, y = x.cuda(), y.cuda()
            first = net[1](net[0](x))
            loss = nn.functional.cross_entropy(net[2:](first), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
            if step % 4 == 0:
                activations.append(first.detach().cpu())
    state = [v.cpu() for v in net.state_dict().values()]
    return {"losses": losses, "activations": common.sha(activations), "state": common.sha(state)}


if __name__ == "__main__":
    common.need_gpu()
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    common.result(fork=train("fork"), spawn=train("spawn"))
