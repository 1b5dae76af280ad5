"""A training step whose allocator is up to the environment: milliseconds, and every loss.

Ordinary PyTorch; check_devmem.py runs it with PyTorch's own caching allocator, and with
PYTORCH_NO_CUDA_MEMORY_CACHING=1, where each tensor is a cudaMalloc and a cudaFree.
"""
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch_common as common  # noqa: E402
import torch  # noqa: E402
import torch_gpt as gpt  # noqa: E402

WARM, STEPS, GROUP = 4, 12, 4
BATCH, LENGTH, VOCABULARY = 8, 512, 16384
DEVICE = "cuda"


class Training:
    def __init__(self):
        torch.manual_seed(3)
        self.model = gpt.Gpt(width=1024, layers=8, heads=16, vocabulary=VOCABULARY, longest=LENGTH).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.step, self.losses = 0, []
        self.steps(WARM)

    def steps(self, n):
        for _ in range(n):
            loss = gpt.loss_of(self.model, gpt.batch(self.step, BATCH, LENGTH, VOCABULARY, DEVICE))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.losses.append(loss.detach())
            self.step += 1

    def timed(self):
        """Milliseconds a step, for groups of steps that nothing waits between."""
        return common.groups(lambda: common.timed(lambda: self.steps(GROUP))[0] / GROUP, STEPS // GROUP)


if __name__ == "__main__":
    common.need_gpu()
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    training = Training()
    common.taking_turns({"time": training.timed, "losses": lambda: [x.item().hex() for x in training.losses]})
