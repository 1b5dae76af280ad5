# look.py - what `turbo doctor` asks the interpreter of CMD: run there with -c, as text. Python 3.6 and later.
# Lines of fields with tabs between; MODE is sys.argv[1]. Nothing is written anywhere.
import glob
import os
import sys
import time

KINDS = ("cudart", "cudnn", "nccl", "cupti")


def say(*fields):
    print("\t".join(str(f).replace("\t", " ").replace("\n", " ") for f in fields), flush=True)


def folder_of(name):
    import importlib.util
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return ""
    return list(spec.submodule_search_locations)[0] if spec and spec.submodule_search_locations else ""


def torch_version(folder):
    names = {}
    try:
        with open(os.path.join(folder, "version.py"), encoding="utf-8") as file:
            exec(file.read(), names)  # assignments of texts
    except Exception:
        pass
    return names.get("__version__", ""), names.get("cuda") or ""


def find():
    say("python", sys.version.split()[0], sys.executable)
    folder = folder_of("torch")
    if folder:
        version, cuda = torch_version(folder)
        main = os.path.join(folder, "lib", "libtorch_cuda.so")
        say("torch", version, cuda, folder, main if os.path.exists(main) else "")
    for place in dict.fromkeys(os.path.realpath(p or ".") for p in sys.path):
        for path in sorted(glob.glob(os.path.join(glob.escape(place), "nvidia", "*", "lib", "lib*.so*"))):
            if os.path.basename(path)[3:].split(".")[0] in KINDS:
                say("wheel", os.path.realpath(path))


def loaded():
    seen = {}
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.split(None, 5)[-1].strip()
            if ".so" in path and path not in seen:
                seen[path] = True
                say("loaded", path)


def slowest(text):
    rows = []
    for line in text.splitlines():
        part = line.split("|")
        if line.startswith("import time:") and len(part) == 3 and part[0][12:].strip().isdigit():
            rows.append((int(part[0][12:]), part[2].strip()))
    for us, name in sorted(rows, reverse=True)[:5]:
        module = sys.modules.get(name)
        say("slow", us / 1e6, name, getattr(module, "__file__", None) or "")


def bytes_read():
    try:
        with open("/proc/self/io") as file:
            return int(dict(line.split(": ") for line in file.read().splitlines())["read_bytes"])
    except (OSError, KeyError, ValueError):
        return 0


def measure():
    import tempfile
    kept = tempfile.TemporaryFile()
    old = os.dup(2)
    os.dup2(kept.fileno(), 2)
    before, start = bytes_read(), time.time()
    error = ""
    try:
        import torch
    except BaseException as e:
        error = "%s: %s" % (type(e).__name__, e)
    took = time.time() - start
    sys.stderr.flush()
    os.dup2(old, 2)
    kept.seek(0)
    say("import", took, bytes_read() - before, error)
    slowest(kept.read().decode("utf-8", "replace"))
    if not error:
        flags = getattr(getattr(torch, "_C", None), "_cuda_getArchFlags", None)
        say("archs", flags() or "" if flags else "")
    loaded()
    os._exit(0)


{"find": find, "import": measure, "loaded": loaded}[sys.argv[1]]()
