#!/usr/bin/env bash
# Shows: PyTorch with a GPU, which copies ordinary memory, and reads and writes memory that was registered with it while all
# other memory leaves: the same sums as unmanaged, as root and as an ordinary user. Drivers pin such memory, and wait for no fault.
# Usage: accept/gpu.sh [path-to-uzswap [limit]]
# Takes: three minutes; 2 GiB of memory; needs an NVIDIA GPU, and a python3 with PyTorch.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
begin "$@"
need setpriv
limit=${2:-700M}
# That of a virtual environment is known by its path.
python=$(command -v python3)
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null || die "no PyTorch that has a GPU"
# Alone in its directory: a module of ours beside it would stand for one of Python's. An ordinary user can get at it.
home=$work/home
mkdir "$home"
cp "$uzswap" "$accept_dir/gpu_heap.py" "$home/"
load=("$python" -W ignore "$home/gpu_heap.py" 512)

run_unmanaged unmanaged "${load[@]}"
check "unmanaged it ends" test "$(status_of unmanaged)" -eq 0
run_managed managed "$limit" "${load[@]}"
check "the same sums" cmp "$work/unmanaged.stdout" "$work/managed.stdout"
check_swapped "$work/managed.json"

if ((EUID == 0)); then
    chown 65534:65534 "$home"
    chmod 755 "$work"
    setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all --inh-caps -all \
        env HOME="$home" TMPDIR="$home" "$home/$(basename "$uzswap")" run --memory-max "$limit" --summary --stat-json "$home/json" -- \
        "${load[@]}" >"$work/user.stdout" 2>"$work/user.stderr" || true
    sed 's/^/     | /' "$work/user.stderr" | tail -n 25
    check "the same sums for an ordinary user" cmp "$work/unmanaged.stdout" "$work/user.stdout"
    check_swapped "$home/json"
fi
verdict
