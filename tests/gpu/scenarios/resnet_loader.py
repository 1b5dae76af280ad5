"""ResNet-50 on images from a DataLoader with eight workers and without pinned memory."""
import scenario
import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH = 256


class Images(Dataset):
    """Images as a decoder leaves them: bytes, made floats here."""

    def __init__(self):
        self.rows = torch.randint(0, 256, (64, 3, 224, 224), dtype=torch.uint8)

    def __len__(self):
        return BATCH * 400

    def __getitem__(self, i):
        return self.rows[i % 64].float().div_(255), i % 1000


if __name__ == "__main__":
    scenario.start()
    loader = DataLoader(Images(), batch_size=BATCH, num_workers=8, persistent_workers=True)
    batches = scenario.forever(loader)
    model = torchvision.models.resnet50(num_classes=1000).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        x, y = next(batches)
        x, y = x.cuda(), y.cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x.to(memory_format=torch.channels_last)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    scenario.main(step, 16, warm=10)
