"""`turbo doctor`: each finding of its table is forced once on made-up machines, and a machine that is well gets none; what hangs or dies is a
finding; output, status and arguments."""
import ctypes
import json
import os
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import doctor_machine  # noqa: E402

TURBO = os.path.join(os.path.abspath(doctor_machine.BUILD), "turbo")
CLEAN = {k: v for k, v in os.environ.items()
         if not re.match("TURBO|NCCL|CUDA|NVIDIA|TORCH|OMP_|PYTHON|LD_|MALLOC_|GOMP|KMP|SIM_|FAKE_|TOKENIZERS|CUBLAS|CUDNN|PYTORCH", k)}
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2

seen = {}  # (id, level): where
rows = {}


def run(*arguments, code=None, turbo=TURBO, before=None, **environment):
    """`turbo doctor` in an environment of its own; a value of None leaves the variable out."""
    env = {k: str(v) for k, v in {**CLEAN, **environment}.items() if v is not None}
    done = subprocess.run([turbo, "doctor", *map(str, arguments)], capture_output=True, text=True, timeout=100, env=env,
                          preexec_fn=before)
    assert code is None or done.returncode == code, f"status {done.returncode}, not {code}: {done.stdout}{done.stderr}"
    return done


def examine(*arguments, expect=(), **more):
    """The findings of a run, as {id: [finding]}; `expect`: id or id.level that must be among them."""
    command = [a for a in arguments if a == "--" or not isinstance(a, list)]
    done = run("--json", *command, **more)
    page = json.loads(done.stdout)
    found = {}
    for f in page["findings"]:
        found.setdefault(f["id"], []).append(f)
        seen.setdefault((f["id"], f["level"]), f["seen"])
        assert f["seen"] and f["why"], f
        assert bool(f["do"]) == (f["level"] in ("warn", "fail")), f
        assert f["level"] in ("ok", "not here") or f["level"] in rows[f["id"]]["levels"], f"the table does not have {f}"
    worst = max([("not here", "ok", "warn", "fail").index(f["level"]) for f in page["findings"]], default=0)
    assert done.returncode == page["status"] == max(worst - 1, 0)
    assert sum(page["count"].values()) == len(page["findings"])
    for wanted in expect:
        name, _, level = wanted.partition(".")
        levels = [f["level"] for f in found.get(name, [])]
        assert (level or "ok") in levels, f"{wanted} was expected, {name} is {found.get(name)}; {done.stderr}"
    return found


class Case:
    """The machine that is well, and runs of it with something broken."""

    def __init__(self, parts):
        self.parts = parts
        self.drivers = parts.driver_folder("drivers")
        self.python = parts.python_folder("python")
        self.root = parts.root("well")

    def __call__(self, only, *arguments, root=None, expect=(), **environment):
        usual = {"LD_LIBRARY_PATH": self.drivers, "PYTHONPATH": self.python, "HOME": self.parts.folder}
        usual.update(environment)
        return examine("--root", root or self.root, "--only", only, *arguments, expect=expect, **usual)


def check_arguments():
    for wrong in (["--only", "nothing"], ["--only"], ["extra"], ["--"], ["--deadline", "0"], ["--nonsense"]):
        assert "turbo help doctor" in run(*wrong, code=2).stderr, wrong


def check_well(case):
    """Nothing is wrong, and nothing is said to be."""
    found = case("gpu,software,environment,machine,nccl,libturbo")
    real = ("cpus", "nofile", "pids", "address_space", "temporary")  # of the machine that the test runs on
    bad = [f for fs in found.values() for f in fs if f["level"] in ("warn", "fail") and f["id"] not in real]
    assert not bad, bad
    for name in ("gpu", "nvml", "driver_match", "temperature", "pcie", "ecc", "nvlink", "torch", "cudart", "cudnn", "nccl", "cupti", "arch", "shm",
                 "thp", "numa", "loaded", "unknown_calls", "unknown_nccl", "copies"):
        assert name in found, name
    assert found["nccl"][0]["values"]["version"] == 2.28 and found["cudart"][0]["values"]["version"] == 13.0


