"""`turbo report`: JSON that keeps its keys, windows and ranks, errors that name what is wrong, time and memory."""
import json
import os
import pty
import re
import resource
import stat
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import timeline_file  # noqa: E402
import timelines  # noqa: E402

README = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/timeline/README.md")


def run(*arguments, code=0, **more):
    done = subprocess.run([timelines.TURBO, "report", *map(str, arguments)], capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == code, f"status {done.returncode}, not {code}: {done.stdout}{done.stderr}"
    return done


def report(*arguments, **more):
    return json.loads(run(*arguments, "--json", "--top", 100, **more).stdout)


def keys(value, out):
    if isinstance(value, dict):
        out.update(value)
        for v in value.values():
            keys(v, out)
    elif isinstance(value, list):
        for v in value:
            keys(v, out)
    return out


def check_keys(folder):
    """README.md names every key, and there is no other."""
    timelines.make(folder, "--ranks", 2, "--records", 20000, "--launches")
    with tempfile.TemporaryDirectory() as other:
        timeline = timeline_file.Timeline()
        timeline.add(timeline_file.GAP, "a reason", 0, 0, 100)
        timeline.add(timeline_file.KERNEL, "k", timeline.lane(timeline_file.STREAM), 200, 100)
        timeline.write(os.path.join(other, "gap.timeline"))
        have = keys(report(folder, other), set())
    with open(README, encoding="utf-8") as file:
        text = file.read().split("## `turbo report --json`")[1]
    text = text.split("```")[1]
    named = set(re.findall(r'"([A-Za-z0-9_]+)"', text))
    assert not have - named, f"not in README.md: {have - named}"
    values = {"turbo", "report", "sampled", "kernel", "launch", "off", "unknown", "note", "warning", "problem", "excess"}
    assert not named - have - values, f"in README.md only: {named - have - values}"
    print("every key of the JSON is in README.md")


def check_same_each_time(folder):
    assert run(folder, "--json").stdout == run(folder, "--json").stdout
    assert run(folder).stdout == run(folder).stdout
    print("the same each time")


def check_window_and_rank(folder):
    whole, part = report(folder), report(folder, "--window", "100ms..0.3", "--rank", "1")
    assert [r["rank"] for r in whole["ranks"]] == [0, 1] and [r["rank"] for r in part["ranks"]] == [1]
    assert part["window"] == {"start": 100_000_000, "end": 300_000_000, "asked": True}
    assert part["ranks"][0]["gpus"][0]["time"]["window_ns"] == 200_000_000
    halves = [report(folder, "--window", w)["time"] for w in ("..0.25", "0.25..")]
    assert [report(folder, "--window", w)["window"]["start"] for w in ("0..1", "0s..1", "0..")] == [0, 0, 0]
    for key in ("busy_ns", "compute_ns", "overlap_ns", "exposed_memory_ns"):
        assert sum(h[key] for h in halves) == whole["time"][key], key
    print("windows and ranks")


def check_terminal():
    """A terminal that is wide shows more of a kernel's name; nothing else is wider than 100 columns."""
    with tempfile.TemporaryDirectory() as other:
        timeline = timeline_file.Timeline()
        lane = timeline.lane(timeline_file.STREAM)
        name = "void at::f<4, at::Functor_of_this_and_of_that<float>, at::Other<float, double, at::Third>, at::Holder<9> >(int)"
        for i in range(100):
            timeline.add(timeline_file.KERNEL, name, lane, 1000 * i, 500)
        path = os.path.join(other, "wide.timeline")
        timeline.write(path)
        narrow = run(path).stdout
        main, tty = pty.openpty()
        termios.tcsetwinsize(tty, (40, 150))
        subprocess.run([timelines.TURBO, "report", path], stdout=tty, env={**os.environ, "NO_COLOR": "1"}, timeout=60, check=True)
        os.close(tty)
        wide = b""
        try:
            while part := os.read(main, 65536):
                wide += part
        except OSError:
            pass  # the other end is closed
        os.close(main)
        wide = wide.decode().replace("\r", "")
    whole = "f<4, Functor_of_this_and_of_that<float>, Other<float, double, Third>, Holder<9>>"
    assert whole in wide and whole not in narrow and "Functor_of_this" in narrow, (wide, narrow)
    assert max(map(len, narrow.splitlines())) <= 100
    assert wide.replace(whole, "") == re.sub(r"f<.*", "", narrow), (wide, narrow)
    print("a wide terminal")


def check_size():
    """A report of many records, and of many kernels, each with its name: in bounded time and memory."""
    with tempfile.TemporaryDirectory() as other:
        timelines.make(other, "--records", 2000000, "--launches")
        began = time.monotonic()
        run(other)
        assert time.monotonic() - began < 20  # 0.1 s on an idle machine
    with tempfile.TemporaryDirectory() as other:
        timeline = timeline_file.Timeline()
        lane = timeline.lane(timeline_file.STREAM)
        for i in range(200000):
            timeline.add(timeline_file.KERNEL, f"kernel_{i % 60000}", lane, 1000 * i, 100 + i % 9999)
        path = os.path.join(other, "names.timeline")
        timeline.write(path)
        assert report(path)["kernels"]["names"] == 60000
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    assert most < 200 or os.environ.get("SAN"), f"{most} MiB"
    print("2 million records, and 60000 kernels by name: at most", most, "MiB")


def check_errors(folder):
    good = os.path.join(folder, sorted(os.listdir(folder))[0])
    with tempfile.TemporaryDirectory() as other:
        bad = os.path.join(other, "bad.timeline")
        with open(bad, "wb") as file:
            file.write(b"TURBOTL1" + bytes(100))
        done = run(bad, good, code=1)
        assert bad in done.stderr and "KERNELS" in done.stdout, done
        done = run(bad, code=1)
        assert done.stdout == "" and bad in done.stderr and len(done.stderr.splitlines()) == 1, done
        done = run(os.path.join(other, "none"), code=1)
        assert "none" in done.stderr and done.stdout == ""
        empty = os.path.join(other, "empty")
        os.mkdir(empty)
        assert empty in run(empty, code=1).stderr
        assert "none/page.html" in run(good, "--html", os.path.join(other, "none/page.html"), code=1).stderr
    assert "--rank" in run(good, "--rank", 7, code=1).stderr
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([timelines.TURBO, "report", good], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 1 and "No space left" in done.stderr, done
    with tempfile.TemporaryDirectory() as other:
        # A page takes no timeline's place, whatever that is called.
        with open(good, "rb") as f:
            before = f.read()
        assert "not overwritten" in run(good, "--html", good, code=1).stderr
        with open(good, "rb") as f:
            assert f.read() == before
        named = os.path.join(other, "trace.json")
        with open(named, "wb") as f:
            f.write(before)
        done = subprocess.run([timelines.TURBO, "export", named, "-o", named], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "not overwritten" in done.stderr, done
        os.unlink(named)
        # A page that cannot be written takes nothing away.
        page = os.path.join(other, "page.html")
        os.symlink("/dev/full", page)
        assert "No space left" in run(good, "--html", page, code=1).stderr
        assert os.path.islink(page) and stat.S_ISCHR(os.stat(page).st_mode)
        os.unlink(page)
        with open(page, "w", encoding="utf-8") as old:
            old.write("old")
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        done = subprocess.run([timelines.TURBO, "report", good, "--html", page], capture_output=True, text=True, timeout=60,
                              preexec_fn=limit, restore_signals=False)
        assert done.returncode == 1 and "page.html" in done.stderr, done
        with open(page, encoding="utf-8") as old:
            assert old.read() == "old"
        assert os.listdir(other) == ["page.html"]
    for wrong in (["--top", "0"], ["--top", "x"], ["--window", "5"], ["--window", "3..2"], ["--window", "x..2"], ["--window", ".."],
                  ["--window", "1..2x"], ["--window", "-1..2"], ["--window", "nan..2"], ["--rank", "x"], ["--rank", "1,"], ["--rank"],
                  ["--nothing"], ["--html", ""]):
        done = run(good, *wrong, code=2)
        assert done.stdout == "" and wrong[0] in done.stderr, done
    assert "FILE" in run(code=2).stderr
    assert not run(good).stderr
    print("errors say what is wrong")


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_keys(folder)
        check_same_each_time(folder)
        check_window_and_rank(folder)
        check_errors(folder)
        check_terminal()
        check_size()


if __name__ == "__main__":
    main()
