"""`.cpu()` of 1 GiB: milliseconds, and the bytes compared."""
import torch_common as common
import torch

REPEATS = 5

if __name__ == "__main__":
    common.need_gpu()
    want = common.pattern(1 << 28, 11)
    x = want.cuda()
    times, equal = [], True
    for _ in range(REPEATS):
        ms, y = common.timed(x.cpu)
        times.append(ms)
        equal = equal and torch.equal(y, want)
        del y
    common.result(ms=times, bytes=x.numel() * 4, equal=equal)