def check_nothing_there(parts, case):
    """No GPU, no driver, no Python: no failure."""
    empty = os.path.join(parts.folder, "empty")
    broken = os.path.join(parts.folder, "broken")
    os.makedirs(empty)
    doctor_machine.write(broken, {"libcuda.so.1": "no library", "libnvidia-ml.so.1": "no library"})
    found = examine("--root", empty, LD_LIBRARY_PATH=broken, PATH=empty, HOME=parts.folder, expect=["shm.fail"])
    bad = {f["id"] for fs in found.values() for f in fs if f["level"] in ("warn", "fail")}
    assert bad <= {"shm"}, bad
    assert found["gpu_found"][0]["level"] == found["python"][0]["level"] == found["cuda_start"][0]["level"] == "not here"


def check_gpu(parts, case):
    everything_wrong = {
        "temperature": 95, "reasons": 0x80, "clock_set": 1000, "watts": 400, "persistence": 0, "ecc_now": 2, "ecc_ever": 7, "width": 4, "gpu_gen": 6,
        "mig": 1, "mig_pending": 1, "compute_mode": 2, "fabric": 1, "links_down": 2}
    # A second GPU, on which the same is less wrong.
    less_wrong = {"temperature": 86, "reasons": 4, "watts": 700, "ecc_now": 0, "ecc_ever": 3, "width": 8, "mig": 1, "mig_parts": 3, "compute_mode": 3,
                  "fabric": 3, "links_down": 0, "link_errors": 5}
    text = ",".join([f"1.{k}={v}" for k, v in less_wrong.items()] + [f"{k}={v}" for k, v in everything_wrong.items()])
    case("gpu", SIM_NVML=text, SIM_NVML_DEVICES=2, expect=[
        "temperature.fail", "temperature.warn", "throttle.fail", "throttle.warn", "clocks.warn", "power_limit.warn", "persistence.warn",
        "ecc.fail", "ecc.warn", "pcie.fail", "pcie.warn", "pcie_slot.warn", "mig.fail", "mig.warn", "compute_mode.fail", "compute_mode.warn",
        "fabric.fail", "fabric", "nvlink.warn"])
    case("gpu", SIM_NVML="ecc=0,ecc_pending=0,used_mib=90000", expect=["ecc_off.warn", "gpu_unseen.warn"])
    case("gpu", SIM_NVML_FAIL="nvmlInit_v2=18", expect=["nvml.fail"])
    case("gpu", SIM_NVML_DEVICES=0, expect=["nvml.warn"])
    case("gpu", LD_LIBRARY_PATH=parts.driver_folder("other", version="535.54.03"), expect=["driver_match.fail"])
    case("gpu", root=parts.root("unloaded", proc__driver__nvidia__version=None), expect=["gpu_found.fail"])


def check_closed_files(parts, case):
    root = parts.root("closed")
    os.chmod(os.path.join(root, "dev/nvidia0"), 0)

    def without_root():
        libc = ctypes.CDLL(None)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)

    case("gpu", root=root, before=without_root, expect=["gpu_access.fail"])


def check_processes(parts, case):
    stat = "{} (py thon) S 1 1 1 0 -1 4194304 100 0 0 0 {} 20 0 0 20 0 30 0 5000 100 100"
    files = {}
    for pid, ticks in ((71001, 10), (71002, 10), (71003, 10)):
        files[f"proc/{pid}/stat"] = stat.format(pid, ticks)
        files[f"proc/{pid}/cmdline"] = f"python\0job{pid}.py\0"
        files[f"proc/{pid}/maps"] = "7f00-7f01 r-xp 0 0 0 /usr/lib/libcuda.so.580.159.04"
    files["proc/71003/maps"] = "7f00-7f01 r-xp 0 0 0 /usr/bin/somebody-else"
    root = parts.root("busy")
    doctor_machine.write(root, files)
    found = case("gpu", root=root, SIM_NVML_PROCESSES="71001:4000:0,71002:5000:80,71003:100:0,71004:10:0",
                 expect=["gpu_idle.warn", "gpu_busy.warn"])
    idle, = found["gpu_idle"]
    assert "job71001.py" in idle["seen"] and "kill 71001" in idle["do"] and idle["values"]["pid"] == 71001
    assert {f["values"]["pid"] for f in found["gpu_busy"]} == {71002, 71003, 71004}
    # A process here whose number is that of one elsewhere is not named.
    assert all("somebody" not in f["seen"] and "kill" not in f["do"] for f in found["gpu_busy"])


