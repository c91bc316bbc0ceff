#!/usr/bin/env bash
# Shows: fork(2) in a process with 4 GiB swapped out takes at most 1.5 times as long as a plain one in a process that has no more than
# what is resident there, pool included; medians of runs taken alternately. Every page is whole afterwards.
# Usage: accept/fork_cost.sh [path-to-uzswap [mebibytes [limit-in-mebibytes]]]
# Takes: a minute; as much memory as the limit; needs gcc.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
mib=${2:-5500} limit=${3:-2500}
begin "$@"

need gcc
gcc -O2 -o "$work/fork_cost" "$accept_dir/fork_cost.c"

median() {
    sort -n | awk '{ at[NR] = $1 } END { print at[int((NR + 1) / 2)] }'
}

for ((pair = 0; pair < 3; pair++)); do
    "$work/fork_cost" "$limit" 5 >>"$work/plain"
    "$uzswap" run --memory-max "${limit}M" --max-pool-percent 100 --recompress none --stat-json "$work/managed.json" \
        -- "$work/fork_cost" "$mib" 5 >>"$work/managed"
done
out=$((mib - limit + $(counter "$work/managed.json" pool_total_size) / 1048576))
plain=$(sed -n 's/^fork //p' "$work/plain" | median)
managed=$(sed -n 's/^fork //p' "$work/managed" | median)
say "plain, $limit MiB resident: $plain ms; managed, $mib MiB of which $out are swapped out at the end: $managed ms"
check "at least 4 GiB are swapped out" test "$out" -ge 4096
check "ratio $(calc "$managed / $plain") (at most 1.5)" at_most "$managed" "$(calc "$plain * 1.5")"
check "every page is whole" test "$(grep -c 'damaged 0' "$work/managed")" = 3
verdict
