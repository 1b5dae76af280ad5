"""Processes that start together and are then timed one at a time.

A script under `taking_turns` (torch_common.py, or its like) prints READY, then runs the part that each
line of its standard input names, and answers with `TURN` and JSON. So the processes of a comparison
import and warm up at the same time, and what is timed alternates between them at short intervals.
"""
import json
import os
import queue
import subprocess
import tempfile
import threading
import time

import harness as h


class Player:
    """One process. Its standard error goes to a file; `limit` is for its whole life. `cores`: where it may run."""

    def __init__(self, name, args, mode, extra=None, limit=170, cores=None):
        self.name, self.until = name, time.monotonic() + limit
        self.errors = tempfile.TemporaryFile(mode="w+", errors="replace")
        self.child = subprocess.Popen(args, env=h.environment(mode, extra), stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=h.ROOT,
                                      start_new_session=True,
                                      preexec_fn=cores and (lambda: os.sched_setaffinity(0, cores)))
        self.lines, self.last = queue.Queue(), ""
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def stderr(self):
        self.errors.flush()
        self.errors.seek(0)
        return self.errors.read()

    def fail(self, what):
        self.kill()
        tail = self.stderr().strip().splitlines()[-12:]
        raise RuntimeError("\n    ".join(["%s: %s" % (self.name, what)] + tail))

    def hear(self, word):
        """What follows `word` on the next line that starts with it."""
        while True:
            try:
                line = self.lines.get(timeout=max(0.1, self.until - time.monotonic()))
            except queue.Empty:
                self.fail("no %s in time" % word)
            if line is None:
                status = self.child.wait()
                if status == h.SKIP:
                    raise h.Skip(self.last.replace("skipped: ", ""))
                self.fail("exit status %s before %s" % (status, word))
            self.last = line
            if line.split(" ", 1)[0] == word:
                return line[len(word):].strip()

    def say(self, part):
        try:
            self.child.stdin.write(part + "\n")
            self.child.stdin.flush()
        except OSError:
            pass  # hear() finds out why

    def turn(self, part):
        self.say(part)
        return json.loads(self.hear("TURN"))

    def end(self):
        """The script's last words: its RESULT, with what it wrote on stderr."""
        self.child.stdin.close()
        r = json.loads(self.hear("RESULT"))
        r["stderr"] = self.stderr()
        self.child.wait(timeout=max(1.0, self.until - time.monotonic()))
        return r

    def kill(self):
        if self.child.poll() is None:
            os.killpg(self.child.pid, 9)
            self.child.wait()


class Players:
    """settings: [(name, mode, environment)] for the same `args`, or (name, mode, environment, args) each.
    Use with `with`."""

    def __init__(self, args, settings, limit=170, cores=None):
        self.all = []
        try:
            for name, mode, extra, *own in settings:
                self.all.append(Player(name, own[0] if own else args, mode, extra, limit, cores))
            for p in self.all:
                p.hear("READY")
        except BaseException:
            self.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        for p in self.all:
            p.kill()

    def together(self, part):
        """All at once: {name: result}."""
        for p in self.all:
            p.say(part)
        return {p.name: json.loads(p.hear("TURN")) for p in self.all}

    def one_by_one(self, part, rounds=1):
        """In turns, backwards every other round: {name: [result of each round]}."""
        results = {p.name: [] for p in self.all}
        for i in range(rounds):
            for p in self.all if i % 2 == 0 else self.all[::-1]:
                results[p.name].append(p.turn(part))
        return results

    def end(self):
        return {p.name: p.end() for p in self.all}