def check_software(parts, case):
    both = "software,measured"
    case(both, FAKE_CUDART=13010, FAKE_CUDNN=8801, FAKE_NCCL=21000, FAKE_CUPTI=120000, FAKE_ARCHS="sm_80 compute_80",
         expect=["cudart.warn", "cudnn.warn", "nccl.warn", "cupti.warn", "arch.warn"])
    case(both, FAKE_CUDART=14000, FAKE_ARCHS="sm_70 sm_100", expect=["cudart.fail", "arch.fail"])
    found = case(both, FAKE_TORCH_ERROR="libsomething is missing", expect=["torch.fail"])
    assert any("libsomething is missing" in f["seen"] for f in found["torch"])
    # Two packages, a copy and a stub on the search path, another toolkit, no import.
    twice = parts.python_folder("twice", libraries={**doctor_machine.LIBRARIES, "cu12": "libnccl.so.2"})
    stubs = os.path.join(parts.folder, "stubs")
    copies = os.path.join(parts.folder, "copies")
    doctor_machine.write(stubs, {"libcuda.so.1": "a stub"})
    os.makedirs(copies)
    shutil.copy(parts.library, os.path.join(copies, "libcudart.so.13"))
    home = os.path.join(parts.folder, "cuda")
    doctor_machine.write(home, {"bin/nvcc": "#!/bin/sh\necho 'Cuda compilation tools, release 12.4, V12.4.1'"})
    os.chmod(os.path.join(home, "bin/nvcc"), 0o755)
    found = case("software", "--quick", PYTHONPATH=twice, LD_LIBRARY_PATH=f"{case.drivers}:{copies}:{stubs}", CUDA_HOME=home,
                 expect=["copies.warn", "stubs.fail", "toolkit.warn"])
    assert {f["where"] for f in found["copies"]} == {"NCCL", "CUDA runtime"}, found["copies"]
    # A library that needs one which is not there; PyTorch for the CPU; no CMD.
    missing = parts.python_folder("missing", cuda=None, libraries={})
    os.makedirs(os.path.join(missing, "torch/lib"))
    gone = os.path.join(parts.folder, "libgone.so.1")
    doctor_machine.compile_c(os.path.join(doctor_machine.HERE, "doctor_fakes.c"), gone, "-Wl,-soname,libgone.so.1")
    doctor_machine.compile_c(os.path.join(doctor_machine.HERE, "doctor_fakes.c"), os.path.join(missing, "torch/lib/libtorch_cuda.so"),
                             "-Wl,--no-as-needed", gone)
    os.unlink(gone)
    case("software", "--quick", PYTHONPATH=missing, expect=["missing_library.fail", "torch.warn"])
    case("software", "--quick", "--", "/nowhere/nonexistent", expect=["python.fail"])


def check_command(parts, case):
    """CMD's interpreter is the one that is asked, behind the words that stand before it."""
    found = case("software", "--quick", "--", "env", "FAKE_CUDNN=90500", sys.executable, "train.py")
    assert sys.executable in found["python"][0]["seen"] or os.path.realpath(sys.executable) in os.path.realpath(found["python"][0]["seen"].split(", ")[1])
    script = os.path.join(parts.folder, "torchrun")
    doctor_machine.write(parts.folder, {"torchrun": f"#!{sys.executable}\nraise SystemExit('CMD was started')"})
    os.chmod(script, 0o755)
    found = case("software", "--quick", "--", script, "--nproc", "8", "train.py", expect=["torch"])


def check_measured(parts, case):
    data = os.path.join(parts.folder, "data")
    doctor_machine.write(data, {f"{i % 3}/{i}": "x" * 5000 for i in range(50)})
    network = parts.root("network", proc__self__mounts=f"/dev/vda1 / ext4 rw 0 0\nserver:/ {parts.folder} nfs4 rw 0 0")
    found = case("measured", "--data", data, root=network, FAKE_PINNED_MS=0.1, SIM_NVML="gen_most=1,width_most=1", TURBO_COPY="off",
                 expect=["cuda_start", "pinned", "pageable", "staged.warn", "import_torch.warn", "data.warn"])
    assert found["data"][0]["values"]["files_per_second_8"] > 0 and "50 files" in found["data"][0]["seen"]
    assert "torch/__init__.py" in found["import_torch"][0]["seen"]
    # 16 MiB in 134 ms are half of gen 1 x1; 1 MiB in 1 ms is hardly anything of gen 5 x16.
    case("measured", "--data", "/nowhere/nonexistent", FAKE_MEM_MB=64, FAKE_PINNED_MS=134, SIM_NVML="gen_most=1,width_most=1", PYTHONPATH=None,
         expect=["pinned.warn", "data.fail"])
    case("measured", FAKE_START_S=5.1, PYTHONPATH=None, expect=["pinned.fail", "cuda_start.warn"])
    case("measured", FAKE_INIT=999, PYTHONPATH=None, expect=["cuda_start.fail"])


