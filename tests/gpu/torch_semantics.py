"""What PyTorch programs can see of copies besides their speed: must read the same with libturbo."""
import sys
import threading

import torch_common as common
import torch

N = 4 << 20


def source(seed):
    return common.pattern(N, seed)


def pinned_state():
    x = source(1)
    x.cuda()
    p = x.pin_memory()
    return [x.is_pinned(), p.is_pinned(), p.data_ptr() != x.data_ptr()]


def overwritten_after_non_blocking():
    """A pageable source may be overwritten as soon as the call returns, also a slice of it."""
    x = source(2)
    want = x.clone()
    y, part = x.cuda(non_blocking=True), x[5:1029].cuda(non_blocking=True)
    x.fill_(-1)
    torch.cuda.synchronize()
    return [torch.equal(y.cpu(), want), torch.equal(part.cpu(), want[5:1029])]


def side_streams():
    out, streams = [], [torch.cuda.Stream() for _ in range(3)]
    for i, s in enumerate(streams):
        with torch.cuda.stream(s):
            out.append((source(10 + i).cuda(non_blocking=True) + 1).cpu())
    return [torch.equal(o, source(10 + i) + 1) for i, o in enumerate(out)]


def graph_replay():
    static = source(20).cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        static.mul(2)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = static.mul(2)
    results = []
    for i in range(3):
        static.copy_(source(30 + i))
        graph.replay()
        results.append(torch.equal(out.cpu(), source(30 + i) * 2))
    return results


def copy_while_another_thread_captures():
    """Thread-local capture here, copies there."""
    static, got, ready = source(40).cuda(), [], threading.Event()
    torch.cuda.synchronize()

    def copy():
        ready.wait()
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            got.append(torch.equal(source(41).cuda().cpu(), source(41)))

    t = threading.Thread(target=copy)
    t.start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        out = static.mul(3)
        ready.set()
        t.join()
    graph.replay()
    return got + [torch.equal(out.cpu(), source(40) * 3)]


def threads():
    bad = []

    def work(i):
        for k in range(8):
            x = source(100 + 10 * i + k)[: 1000 + 300007 * k]
            if not torch.equal(x.cuda().cpu(), x):
                bad.append((i, k))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    return bad


def views():
    """Strided, transposed and converted copies."""
    x = source(50).view(2048, 2048)
    return [torch.equal(x.t().cuda().cpu(), x.t()), torch.equal(x[::2, 1::3].cuda().cpu(), x[::2, 1::3]),
            torch.equal(x.cuda().half().cpu(), x.half()), torch.equal(x.to("cuda", torch.float64).cpu(), x.double())]


def error_text():
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as e:
        return str(e).split(".")[0]
    return "no error"


CASES = [pinned_state, overwritten_after_non_blocking, side_streams, graph_replay,
         copy_while_another_thread_captures, threads, views, error_text]

if __name__ == "__main__":
    common.need_gpu()
    common.result(**{f.__name__: f() for f in CASES})
    sys.exit(0)
