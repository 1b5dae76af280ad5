"""What libturbo reads of this interpreter's frames, against what it says itself: probe.py PROBE.SO"""
import ctypes
import os
import sys
import threading
import time
import traceback

lib = ctypes.CDLL(sys.argv[1])
held = ctypes.PyDLL(sys.argv[1])
lib.probe_text.restype = ctypes.c_char_p
lib.probe_time.restype = ctypes.c_double
lib.probe_ticked.restype = ctypes.c_ulonglong
failed = 0


def check(what, good, *more):
    global failed
    if not good:
        failed += 1
        print("FAILED: %s %s" % (what, " ".join(map(str, more))[:1000]))


def text(site):
    return lib.probe_text(site).decode()


def python_lines(t):
    return [line[len("  python "):] for line in t.splitlines() if line.startswith("  python ")]


def shown(path):
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in path:
            path = path[path.rindex(folder) + 1:]
    raw = path.encode()
    return path if len(raw) <= 100 else "..." + raw[-100:].decode(errors="ignore")


def qualname(frame):
    code = frame.f_code
    return getattr(code, "co_qualname", code.co_name)[:80]


def expected(frame, first_line=None):
    out = []
    while frame and len(out) < 24:
        line = first_line if first_line and not out else frame.f_lineno
        out.append("%s:%d %s" % (shown(frame.f_code.co_filename), line, qualname(frame)))
        frame = frame.f_back
    return out


def here(what):
    """Reads the stack from here and compares it."""
    site = lib.probe_site()
    frame = sys._getframe()
    want, got = expected(frame, frame.f_lineno - 2), python_lines(text(site))
    wrong = [(g, w) for g, w in zip(got, want) if g != w]
    check(what, got == want, len(got), len(want), wrong[:2])
    return site


# ---- before anything was looked for

check("nothing is known yet", lib.probe_site() == 0)
version = lib.probe_start()
check("version", version == sys.version_info[0] << 8 | sys.version_info[1], hex(version))
check("readable", lib.probe_readable() == 1)

# ---- shapes of stacks


class Outer:
    class Inner:
        def method(self):
            return here("a method")

        @staticmethod
        def nested():
            def local():
                return here("a local function")
            return local()


def deep(n):
    return here("deep") if n == 0 else deep(n - 1)


def generator():
    yield here("a generator")


async def coroutine():
    return here("a coroutine")


def run_coroutine():
    try:
        coroutine().send(None)
    except StopIteration as stop:
        return stop.value


def long_function():
    x = 0
    exec("\n" * 700 + "x = here('many lines further down')", {"here": here})
    return x


def jumps():
    for i in range(3):
        if i == 1:
            try:
                raise ValueError
            except ValueError:
                here("in a handler")
        else:
            with threading.Lock():
                (
                    here
                )(
                    "a call over lines"
                )
    return [here("in a comprehension") for _ in range(1)]


here("module level")
Outer.Inner().method()
Outer.Inner.nested()
for n in (1, 5, 22, 23, 24, 40):
    deep(n)
for _ in generator():
    pass
run_coroutine()
long_function()
jumps()
(lambda: here("a lambda"))()
sorted([2, 1], key=lambda x: here("called from C") and x)
odd = ["/tmp/\u00e9t\u00e9/\u4e2d\u6587/\U0001f600.py", "/x/site-packages/pack/mod.py", "/" + "l" * 300 + "/f.py",
       "bad\nname.py"]
for name in odd[:3]:
    exec(compile("def f\u00e9():\n\n\n  return here('file ' + name)\nf\u00e9()", name, "exec"), {"here": here, "name": name})

# ---- equal stacks have equal sites, different ones do not


def same_twice():
    out = []
    for _ in range(2):
        out.append(lib.probe_site())
    return out


one, two = same_twice()
check("the same place", one == two and one != 0)
a = lib.probe_site()
b = lib.probe_site()
check("two lines differ", a != b, a, b)


def make(i):
    space = {"lib": lib}
    exec(compile("\n" * i + "def made_%d():\n  return lib.probe_site()" % i, "made", "exec"), space)
    return space["made_%d" % i]


seen = set()
for i in range(30):
    site = make(i)()
    first = python_lines(text(site))
    check("a code object in the place of another", not first or "made_%d" % i in first[0], first[:1], i)

def timed(n):
    return lib.probe_time(2000) if n == 0 else timed(n - 1)