def check_simulated_driver(case):
    """Both workers, with a driver that libturbo serves."""
    found = case("measured", LD_LIBRARY_PATH=os.path.join(os.path.abspath(doctor_machine.BUILD), "sim"), SIM_MEM_MB=16, SIM_NVML="gen_most=1,width_most=1",
                 SIM_DEVICES=1, PYTHONPATH=None, expect=["cuda_start", "pinned", "pageable"])
    for name in ("pinned", "pageable", "staged"):
        assert found[name][0]["where"] == "GPU 0" and min(found[name][0]["values"][k] for k in ("to_device_gbps", "from_device_gbps")) > 0


def check_environment(parts, case):
    """Every VARIABLE, each of its values but the first in vain."""
    meant = {"on": "1", "off": "false", "set": "x"}
    first, second, expect = {}, {}, []
    for row in rows.values():
        if row["variable"]:
            value = row["values"].split("|")[0]
            first.setdefault(row["variable"], meant.get(value, value))
            if row["variable"] in second or first[row["variable"]] != meant.get(value, value):
                second[row["variable"]] = meant.get(value, value)
                continue
            expect.append(row["id"] + ".warn")
    assert list(second) == ["NVIDIA_TF32_OVERRIDE"]
    case("environment,nccl", expect=expect, **first)
    case("environment,nccl", OMP_NUM_THREADS=5000, CUDA_VISIBLE_DEVICES="0,7", NVIDIA_DRIVER_CAPABILITIES="video,utility", NCCL_SOCKET_IFNAME="ib0",
         NCCL_IB_HCA="=mlx5_9", NCCL_TOPO_FILE="/nowhere/nonexistent", root=parts.root("down", **{"sys__class__infiniband__mlx5_0__ports__1__state": "1: DOWN"}), **second,
         expect=["env_tf32_on.warn", "env_omp_many.warn", "env_visible.warn", "env_capabilities.warn", "nccl_interface.fail", "nccl_hca.fail",
                 "nccl_file.fail", "infiniband.warn"])
    case("environment,nccl", CUDA_VISIBLE_DEVICES="", NCCL_SOCKET_IFNAME="eth", NCCL_IB_HCA="^mlx5_1", expect=["env_visible.fail", "nccl_interface"])
    harmless = case("environment,nccl", CUDA_LAUNCH_BLOCKING=0, NCCL_DEBUG="WARN", CUDA_VISIBLE_DEVICES="GPU-1234,0", TOKENIZERS_PARALLELISM="true")
    assert not [f for fs in harmless.values() for f in fs if f["level"] in ("warn", "fail")], harmless


