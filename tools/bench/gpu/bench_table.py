"""The table of run_bench.py: rows, limits, text and Markdown."""
import time

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SMALL = 64 * KIB    # up to here times are shown rather than rates
# Up to here copies are passed through, and judged by pass_rows(), within one process.
PASSED = {"heap": 512 * KIB, "pinned": 16 * MIB}
PASS_US = 0.2       # what passing through may cost more

# (op, kind, api, sizes from .. to) -> (what is compared with, least ratio)
LIMITS = [
    ("h2d", "heap", "async", GIB, GIB, "pinned", 0.90),
    ("h2d", "heap", "async", 256 * MIB, 256 * MIB, "pinned", 0.85),
    ("h2d", "heap", "async", 64 * MIB, 64 * MIB, "pinned", 0.75),
    ("h2d", "heap", "async", 16 * MIB, 16 * MIB, "pinned", 0.60),
    ("h2d", "heap", "async", 4 * MIB, 4 * MIB, "native", 1.5),
    ("d2h", "heap", "async", 256 * MIB, GIB, "pinned", 0.88),
    ("d2h", "heap", "async", 64 * MIB, 64 * MIB, "pinned", 0.75),
    ("h2d", "shm", "async", 64 * MIB, 64 * MIB, "native", 3.5),
]
NOT_SLOWER = 0.97  # of native, every pageable cell


def size_name(n):
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if n >= unit:
            return "%d %s" % (n // unit, name)
    return "%d B" % n


def limit_of(key):
    op, kind, api, size = key
    for o, k, a, low, high, base, least in LIMITS:
        if (o, k, a) == (op, kind, api) and low <= size <= high:
            return base, least
    return None


def row(key, native, staged, pinned):
    """One row; times in microseconds, rates in GB/s."""
    op, kind, api, size = key
    n, s = native[key]["total_ns"], staged[key]["total_ns"]
    r = {"op": op, "kind": kind, "api": api, "bytes": size, "native_us": n / 1e3, "staged_us": s / 1e3,
         "native_gbps": size / n, "staged_gbps": size / s, "native_cpu_us": native[key]["cpu_ns"] / 1e3,
         "staged_cpu_us": staged[key]["cpu_ns"] / 1e3, "staged_blocked_us": staged[key]["blocked_ns"] / 1e3,
         "native_blocked_us": native[key]["blocked_ns"] / 1e3, "of_native": n / s}
    if pinned:
        r["pinned_us"], r["pinned_gbps"], r["of_pinned"] = pinned / 1e3, size / pinned, pinned / s
    limits, kept = ["%.2f native" % NOT_SLOWER], r["of_native"] >= NOT_SLOWER
    special = limit_of(key)
    if special:
        base, least = special
        limits = ["%.2f %s" % (least, base)]
        kept = kept and r.get("of_" + base, 0) >= least
    if size <= PASSED.get(kind, 0):
        r["limit"], r["verdict"] = "passed through", ""
        return r
    r["limit"], r["verdict"] = ", ".join(limits), "ok" if kept else "MISS"
    return r


def rows(native, staged):
    """All rows. The pinned rate of a size is the mean of both modes' medians: libturbo does not
    touch pinned copies, which has rows of its own to show it."""
    out = []
    for key in native:
        if key not in staged:
            continue
        op, kind, api, size = key
        p = (op, "pinned", "async", size)
        pinned = (native[p]["total_ns"] + staged[p]["total_ns"]) / 2 if p in native and p in staged else None
        out.append(row(key, native, staged, pinned if kind != "pinned" else None))
    order = {"heap": 0, "shm": 1, "fresh": 2, "pinned": 3}
    return sorted(out, key=lambda r: (r["op"] != "h2d", order[r["kind"]], r["api"], r["bytes"]))


HEAD = ["size", "pinned", "native", "staged", "staged/pinned", "staged/native", "limit", "", "CPU ms native", "staged"]


def cells(r):
    """A row as text. Rates in GB/s; small copies in microseconds, where rates say nothing."""
    small = r["bytes"] <= SMALL

    def value(name):
        if name + "_us" not in r:
            return ""
        return "%.2f us" % r[name + "_us"] if small else "%.1f" % r[name + "_gbps"]

    return [size_name(r["bytes"]), value("pinned"), value("native"), value("staged"),
            "%.2f" % r["of_pinned"] if "of_pinned" in r else "", "%.2f" % r["of_native"], r["limit"], r["verdict"],
            "%.3f" % (r["native_cpu_us"] / 1e3), "%.3f" % (r["staged_cpu_us"] / 1e3)]


TITLES = {("h2d", "heap"): "Host to device, pageable", ("d2h", "heap"): "Device to host, pageable",
          ("h2d", "shm"): "Host to device, a new mapping of a /dev/shm file for each copy",
          ("h2d", "fresh"): "Host to device, a new anonymous mapping for each copy",
          ("d2h", "fresh"): "Device to host, into pages never touched before",
          ("h2d", "pinned"): "Host to device, pinned (passed through)",
          ("d2h", "pinned"): "Device to host, pinned (passed through)"}
APIS = {"async": "asynchronous call and synchronisation", "sync": "synchronous call", "stream": "on a stream of its own"}


PASS_HEAD = ["direction", "memory", "call", "size", "driver us", "libturbo us", "more us", "limit", ""]


def pass_rows(text):
    """The rows of pass_bench's output."""
    out = []
    for line in text.splitlines():
        if not line.startswith("pass "):
            continue
        f = dict(x.split("=", 1) for x in line.split()[1:])
        driver, turbo, size = int(f["driver_ns"]) / 1e3, int(f["turbo_ns"]) / 1e3, int(f["bytes"])
        kept = driver / turbo >= NOT_SLOWER and (turbo - driver <= PASS_US or size > SMALL)
        out.append({"op": f["op"], "kind": f["kind"], "api": f["api"], "bytes": size, "driver_us": driver,
                    "turbo_us": turbo, "limit": "%.2f of the driver, +%.1f us" % (NOT_SLOWER, PASS_US),
                    "verdict": "not preloaded" if f["same"] == "1" else "ok" if kept else "MISS"})
    return out


def pass_cells(r):
    return ["to the device" if r["op"] == "h2d" else "from the device", r["kind"], r["api"], size_name(r["bytes"]),
            "%.2f" % r["driver_us"], "%.2f" % r["turbo_us"], "%+.2f" % (r["turbo_us"] - r["driver_us"]), r["limit"],
            r["verdict"]]


PASS_TITLE = "Copies that are passed through: libturbo's function and the driver's own in turns, in one process"


def pass_text(rows_):
    return "\n%s\n%s\n" % (PASS_TITLE, aligned([PASS_HEAD] + [pass_cells(r) for r in rows_]))


def pass_markdown(rows_):
    lines = ["", "## " + PASS_TITLE, "", "| " + " | ".join(PASS_HEAD) + " |", "|" + "---|" * len(PASS_HEAD)]
    return "\n".join(lines + ["| " + " | ".join(pass_cells(r)) + " |" for r in rows_]) + "\n"


def groups(all_rows):
    """(title, rows) in the order of the rows."""
    out = []
    for r in all_rows:
        title = "%s, %s" % (TITLES[(r["op"], r["kind"])], APIS[r["api"]])
        if not out or out[-1][0] != title:
            out.append((title, []))
        out[-1][1].append(r)
    return out


def aligned(lines):
    width = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(line, width)).rstrip() for line in lines)