print("python %d.%d.%d: a known site of 24 frames: %.0f ns, of 5: %.0f ns" %
      (*sys.version_info[:3], timed(30), timed(3)))

# ---- dumps

SIZE = 60000


def dump(tids, ms=600, library=lib):
    buf = ctypes.create_string_buffer(SIZE)
    ids = (ctypes.c_uint32 * max(1, len(tids)))(*tids)
    n = library.probe_dump(buf, SIZE, ids, len(tids), ms)
    out, now = {}, None
    for line in buf.raw[:n].decode().splitlines():
        if line.startswith("thread "):
            now = out.setdefault(int(line.split()[1]), [])
        elif now is not None:
            now.append(line)
        else:
            out.setdefault(0, []).append(line)
    return out


def part(lines, kind):
    return [line.split(None, 1)[1] for line in lines if line.split()[0] == kind]


go = threading.Event()
ready = threading.Barrier(4)


def waits():
    ready.wait()
    go.wait()


def sits():
    ready.wait()
    lib.probe_sleep(900)


def deaf():
    lib.probe_block_signals(1)
    ready.wait()
    go.wait()


threads = [threading.Thread(target=f) for f in (waits, sits, deaf)]
for t in threads:
    t.start()
ready.wait()
time.sleep(0.05)
tids = [t.native_id for t in threads]


def check_dump(what, d, python=True):
    main = d[os.getpid()]
    check(what + ": all threads", set(d) - {0} == {os.getpid(), *tids}, d.keys())
    if python:
        check(what + ": main", any("check_dump" in x or "dump" in x for x in part(main, "python")[:1]), main)
        for name, tid in zip(("waits", "sits"), tids):
            check(what + ": " + name, any(" " + name in x for x in part(d[tid], "python")), d[tid])
    for tid in (os.getpid(), tids[0], tids[1]):
        check(what + ": native", len(part(d[tid], "native")) > 3, d[tid])
    check(what + ": deaf", part(d[tids[2]], "note") == ["it blocks signals"], d[tids[2]])


t0 = time.monotonic()
d = dump(tids)
check("asked with the GIL", 0 not in d, d.get(0))
check_dump("with the GIL", d)
check("with the GIL: the deaf one's Python", any(" deaf" in x for x in part(d[tids[2]], "python")), d[tids[2]])
check("soon", time.monotonic() - t0 < 0.9, time.monotonic() - t0)
check("no handler is left", lib.probe_handlers() == 0)

t0 = time.monotonic()
d = dump(tids, 400, held)
check("asked without the GIL", d.get(0) == ["  note Python did not answer: its lock is held"], d.get(0))
check_dump("without the GIL", d)
check("in time", 0.15 < time.monotonic() - t0 < 0.9, time.monotonic() - t0)
check("no handler is left", lib.probe_handlers() == 0)

# ---- the thread that was left behind is gone, and the next one answers
time.sleep(0.1)
d = dump(tids)
check("asked again", 0 not in d, d.get(0))

# ---- a thread that computes
stop = []


def computes():
    x = 0
    while not stop:
        x += sum(i for i in range(50))


t = threading.Thread(target=computes)
t.start()
for how in [lib] * 6 + [held] * 2:
    d = dump([t.native_id], 600 if how is lib else 300, how)
    if how is lib and 0 in d:
        continue  # a slow machine
    check("a thread that computes", any(" computes" in x for x in part(d[t.native_id], "python")), how is lib, d[t.native_id])
stop.append(1)
t.join()
go.set()
for t in threads:
    t.join()

# ---- ticks
lib.probe_tick()
for _ in range(100):
    time.sleep(0.001)
check("a tick", lib.probe_ticked() > 0)

# ---- a forked child is off
pid = os.fork()
if pid == 0:
    lib.probe_fork_child()
    os._exit(0 if lib.probe_site() == 0 and lib.probe_start() == 0 else 1)
check("a forked child", os.waitpid(pid, 0)[1] == 0)

# ---- the interpreter ends while threads issue and one asks
def issues():
    while True:
        lib.probe_site()


def asks():
    while True:
        buf = ctypes.create_string_buffer(SIZE)
        lib.probe_dump(buf, SIZE, (ctypes.c_uint32 * 1)(os.getpid()), 1, 100)


for f in (issues, lib.probe_issue, asks):
    threading.Thread(target=f, daemon=True).start()
time.sleep(0.05)
if failed:
    print(failed, "failed")
sys.stdout.flush()
if failed:
    os._exit(1)
