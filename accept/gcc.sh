#!/usr/bin/env bash
# Shows: gcc -O2 compiles a C file that needs more than 600 MiB to the same object file, byte for byte, in a third of
# that memory.
# Usage: accept/gcc.sh [path-to-uzswap]
# Takes: 1 to 3 minutes, of them 20 s unmanaged; 800 MiB of memory; needs gcc.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

begin "$@"
need gcc

"$python" "$accept_dir/gcc_source.py" 700 400000 >"$work/source.c"
# Both compile in one directory under one name, so that nothing in the object files has a reason to differ.
cd "$work"
run_unmanaged unmanaged gcc -O2 -c source.c -o unmanaged.o
peak_mib=$(field unmanaged.took rss_mib)
check "the compiler needs $peak_mib MiB, at least 600" test "$peak_mib" -ge 600
limit_mib=$((peak_mib / 3))
say "limit: ${limit_mib}M"
run_managed managed "${limit_mib}M" gcc -O2 -c source.c -o managed.o
check "the managed gcc exited with status 0" test "$(status_of managed)" -eq 0
check_swapped managed.json
check "the object files are the same ($(stat -c %s unmanaged.o) bytes)" cmp unmanaged.o managed.o
say "managed / unmanaged time: $(calc "$(field managed.took seconds) / $(field unmanaged.took seconds)")"
verdict