def text(all_rows):
    parts = ["GB/s (us up to %s); CPU: milliseconds of all threads, a copy" % size_name(SMALL)]
    for title, members in groups(all_rows):
        parts.append("\n%s\n%s" % (title, aligned([HEAD] + [cells(r) for r in members])))
    return "\n".join(parts) + "\n"


def about(machine, rounds, command, env):
    return ("%(gpu)s, driver %(driver)s; %(cpu)s, %(cores)d cores; Linux %(kernel)s\n" % machine +
            "%s; medians over %d rounds, bare and preloaded in turns%s\n%s\n" %
            (time.strftime("%Y-%m-%d"), rounds,
             "; " + " ".join("%s=%s" % x for x in env.items()) if env else "", command))


def markdown(all_rows, about_text):
    machine, when, command = about_text.strip().split("\n")
    out = ["# Benchmarks", "", "Copies between host and device with and without libturbo, by `make bench-gpu`.", "",
           "- Machine: " + machine, "- Measured: " + when, "- Command: `%s`" % command, "",
           "pinned: the driver's copy of pinned memory. native: the driver's copy of pageable memory. staged: the same "
           "call with libturbo.so preloaded. GB/s; microseconds up to %s, where copies are passed through. CPU: "
           "milliseconds of all threads, a copy." % size_name(SMALL)]
    for title, members in groups(all_rows):
        out += ["", "## " + title, "", "| " + " | ".join(HEAD) + " |", "|" + "---:|" * len(HEAD)]
        out += ["| " + " | ".join(cells(r)) + " |" for r in members]
    return "\n".join(out) + "\n"


def sweep(merged):
    """Sizes down, settings across: GB/s, and the share of pinned in brackets."""
    names = [n for n in merged if n != "native"]
    lines = [["copy", "size", "pinned", "native"] + names]
    for key in sorted(merged["native"], key=lambda k: (k[0] != "h2d", k[1], k[3])):
        op, kind, api, size = key
        if kind == "pinned":
            continue
        pinned = merged["native"].get((op, "pinned", "async", size))
        line = ["%s %s" % (op, kind), size_name(size), "%.1f" % (size / pinned["total_ns"]) if pinned else "",
                "%.1f" % (size / merged["native"][key]["total_ns"])]
        for n in names:
            t = merged[n][key]["total_ns"]
            share = " (%.2f)" % (pinned["total_ns"] / t) if pinned else ""
            line.append("%.1f%s" % (size / t, share))
        lines.append(line)
    return aligned(lines) + "\n"
