#!/usr/bin/env bash
# Shows: GNU sort with a buffer of 2 GiB and two threads sorts a file of 2 GiB under --memory-max 512M to the same bytes.
# Usage: accept/sort.sh [path-to-uzswap [mebibytes [limit-in-mebibytes [words-a-line]]]]
# Takes: 15 minutes with lines of 180 words, an hour or more with those of 13 (it was not waited for), of them 2 minutes unmanaged; 2 GiB of memory; 8 GiB of disk in $TMPDIR or /var/tmp; needs sort.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

size_mib=${2:-2048}
limit_mib=${3:-512}
words=${4:-13}
begin "$@"
need sort

"$python" "$accept_dir/random_lines.py" "$size_mib" "$words" >"$work/lines"
say "$(wc -l <"$work/lines") lines, $(stat -c %s "$work/lines") bytes"

sorting=(env LC_ALL=C TMPDIR="$work" sort -S "${size_mib}M" --parallel=2)
run_unmanaged unmanaged "${sorting[@]}" -o "$work/unmanaged" "$work/lines"
run_managed managed "${limit_mib}M" "${sorting[@]}" -o "$work/managed" "$work/lines"
check "both exited with status 0" test "$(status_of unmanaged)$(status_of managed)" = 00
check_swapped "$work/managed.json"
check "the output is the same, byte for byte" cmp "$work/unmanaged" "$work/managed"
say "managed / unmanaged time: $(calc "$(field "$work/managed.took" seconds) / $(field "$work/unmanaged.took" seconds)")"
verdict
