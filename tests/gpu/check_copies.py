"""The cases of order_check, bare and preloaded, and their notes compared."""
import harness as h

# Options of the second preloaded run: what the defaults leave untested.
VERIFY = {"TURBO_VERIFY": "1", "TURBO_COPY_THREADS": "2", "TURBO_COPY_RING_MB": "8", "TURBO_COPY_MIN_KB": "64"}


# Not under TURBO_VERIFY: a verified copy waits for its turn, and a source that somebody rewrites while
# its copy waits is not what was read of it early.
NOT_VERIFIED = ["small_h2d_returns_early", "host_callback_writes_source", "callback_behind_event", "graph_host_node",
                "wait_value", "kernel_spins_on_flag", "synchronous_behind_flag", "ipc_event"]


def parse(text):
    """(case -> (word, reason), notes, staged copies) of an order_check run."""
    cases, notes = {}, []
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("ok", "skip", "FAIL"):
            name, _, reason = rest.partition(" ")
            cases[name.rstrip(":")] = (word, reason)
        elif word == "note":
            notes.append(rest)
    return cases, notes, h.json_line(text, "stats")


def run(mode, extra=None, args=()):
    p = h.run([h.program("order_check"), *args], mode, extra, limit=240)
    if p.status not in (0, 1):
        raise RuntimeError("%s: %s\n%s" % (mode, p.why(), "\n".join(p.out.splitlines()[-8:])))
    return p, parse(p.out)


# Promises of ours that the driver itself does not keep: bare they may fail. A pageable copy that waits
# for its turn holds back every other thread's copies (580.159: 275 ms behind a 270 ms kernel).
OURS_ALONE = {"blocked_copy_blocks_nobody"}


# What the driver answers of memory that the program has freed: libturbo may be keeping it, and then it
# is memory still (policy/devmem). The program is wrong either way.
OF_FREED_MEMORY = "wrong_arguments h2d_freed "


def problems_of(mode, cases):
    return ["%s %s: %s" % (mode, name, reason) for name, (word, reason) in cases.items()
            if word == "FAIL" and not (mode == "bare" and name in OURS_ALONE)]


def check_stats(stats, details, problems):
    """The preloaded run must have staged, and nothing may have gone wrong inside."""
    if not stats:
        problems.append("preloaded: turbo stats found nothing of the process: was anything staged?")
        return
    c = stats["counters"]
    staged = c["copy.h2d.staged"] + c["copy.d2h.staged"]
    details["figures"]["counters"] = c
    details["lines"].append("staged %d copies, %d verified, %d errors inside" %
                            (staged, c.get("copy.verified", 0), c.get("errors", 0)))
    if staged < 100:
        problems.append("only %d copies were staged: the cases did not test staging" % staged)
    if c.get("copy.mismatch"):
        problems.append("TURBO_VERIFY saw %d differences" % c["copy.mismatch"])


def compare_notes(bare, preloaded):
    bare = [n for n in bare if not n.startswith(OF_FREED_MEMORY)]
    preloaded = [n for n in preloaded if not n.startswith(OF_FREED_MEMORY)]
    lines = ["bare: %s" % n for n in bare if n not in preloaded]
    return lines + ["preloaded: %s" % n for n in preloaded if n not in bare]


def order(details):
    bare, (bare_cases, bare_notes, _) = run(h.BARE, args=["--huge"])
    loaded, (cases, notes, stats) = run(h.PRELOADED, args=["--huge"])
    details["output"] = "== bare\n%s\n== preloaded\n%s\n%s" % (bare.out, loaded.out, loaded.err)
    details["lines"].append("%d cases; bare %.0f s, preloaded %.0f s" % (len(cases), bare.seconds, loaded.seconds))
    for name, (word, reason) in cases.items():
        if word == "skip":
            details["lines"].append("not tested here: %s: %s" % (name, reason))
    details["lines"] += [x for x in loaded.err.splitlines() if x.startswith("libturbo")][:5]
    problems = problems_of("bare", bare_cases) + problems_of("preloaded", cases)
    problems += compare_notes(bare_notes, notes)
    if set(cases) != set(bare_cases):
        problems.append("the two runs did not run the same cases")
    check_stats(stats, details, problems)
    return problems


def order_verify(details):
    """Few threads, a small ring, a low limit, and every staged copy re-read."""
    names = h.run([h.program("order_check"), "--list"], h.BARE).out.split()
    loaded, (cases, _, stats) = run(h.PRELOADED, VERIFY, [n for n in names if n not in NOT_VERIFIED])
    details["output"] = loaded.out + loaded.err
    problems = problems_of("preloaded", cases)
    check_stats(stats, details, problems)
    if stats and not stats["counters"].get("copy.verified"):
        problems.append("TURBO_VERIFY=1 verified nothing")
    return problems
