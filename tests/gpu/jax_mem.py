"""JAX without preallocation: milliseconds a step, and the bytes of the result. With
XLA_PYTHON_CLIENT_ALLOCATOR=platform every buffer is a cuMemAlloc and a cuMemFree."""
import hashlib
import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# The same kernels in every process: none is chosen by timing.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0")

import script_common as common  # noqa: E402

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError:
    print("skipped: JAX is not installed")
    sys.exit(77)

WIDTH, LAYERS, BATCH, STEPS = 1024, 4, 512, 30


def parameters():
    draw = np.random.default_rng(0)
    return [jnp.asarray(draw.standard_normal((WIDTH, WIDTH), dtype=np.float32) / 32) for _ in range(LAYERS)]


def loss_of(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return (x * x).mean()


@jax.jit
def train_step(weights, x):
    loss, gradients = jax.value_and_grad(loss_of)(weights, x)
    return loss, [w - 0.05 * g for w, g in zip(weights, gradients)]


class Work:
    def __init__(self):
        self.weights, self.number, self.losses = parameters(), 0, []
        self.steps(3)

    def steps(self, n):
        for _ in range(n):
            # Small operations of their own beside the compiled step, as input pipelines have them.
            x = jnp.sin(jnp.arange(BATCH * WIDTH, dtype=jnp.float32).reshape(BATCH, WIDTH) * (0.001 + self.number))
            x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)
            loss, self.weights = train_step(self.weights, x)
            self.losses.append(loss)
            self.number += 1
        jax.block_until_ready(self.weights)

    def group(self):
        begun = time.perf_counter()
        self.steps(STEPS // 3)
        return (time.perf_counter() - begun) * 1e3 / (STEPS // 3)

    def timed(self):
        return common.groups(self.group, 3)

    def bytes(self):
        h = hashlib.sha256()
        for x in self.losses + self.weights:
            h.update(np.asarray(x).tobytes())
        return h.hexdigest()


if __name__ == "__main__":
    if jax.default_backend() != "gpu":
        print("skipped: JAX has no GPU")
        sys.exit(77)
    work = Work()
    common.taking_turns({"time": work.timed, "losses": work.bytes})
