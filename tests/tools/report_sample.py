"""Reports as `turbo report --json` writes them (tools/timeline/README.md), made up: a training job of any size."""
import random

BINS = 1000
MS = 1_000_000
COMPUTE = [
    ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x1_tn_align8>(cutlass_80::Params)",
     "cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x1_tn_align8>"),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, "
     "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, at::native::BinaryFunctor<float, "
     "float, float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul>)",
     "vectorized_elementwise_kernel<4, BinaryFunctor<…>, array<…>>"),
    ("void flash::flash_fwd_kernel<flash::Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t, "
     "flash::Flash_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t> >, false, true, false, false, true, true, false>"
     "(flash::Flash_fwd_params)", "flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, …>>"),
    ("triton_poi_fused_native_layer_norm_native_layer_norm_backward_0d1d2d3d4d5de6de", "triton_poi_fused_native_layer_norm_backward_0"),
    ("sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
     "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32"),
]
HOSTILE = [
    "</script><script>document.title='broken'</script>",
    "\"><img src=x onerror=\"document.title='broken'\">",
    "<!--<script>", "]]>&amp;&lt;", "λ核函数\U0001f680<‮rtl>", "quotes \" ' ` \\ \\u003c/script>",
    "nul\u2028and\u2029separators", "x" * 4000,
]