def check_machine(parts, case):
    def limits():
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, hard))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 38, 1 << 38))
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])

    worse = {
        "proc__self__mounts": "/dev/vda1 / ext4 rw 0 0\nshm /dev/shm tmpfs rw,size=65536k 0 0",
        "proc__meminfo": "MemTotal: 100000000 kB\nMemAvailable: 8000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB",
        "proc__pressure__memory": "full avg10=12.50 avg60=0.00", "proc__loadavg": "200.0 1 1 1/2 3", "proc__sys__vm__overcommit_memory": "2",
        "proc__sys__kernel__numa_balancing": "1", "proc__self__cgroup": "0::/job",
        "sys__fs__cgroup__job__memory.max": "1000000000", "sys__fs__cgroup__job__memory.current": "950000000",
        "sys__fs__cgroup__job__memory.stat": "anon 1\ninactive_file 50000000", "sys__fs__cgroup__job__memory.events": "oom 1\noom_kill 3",
        "sys__fs__cgroup__job__cpu.max": "50000 100000", "sys__fs__cgroup__job__cpu.stat": "nr_periods 100\nnr_throttled 40",
        "sys__fs__cgroup__job__pids.max": "100", "sys__fs__cgroup__job__pids.current": "50",
        "sys__kernel__mm__transparent_hugepage__enabled": "always madvise [never]",
        "sys__devices__system__cpu__cpu0__cpufreq__scaling_governor": "powersave",
        "sys__devices__system__clocksource__clocksource0__current_clocksource": "hpet",
        "sys__devices__system__node__node1__cpulist": "1000-1003", "sys__bus__pci__devices__0000:01:00.0__numa_node": "1",
        "sys__class__infiniband__mlx5_0__ports__1__state": "4: ACTIVE"}
    found = case("machine", root=parts.root("worse", **worse), before=limits, TMPDIR="/nowhere/nonexistent", HOME=None, expect=[
        "nofile.warn", "memlock.fail", "address_space.fail", "cpus.warn", "shm.warn", "memory.warn", "pressure.warn", "load.warn",
        "overcommit.warn", "numa_balancing.warn", "numa.warn", "cgroup_memory.warn", "oom_kills.warn", "cgroup_cpu.warn", "pids.warn", "thp.warn", "governor.warn",
        "clocksource.warn", "temporary.warn", "cache_folder.warn"])
    assert found["cgroup_memory"][0]["values"] == {"limit_bytes": 1000000000, "used_bytes": 900000000}
    # A control group of version 1, whose folder is the container's top.
    worst = {"proc__self__cgroup": "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1", "sys__fs__cgroup__memory__memory.limit_in_bytes": "1000",
             "sys__fs__cgroup__memory__memory.usage_in_bytes": "1000",
             "proc__meminfo": "MemTotal: 100000000 kB\nMemAvailable: 1000000 kB\nSwapTotal: 9 kB\nSwapFree: 9 kB"}
    root = parts.root("worst", **worst)
    os.rmdir(os.path.join(root, "dev/shm"))
    case("machine", root=root, expect=["cgroup_memory.fail", "memory.fail", "shm.fail"])


def check_libturbo(parts, case):
    alone = os.path.join(parts.folder, "alone")
    os.makedirs(alone)
    shutil.copy(TURBO, alone)
    turbo = os.path.join(alone, "turbo")
    case("libturbo", "--quick", turbo=turbo, expect=["library.fail"])
    doctor_machine.write(alone, {"libturbo.so": "no library"})
    found = case("libturbo", "--quick", turbo=turbo, expect=["loaded.fail"])
    assert "libturbo.so" in found["loaded"][0]["seen"]
    # A static program: an ELF file without an interpreter.
    static = os.path.join(parts.folder, "static")
    machine = {"x86_64": 62, "aarch64": 183}[os.uname().machine]
    with open(static, "wb") as file:
        file.write(b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 64, 0, 0, 64, 56, 0, 64, 0, 0) + bytes(64))
    os.chmod(static, 0o755)
    future = parts.driver_folder("future", parts.future)
    found = case("libturbo,measured", LD_LIBRARY_PATH=future, TURBO_COPY="sideways", LD_PRELOAD="/nowhere/nonexistent.so", PYTHONPATH=None, SIM_NVML="cuda=99000",
                 expect=["options.warn", "says.warn", "preload.warn", "unknown_calls.warn", "loaded"])
    assert "cuMemcpyFuture" in found["unknown_calls"][0]["seen"] and "TURBO_COPY" in found["says"][0]["seen"]
    newer = parts.python_folder("newer", libraries={})
    os.makedirs(os.path.join(newer, "nvidia/nccl/lib"))
    shutil.copy(parts.future, os.path.join(newer, "nvidia/nccl/lib/libnccl.so.2"))
    case("libturbo", "--quick", "--", static, PYTHONPATH=newer, expect=["fit.fail"])
    case("libturbo", "--quick", PYTHONPATH=newer, expect=["unknown_nccl.warn"])
    # A program that was built with a sanitizer whose runtime is a library.
    runtime, program = os.path.join(parts.folder, "libasan.so.8"), os.path.join(parts.folder, "checked")
    doctor_machine.compile_c(parts.source, runtime, "-Wl,-soname,libasan.so.8")
    subprocess.run([os.environ.get("CC") or "cc", "-x", "c", "-", "-x", "none", "-o", program, "-Wl,--no-as-needed", runtime,
                    "-Wl,-rpath," + parts.folder], input="int main(void) { return 0; }", text=True, check=True, timeout=60)
    case("libturbo", "--quick", "--", program, expect=["fit.warn"])


