"""`turbo doctor`: what it prints, its status, its arguments."""
import json
import os
import subprocess

BUILD = os.environ.get("BUILD", "build")
TURBO = os.path.join(BUILD, "turbo")


def run(*arguments, code=None, **environment):
    done = subprocess.run([TURBO, "doctor", *arguments], capture_output=True, text=True, timeout=100,
                          env={**os.environ, **environment})
    assert code is None or done.returncode == code, f"status {done.returncode}, not {code}: {done.stdout}{done.stderr}"
    return done


def check_arguments():
    for wrong in (["--only", "nothing"], ["--only"], ["extra"], ["--"], ["--deadline", "0"], ["--nonsense"]):
        assert "turbo help doctor" in run(*wrong, code=2).stderr, wrong


def check_json():
    done = run("--json", "--only", "machine,nccl,environment", CUDA_LAUNCH_BLOCKING="1")
    page = json.loads(done.stdout)
    found = {f["id"]: f for f in page["findings"]}
    assert page["status"] == done.returncode >= 1
    assert found["env_launch_blocking"]["level"] == "warn" and found["env_launch_blocking"]["do"]
    assert sum(page["count"].values()) == len(page["findings"])
    rows = {row["id"] for row in json.loads(run("--list", "--json", code=0).stdout)}
    assert set(found) <= rows


check_arguments()
check_json()
print("ok")
