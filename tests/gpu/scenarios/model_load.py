"""A model of more than 4 GB from a safetensors file, taken to the GPU."""
import os
import tempfile

import scenario
import torch
from safetensors import safe_open
from safetensors.torch import save_file

LAYERS, WIDTH = 20, 5120

scenario.start()
folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "model.safetensors")
weights = {"layers.%d.%s" % (i, name): torch.full((WIDTH, WIDTH), i, dtype=torch.bfloat16)
           for i in range(LAYERS) for name in ("q", "k", "v", "o")}
save_file(weights, path)
del weights


def step():
    total = torch.zeros((), device="cuda")
    with safe_open(path, framework="pt") as f:
        model = {name: f.get_tensor(name).cuda() for name in f.keys()}
    for w in model.values():
        total += w[-1, -1]
    return total.item()


scenario.main(step, 2, warm=1)