def gone(pid):
    for _ in range(2000):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def check_hangs(parts, case):
    """What does not answer is a finding, and the rest is there; nothing is left running."""
    folder = os.path.join(parts.folder, "hanging")
    doctor_machine.write(folder, {"python3": f"#!/bin/sh\necho $$ >{folder}/pid\nexec sleep 1000"})
    os.chmod(os.path.join(folder, "python3"), 0o755)
    start = time.time()
    found = case("gpu,software,machine", "--deadline", 3, SIM_NVML_HANG="nvmlDeviceGetTemperature", PATH=folder + ":" + os.environ["PATH"],
                 expect=["unanswered.fail", "gpu", "thp"])
    assert len(found["unanswered"]) == 2 and "within 3 s" in found["unanswered"][0]["seen"], found["unanswered"]
    assert {f["subject"] for f in found["unanswered"]} == {"gpu", "software"}
    assert time.time() - start < 60
    with open(os.path.join(folder, "pid")) as file:
        assert gone(int(file.read()))
    found = case("software", "--quick", FAKE_CUDNN="crash", expect=["unanswered.fail"])
    assert "signal 6" in found["unanswered"][0]["seen"]


def terminal(*arguments, **environment):
    """What stands on a terminal of 80 columns in the end."""
    env = {k: str(v) for k, v in {**CLEAN, "TERM": "xterm", **environment}.items()}
    pid, fd = pty.fork()
    if pid == 0:
        subprocess.run(["stty", "cols", "80"])
        os.execve(TURBO, [TURBO, "doctor", *arguments], env)
    text = b""
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.waitpid(pid, 0)
    os.close(fd)
    return text.decode()


def check_output(case):
    more = {"LD_LIBRARY_PATH": case.drivers, "SIM_NVML": "temperature=99,persistence=0", "CUDA_LAUNCH_BLOCKING": "1"}
    arguments = ["--root", case.root, "--only", "gpu,environment"]
    text = run(*arguments, code=2, **more).stdout
    assert "\033" not in text and max(map(len, text.splitlines())) <= 100
    head, _, tail = text.partition("\nWhat to do\n")
    assert re.search(r"^fail      temperature", head, re.M) and re.search(r"^warn      CUDA_LAUNCH_BLOCKING +set to 1$", head, re.M)
    assert re.findall(r"^(fail|warn)", tail, re.M) == ["fail", "warn", "warn"], tail
    assert tail.count("\n   -> ") == 3 and re.search(r"^1 fail, 2 warn, \d+ ok, \d+ not here$", tail, re.M)
    assert "\033[31m" in terminal(*arguments, **more)
    plain = terminal(*arguments, NO_COLOR="1", **more)
    plain = plain[plain.index("\nGPU"):]
    assert "\033[3" not in plain and max(len(line.rstrip("\r")) for line in plain.splitlines()) <= 80
    assert "\033[3" not in terminal(*arguments, **{**more, "TERM": "dumb"})
    assert run("--list", code=0).stdout.count("\n") > len(rows)


def main():
    rows.update({row["id"]: row for row in json.loads(run("--list", "--json", code=0).stdout)})
    signal.alarm(115)
    with tempfile.TemporaryDirectory() as folder:
        parts = doctor_machine.Parts(os.path.realpath(folder))
        case = Case(parts)
        check_arguments()
        check_well(case)
        for check in (check_nothing_there, check_gpu, check_closed_files, check_processes, check_software, check_command, check_measured,
                      check_environment, check_machine, check_libturbo, check_hangs):
            check(parts, case)
            print("ok:", check.__name__)
        check_simulated_driver(case)
        check_output(case)
    never = [f"{row['id']}.{level}" for row in rows.values() for level in row["levels"] if (row["id"], level) not in seen]
    assert not never, f"never forced: {never}"
    print(f"ok: {len(rows)} findings, each level forced")


main()
