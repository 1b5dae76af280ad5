"""Helpers of the scripts, which are ordinary programs: they know nothing of libturbo but how to ask
`turbo stats` about themselves when run_check.py says where it is. Standard library only."""
import json
import os
import subprocess
import sys


def stats():
    """libturbo's counters of this process; {} when it is not preloaded."""
    command = os.environ.get("GPU_TEST_TURBO")
    if not command or not os.environ.get("LD_PRELOAD"):
        return {}
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    p = subprocess.run([command, "stats", str(os.getpid()), "--json"], env=env, capture_output=True, text=True)
    return json.loads(p.stdout)["counters"] if p.returncode == 0 else {"error": p.stderr}


def result(**values):
    """The last line for run_check.py."""
    values["stats"] = stats()
    print("RESULT " + json.dumps(values), flush=True)


def groups(group, n):
    """What n calls of group() return, after one that does not count. A turn begins after seconds in which the others
    had theirs: what was kept idle in memory has gone back meanwhile, and the processor's caches are somebody else's.
    Every player alike begins with a group in which that comes back; a program that goes on does not see it."""
    group()
    return [group() for _ in range(n)]


def taking_turns(parts):
    """parts: {name: function}. With --turns runs those that standard input names (turns.py), else each
    once, in order; ends with the result line."""
    results = {}
    if "--turns" in sys.argv:
        print("READY", flush=True)
        for line in sys.stdin:
            print("TURN " + json.dumps(parts[line.strip()]()), flush=True)
    else:
        results = {name: part() for name, part in parts.items()}
    result(**results)
