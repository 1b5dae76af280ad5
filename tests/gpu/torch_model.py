"""`model.cuda()` of a model of more than 4 GB: milliseconds, and every parameter compared."""
import torch_common as common
import torch
from torch import nn

REPEATS = 3


class Model(nn.Module):
    """Large and small parameters, as a transformer has."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32000, 4096)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"qkv": nn.Linear(4096, 3 * 4096), "out": nn.Linear(4096, 4096), "norm": nn.LayerNorm(4096),
                           "up": nn.Linear(4096, 11008), "down": nn.Linear(11008, 4096)}) for _ in range(7))


def state():
    """The weights in ordinary memory, as a checkpoint reader leaves them."""
    with torch.device("meta"):
        shapes = {k: v.shape for k, v in Model().state_dict().items()}
    return {k: common.pattern(s.numel(), i).view(torch.float32).reshape(s)
            for i, (k, s) in enumerate(shapes.items())}


def model_of(weights):
    with torch.device("meta"):
        m = Model()
    m.load_state_dict(weights, assign=True)
    return m


def same_bits(a, b):
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


if __name__ == "__main__":
    common.need_gpu()
    weights = state()
    size = sum(v.numel() * 4 for v in weights.values())
    times = []
    for _ in range(REPEATS):
        model = model_of(weights)
        torch.cuda.empty_cache()
        ms, model = common.timed(model.cuda)
        times.append(ms)
        moved = model.state_dict()
        equal = all(same_bits(moved[k].cpu(), v) for k, v in weights.items()) if len(times) == REPEATS else True
        del model, moved
    common.result(ms=times, bytes=size, equal=equal)
