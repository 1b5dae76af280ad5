"""Host memory: unmodified scripts, bare and under TURBO_HOSTMEM=on."""
import check_torch
import harness as h
from turns import Players

ON = {"TURBO_HOSTMEM": "on"}
ROUNDS = 3
# part -> (what, at least so many times faster)
LIMITS = {
    "torch_64": ("PyTorch, 64 MiB made, filled, dropped", 4.0),
    "torch_256": ("PyTorch, 256 MiB", 4.0),
    "numpy_64": ("NumPy, 64 MiB", 4.0),
    "numpy_256": ("NumPy, 256 MiB", 4.0),
    "pinned": ("cudaMallocHost and cudaFreeHost, 256 MiB", 100.0),
    "loader": ("a batch of 38.5 MB, made and taken to the GPU, num_workers=0", 3.0),
}
PINNED_SHARE = 0.95  # of pinned speed, of a tensor that is copied again and again
RSS_MIB = 2048       # above the bare run's: TURBO_HOSTMEM_CACHE_MB's default at most


def flat(rounds):
    return h.median([x for r in rounds for x in r])


def hostmem_speed(details):
    problems = []
    with Players(check_torch.script("torch_hostmem.py") + ["--turns"],
                 [("bare", h.BARE, None), ("on", h.PRELOADED, ON)], limit=400) as players:
        for part, (what, limit) in LIMITS.items():
            r = players.one_by_one(part, ROUNDS)
            bare, on = flat(r["bare"]), flat(r["on"])
            details["figures"][part] = {"bare_ms": bare, "on_ms": on, "ratio": bare / on, "limit": limit}
            details["lines"].append("%s: bare %.3f ms, preloaded %.3f ms: %.1f x, limit %.0f x" %
                                    (what, bare, on, bare / on, limit))
            if bare / on < limit:
                problems.append("%s: %.2f x is below %.0f x" % (part, bare / on, limit))
        again = players.one_by_one("again", ROUNDS)
        pinned = players.one_by_one("again_pinned", ROUNDS)
        share = flat(pinned["bare"]) / flat(again["on"])
        details["figures"]["again"] = {"pinned_ms": flat(pinned["bare"]), "on_ms": flat(again["on"]),
                                       "bare_ms": flat(again["bare"]), "share": share, "limit": PINNED_SHARE}
        details["lines"].append("64 MiB copied again and again: bare %.2f ms, preloaded %.2f ms, pinned %.2f ms: %.2f of "
                                "pinned, limit %.2f" % (flat(again["bare"]), flat(again["on"]),
                                                        flat(pinned["bare"]), share, PINNED_SHARE))
        if share < PINNED_SHARE:
            problems.append("%.2f of pinned speed" % share)
        ends = players.end()
    details["lines"].append("counters: %s" % {k: v for k, v in ends["on"]["stats"].items()
                                              if k.startswith("hostmem") and v})
    check_torch.quiet(ends["on"], problems)
    return problems


def hostmem_rss(details):
    running = [h.Process(check_torch.script("torch_hostmem_rss.py"), mode, extra, 240)
               for mode, extra in ((h.BARE, None), (h.PRELOADED, ON))]
    bare, on = [check_torch.result_of(p.wait(), mode) for p, mode in zip(running, (h.BARE, h.PRELOADED))]
    details["lines"].append("resident, median and most: bare %d and %d MiB, preloaded %d and %d MiB" % tuple(
        x >> 20 for x in (bare["median"], bare["most"], on["median"], on["most"])))
    problems = ["the device got other bytes"] if bare["sum"] != on["sum"] else []
    if on["most"] > bare["most"] + (RSS_MIB << 20):
        problems.append("more than %d MiB above bare" % RSS_MIB)
    check_torch.quiet(on, problems)
    return problems


def hostmem_losses(details):
    names = [(h.BARE, None), (h.PRELOADED, ON)]
    running = [h.Process(check_torch.script("torch_losses.py"), m, e) for m, e in names]
    bare, on = [check_torch.result_of(p.wait(), m) for p, (m, _) in zip(running, names)]
    check_torch.quiet(on, problems := [])
    details["lines"].append("%d losses compared bit by bit" % len(bare["fork"]["losses"]))
    return problems + ["%s workers: %s differ" % (start, part) for start in ("fork", "spawn")
                       for part in ("losses", "activations", "state") if bare[start][part] != on[start][part]]


TESTS = [("hostmem_speed", hostmem_speed), ("hostmem_rss", hostmem_rss), ("hostmem_losses", hostmem_losses)]