def kernels(rng, window, hostile, busy):
    names = [(n, s, "compute") for n, s in COMPUTE] + [("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                                                       "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication")]
    names += [(n, n, "compute") for n in HOSTILE] if hostile else []
    names += [(f"void at::native::reduce_kernel<512, 1, {i}>(at::native::ReduceOp)", f"reduce_kernel<512, 1, {i}>", "compute") for i in range(16)]
    top = []
    left = busy
    for name, short, category in names:
        total = int(left * rng.uniform(0.15, 0.3))
        left -= total
        count = rng.randrange(200, 60000)
        mean = total // count
        top.append({"name": name, "short_name": short, "category": category, "count": count, "sum_ns": total, "mean_ns": mean,
                    "min_ns": mean // 2, "max_ns": mean * 3, "p50_ns": int(mean * 0.95), "p99_ns": mean * 2, "share": total / busy})
    top.sort(key=lambda k: -k["sum_ns"])
    return {"names": len(top) + 214, "top": top, "rest": {"count": 90123, "sum_ns": left}}


def series(rng, rank, window, unseen, slow):
    out = {"start": 0, "bin_ns": window / BINS, "compute": [], "communication": [], "memory": [], "other": [], "overlap": [], "unseen": []}
    for i in range(BINS):
        phase = (i % 25) / 25
        hidden = unseen and 400 <= i < 440
        stall = 700 <= i < 730 and rank == slow
        compute = 0 if hidden or stall else min(1, max(0, (0.9 if phase < 0.7 else 0.35) + rng.uniform(-0.08, 0.08)))
        room = 0 if hidden else 1 - compute
        comm = 0 if stall else room * (0.6 if 0.5 < phase < 0.95 else 0.05) * rng.uniform(0.8, 1)
        mem = (room - comm) * (0.5 if phase < 0.12 else 0.06)
        out["compute"].append(round(compute, 4))
        out["communication"].append(round(comm, 4))
        out["memory"].append(round(mem, 4))
        out["other"].append(0)
        out["overlap"].append(round(compute * (0.3 if phase > 0.3 else 0), 4))
        out["unseen"].append(1 if hidden else 0)
    return out


def times(s, window):
    bin_ns = window / BINS
    part = {key: int(sum(s[key]) * bin_ns) for key in ("compute", "communication", "memory", "other", "overlap", "unseen")}
    busy = part["compute"] + part["communication"] + part["memory"] + part["other"]
    seen = window - part["unseen"]
    comm = part["communication"] + part["overlap"]
    return {"window_ns": window, "busy_ns": busy, "idle_ns": seen - busy, "unseen_ns": part["unseen"], "compute_ns": part["compute"],
            "communication_ns": comm, "memory_ns": part["memory"] * 2, "other_ns": part["other"],
            "exposed_communication_ns": part["communication"], "exposed_memory_ns": part["memory"], "exposed_other_ns": part["other"],
            "overlap_ns": part["overlap"], "busy": busy / seen, "idle": 1 - busy / seen, "overlap": part["overlap"] / comm if comm else None}


def copy(count, size, gbps, pageable=0.0, staged=0):
    total = count * size
    slow = int(total * pageable / gbps * 4)
    spent = slow + int(total * (1 - pageable) / gbps)
    return {"count": count, "bytes": total, "ns": spent, "gbps": total / spent if spent else None, "pageable_count": int(count * pageable),
            "pageable_bytes": int(total * pageable), "pageable_ns": slow, "small_count": count // 9,
            "staged_count": staged, "staged_bytes": staged * size, "staged_ns": int(staged * size / gbps * 1.3)}


def tally(name, count, ns, failed=0, value=0):
    return {"name": name, "count": count, "failed": failed, "ns": ns, "max_ns": ns // max(1, count) * 7, "value": value}


def steps(rng, window, count, factor):
    base = window * 0.95 / (count + 2) * factor
    at = [int(window * 0.02 + base * (i + (1.2 if i > count // 3 else 0) + rng.gauss(0, 0.008))) for i in range(count + 1)]
    each = sorted(b - a for a, b in zip(at, at[1:]))
    return {"inferred": True, "count": count, "anchor": COMPUTE[2][1], "median_ns": each[count // 2], "p99_ns": each[int(count * 0.99)],
            "min_ns": each[0], "max_ns": each[-1], "slow": sum(e > 1.5 * each[count // 2] for e in each), "start": at}


def gpu(rng, rank, window, options):
    s = series(rng, rank, window, options["unseen"], options["slow"])
    t = times(s, window)
    used = [None if i % 16 else min(139e9, (38 + min(40, i / 4) + (i % 48) / 12 + rank % 5) * 1e9) for i in range(BINS)]
    peak = max(u for u in used if u)
    return {
        "device": rank % 8, "name": "NVIDIA H200", "memory_bytes": 150754820096, "first": 0, "last": window, "operations": 812345, "graphs": 0,
        "kernels": {"count": 801234 + rank, "sum_ns": t["busy_ns"], "p50_ns": 6100, "tiny_count": 501200, "tiny_ns": 2 * 10**9},
        "memsets": {"count": 1200, "bytes": 1 << 30, "ns": 3 * MS}, "time": t, "series": s,
        "gaps": [{"below_ns": b, "count": c, "ns": n} for b, c, n in ((10_000, 700123, 10**9), (100_000, 30211, 9 * 10**8), (MS, 512, 10**8),
                 (10 * MS, 96, 5 * 10**8), (100 * MS, 3, 2 * 10**8), (None, 0, 0))],
        "idle": {"pause": {"count": 1, "ns": 12 * 10**8}, "input": {"count": 120, "ns": 21 * 10**8}, "sync": {"count": 480, "ns": 8 * 10**8}, "allocation": {"count": 12, "ns": 4 * 10**7},
                 "short": {"count": 700123, "ns": 9 * 10**8}, "host": {"count": 3011, "ns": 3 * 10**8}},
        "copies": {"H2D": copy(4800, 12 << 20, 24.6, pageable=0.25, staged=1300), "D2H": copy(960, 4096, 2.1, pageable=1.0),
                   "D2D": copy(120000, 1 << 20, 1810.0), "P2P": copy(0, 0, 1), "other": copy(0, 0, 1)},
        "streams": [{"context": 1, "stream": i, "count": 400000 // (i + 1), "busy_ns": t["busy_ns"] // (i + 1), "host_wait_ns": 10**9, "kernel_wait_ns": 10**7,
                     "other_ns": 10**8} for i in (7, 13, 20)],
        "counters": [{"name": "device memory used", "last": used[992] or 0, "peak": peak, "samples": BINS // 16, "value": used}],
        "memory_peak": peak,
        "steps": steps(rng, window, options["steps"], 1.035 if rank == options["slow"] else 1) if options["steps"] else None,
    }


def sample(ranks=1, steps=240, hostile=False, unseen=True, straggler=True, seed=1):
    """A report of `ranks` ranks; hostile: names that try to leave their place in the document."""
    rng = random.Random(seed)
    window = 60 * 10**9
    options = {"steps": steps, "unseen": unseen, "slow": 2 if ranks > 2 and straggler else -1}
    command = HOSTILE[0] + " train.py" if hostile else "python train.py --config configs/llama-7b.yaml --fsdp"
    items = []
    for rank in range(ranks):
        g = gpu(rng, rank, window, options)
        items.append({
            "path": f"/scratch/run/turbo-gpu{rank // 8:02}-{4000 + rank}-1.timeline", "host": HOSTILE[1] if hostile else f"gpu{rank // 8:02}",
            "pid": 4000 + rank, "command": command, "rank": rank, "ranks": ranks, "local_rank": rank % 8, "mode": "launch", "libturbo": "0.1.0",
            "cupti_version": 130001, "driver_version": 13000, "start": -5 * MS, "end": window + MS if rank % 3 else None, "live": False,
            "records": 1612345 + rank, "damaged": 0, "sampled_share": 1,
            "lost": {"overwritten": 120034 if rank == 1 else 0, "cupti_lost": 0, "zero_time": 12 if rank == 0 else 0, "backwards": 0, "unknown": 0,
                     "events_lost": 0, "no_buffer": 0, "bad_buffer": 0, "table_full": 0, "dropped": 0},
            "gaps": {"count": 1, "ns": int(window * 0.04), "longest": [{"start": int(window * 0.4), "duration": int(window * 0.04),
                     "reason": HOSTILE[2] if hostile else "another CUPTI client: torch.profiler"}]} if unseen else {"count": 0, "ns": 0, "longest": []},
            "launches": True, "launch_count": 801000, "launch_delay_p50_ns": 48000,
            "calls": [tally("cudaLaunchKernel", 801000, 3 * 10**9), tally("cudaMemcpyAsync", 125760, 10**9), tally("cudaEventRecord", 4000, 3 * MS)],
            "syncs": [tally("cudaStreamSynchronize", 960, 2 * 10**9), tally("cudaDeviceSynchronize", 24, 10**8)],
            "events": [tally("staged copy H2D", 1300, 9 * 10**8, value=1300 * (12 << 20)), tally("device memory from the driver", 412, 2 * 10**8)],
            "overheads": [tally("activity buffer request", 96, 4 * MS)],
            "allocations": {"count": 412, "ns": 2 * 10**8, "bytes": 80 << 30, "late_count": 200, "free_count": 160, "free_ns": 10**8, "out_of_memory": 0},
            "collectives": [{"function": "ncclAllReduce", "count": 4800, "failed": 0, "bytes": 4800 * (64 << 20), "small_count": 240, "ranks": ranks,
                             "kernel_count": 4800, "kernel_ns": g["time"]["communication_ns"], "busbw": 281.4},
                            {"function": "ncclAllGather", "count": 96, "failed": 0, "bytes": 96 * 8192, "small_count": 96, "ranks": ranks,
                             "kernel_count": 96, "kernel_ns": 10**8, "busbw": 0.4}] if ranks > 1 else [],
            "kernels": kernels(rng, window, hostile, g["time"]["busy_ns"]), "gpus": [g]})
    return finish(items, window, hostile, ranks, rng)


def finish(items, window, hostile, ranks, rng):
    total = {}
    for item in items:
        for key, value in item["gpus"][0]["time"].items():
            total[key] = total.get(key, 0) + (value or 0)
    for key in ("busy", "idle", "overlap"):
        total[key] /= ranks
    findings = [
        ("pageable-copies", "problem", "Copies from pageable memory hold up the GPU", "H2D: 1,200 of 4,800 copies (14.1 GiB) came from pageable "
         "memory at 6.2 GB/s; pinned copies reached 24.6 GB/s.", "Give DataLoader pin_memory=True and copy with non_blocking=True, or let libturbo "
         "stage them.", "TURBO_COPY=on", 0.042, None),
        ("input-starvation", "problem", "The GPU waits for input", "3.5 % of the time the GPU was idle before a copy from the host, 120 times, "
         "17.5 ms each.", "More loader workers (num_workers), persistent_workers=True, prefetch_factor=4.", "", 0.035, 0),
        ("straggler", "warning", "One rank holds up the others", "rank 2 needs 3.5 % longer for a step without waiting than the median rank.",
         "Look at the clocks and the host of that rank (nvidia-smi -q -d PERFORMANCE), and at how work is divided.", "", 0.034, 2),
        ("exposed-communication", "warning", "Communication is not hidden behind compute", "11.0 % of the time is communication alone; 62 % of "
         "communication is hidden.", "Larger buckets (bucket_cap_mb), reshard_after_forward, or overlap with the backward pass.", "", 0.11, None),
        ("tiny-kernels", "note", "Many kernels are very short", "501,200 of 801,234 kernels take less than 10 µs, together 2.0 s.",
         "torch.compile(mode=\"reduce-overhead\"), or CUDA graphs.", "", 0.03, None),
        ("allocation-churn", "note", "Device memory comes from the driver again and again", "200 of 412 allocations are in the second half.",
         "Keep PyTorch's caching allocator on; libturbo caches what goes around it.", "TURBO_DEVMEM=cache", None, None),
        ("syncs", "note", "Synchronisations drain the queue", "960 calls of cudaStreamSynchronize, after each the GPU was idle for 1.7 ms.",
         "Fetch losses less often; avoid .item() in the loop.", "", 0.013, None)]
    if hostile:
        findings.insert(0, ("hostile", "problem", HOSTILE[0], HOSTILE[1], HOSTILE[4], HOSTILE[5], 0.5, 0))
    return {
        "format": "turbo-report", "version": 1, "origin_ns": 1796000000000000000, "window": {"start": 0, "end": window, "asked": False},
        "verdict": HOSTILE[0] if hostile else "The GPUs are busy 85 % of the time; 11 % is communication that nothing hides.",
        "time": total, "kernels": items[0]["kernels"],
        "straggler": {"rank": 2, "excess": 0.035} if ranks > 2 else None, "memory_imbalance": 1.06 if ranks > 1 else None,
        "findings": [dict(zip(("id", "severity", "title", "evidence", "fix", "option", "cost", "rank"), f)) for f in findings
                     if f[7] is None or f[7] < ranks],
        "ranks": items}


def empty():
    """No file could be read."""
    return {"format": "turbo-report", "version": 1, "origin_ns": 0, "window": {"start": 0, "end": 0, "asked": False}, "verdict": "", "time": {},
            "kernels": {"names": 0, "top": [], "rest": {"count": 0, "sum_ns": 0}}, "straggler": None, "memory_imbalance": None, "findings": [], "ranks": []}


def without_gpu():
    """A process that recorded, but used no GPU."""
    report = sample()
    report["ranks"][0]["gpus"] = []
    return dict(report, findings=[], verdict="")


def single():
    """One kernel of one nanosecond, and next to nothing else."""
    report = empty()
    kernel = {"name": "k", "short_name": "k", "category": "compute", "count": 1, "sum_ns": 1, "mean_ns": 1, "min_ns": 1, "max_ns": 1, "p50_ns": 1,
              "p99_ns": 1, "share": 1}
    top = {"names": 1, "top": [kernel], "rest": {"count": 0, "sum_ns": 0}}
    time = {"window_ns": 1, "busy_ns": 1, "idle_ns": 0, "unseen_ns": 0, "compute_ns": 1, "communication_ns": 0, "memory_ns": 0, "other_ns": 0,
            "exposed_communication_ns": 0, "exposed_memory_ns": 0, "exposed_other_ns": 0, "overlap_ns": 0, "busy": 1, "idle": 0, "overlap": None}
    none = [0] * BINS
    gpu_ = {"device": 0, "name": "", "memory_bytes": 0, "first": 0, "last": 1, "operations": 1, "graphs": 0, "kernels": {"count": 1, "sum_ns": 1},
            "time": time, "series": {"start": 0, "bin_ns": 0.001, "compute": [1] * BINS, "communication": none, "memory": none, "other": none,
                                     "overlap": none, "unseen": none}, "gaps": [], "idle": {}, "copies": {}, "streams": [], "counters": [],
            "memory_peak": None, "steps": None}
    rank = {"path": "a.timeline", "host": "", "pid": 1, "command": "", "rank": -1, "ranks": -1, "local_rank": -1, "mode": "kernel", "start": 0,
            "end": None, "live": True, "records": 1, "damaged": 0, "sampled_share": 1, "lost": {}, "gaps": {"count": 0, "ns": 0, "longest": []},
            "launches": False, "kernels": top, "gpus": [gpu_]}
    return dict(report, origin_ns=1, window={"start": 0, "end": 1, "asked": False}, time=time, kernels=top, ranks=[rank])
