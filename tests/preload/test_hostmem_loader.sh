#!/bin/bash
# ALONE: 64 workers
# PyTorch's DataLoader with forked and spawned workers, persistent and not, 4 and 64 of them: the same batches bare and with large
# blocks kept and files read ahead.
. "$(dirname "$0")/common.sh"
python=
for one in python3 /usr/bin/python3; do
	[ -n "$python" ] || ! "$one" -c 'import torch, numpy' 2>/dev/null || python=$one
done
[ -n "$python" ] || skip 'no PyTorch'
cat >"$work/loader.py" <<'EOF'
import hashlib, os, sys, torch, numpy
from torch.utils.data import DataLoader, Dataset

class Files(Dataset):
    def __init__(self, folder):
        self.names = sorted(os.path.join(folder, n) for n in os.listdir(folder))

    def __len__(self):
        return len(self.names)

    def __getitem__(self, i):
        with open(self.names[i], "rb") as f:
            item = numpy.frombuffer(f.read(), dtype=numpy.uint8)
        scratch = numpy.zeros(40 << 20, dtype=numpy.uint8)  # large, and dropped
        scratch[: len(item)] = item
        scratch[len(item) :: 4096] += 1
        return torch.from_numpy(scratch[: 3 << 20].copy()).float()[: 1 << 18], int(scratch[::4096].sum())

if __name__ == "__main__":
    folder, workers, how, stay = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "persistent"
    torch.manual_seed(3)
    torch.set_num_threads(1)
    loader = DataLoader(Files(folder), batch_size=2, shuffle=True, num_workers=workers, persistent_workers=stay,
                        multiprocessing_context=how)
    sum_ = hashlib.sha256()
    for epoch in range(2):
        for x, y in loader:
            sum_.update((x * 2 + 1).numpy().tobytes())
            sum_.update(y.numpy().tobytes())
    print(sum_.hexdigest())
EOF
mkdir "$work/data"
for i in $(seq 40); do
	head -c $((4000 + i * 37)) /dev/urandom >"$work/data/$i.bin"
done

# loader WORKERS HOW STAY: bare and preloaded.
loader()
{
	local bare with
	bare=$(timeout 300 "$python" "$work/loader.py" "$work/data" "$@" 2>"$work/err") ||
		{ echo "bare, $*: $(tail -n 1 "$work/err")"; return; } # too little memory, say: nothing is shown
	with=$(env LD_PRELOAD="$LIBTURBO" TURBO_RUN=1 TURBO_HOSTMEM=on TURBO_FILES=prefetch timeout 300 "$python" \
		"$work/loader.py" "$work/data" "$@" 2>"$work/err") || tail -n 3 "$work/err"
	is "$*" "$bare" "$with"
}
loader 4 fork persistent
loader 2 spawn anew
loader 64 fork persistent
if [ -n "${LOADER_ALL:-}" ]; then # minutes
	loader 4 fork anew
	loader 2 spawn persistent
	loader 64 fork anew
	loader 64 spawn persistent
	loader 64 spawn anew
fi
finish
