#!/usr/bin/env bash
# Shows: a compiler that stays far below its limit is left alone: no fault is served, it takes at most 1.03 times as long (the fastest of runs taken
# alternately: medians of nine differ by more where the host is shared), and the object file is the same, byte for byte.
# Usage: accept/left_alone.sh [path-to-uzswap [runs]]
# Takes: a minute; 200 MiB of memory; needs gcc.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
runs=${2:-9}
begin "$@"
need gcc

fastest() {
    sort -n "$1" | head -1
}

"$python" "$accept_dir/gcc_source.py" 120 20000 >"$work/source.c"
cd "$work"
for ((run = 0; run < runs; run++)); do
    run_unmanaged plain gcc -O2 -c source.c -o plain.o
    run_managed managed 8G gcc -O2 -c source.c -o managed.o
    field plain.took seconds >>plain.seconds
    field managed.took seconds >>managed.seconds
    check "run $run: the object files are the same" cmp plain.o managed.o
    check "run $run: no fault was served" test "$(counter managed.json pgfault)" = 0
done
plain=$(fastest plain.seconds)
managed=$(fastest managed.seconds)
say "$(field plain.took rss_mib) MiB; plain: $plain s; under 8G: $managed s"
check "ratio $(calc "$managed / $plain") (at most 1.03)" at_most "$managed" "$(calc "$plain * 1.03")"
verdict
