#!/usr/bin/env bash
# Shows: `uzswap run` manages the programs of other releases of Debian, whose glibc is another than this machine's: a heap of twice the limit, a
# shell, and a pool of workers.
# Usage: accept/distributions.sh [path-to-uzswap [releases]]
# Takes: 3 minutes and 400 MB of disk; needs root, debootstrap, and a mirror of Debian.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
releases=${2:-trixie}
begin "$@"
need debootstrap chroot

cat >"$work/heap.py" <<'PYTHON'
import multiprocessing, os, subprocess

pages = [os.urandom(16) * 64 + bytes(3072) for _ in range(16_000)]
sums = [sum(page) for page in pages]
assert sums == [sum(page) for page in pages]
assert subprocess.run(["sh", "-c", "echo shell"], capture_output=True).stdout == b"shell\n"


def part(i):
    return sum(map(sum, pages[i:2000:2]))


with multiprocessing.Pool(2) as pool:
    assert sum(pool.map(part, range(2))) == sum(sums[:2000])
print("whole")
PYTHON

for release in $releases; do
    root=$work/$release
    debootstrap --variant=minbase --include=python3 "$release" "$root" >"$work/debootstrap.log" 2>&1 ||
        die "no $release: $(tail -1 "$work/debootstrap.log")"
    cp "$uzswap" "$root/uzswap" && cp "$work/heap.py" "$root/heap.py"
    mount --bind /proc "$root/proc" && mount --bind /dev "$root/dev"
    on_exit umount "$root/proc" "$root/dev"
    answer=$(chroot "$root" /uzswap run --memory-max 48M --quiet -- python3 /heap.py) || true
    say "$(chroot "$root" ldd --version | head -1)"
    check "$release: a heap of twice the limit, a shell and a pool of workers" test "$answer" = whole
done
verdict
