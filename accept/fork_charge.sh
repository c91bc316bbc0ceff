#!/usr/bin/env bash
# Shows: what a parent and its children share is charged once, while a child begins, lives and ends: the group's charge is never more than
# the parent's memory by itself, and nothing of it leaves although twice as much would not fit.
# Usage: accept/fork_charge.sh [path-to-uzswap]
# Takes: a quarter of a minute.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
begin "$@"

mib=300
for limit in 8G 360M; do
    run_managed "at-$limit" "$limit" "$python" "$accept_dir/fork_shares.py" "$mib" 5
    peak=$(($(counter "$work/at-$limit.json" memory.peak) / 1048576))
    check "at $limit the data is whole" test "$(status_of "at-$limit")" = 0
    check "at $limit at most $peak MiB are charged ($mib and a tenth)" at_most "$peak" $((mib * 11 / 10))
    check "at $limit nothing leaves" test "$(counter "$work/at-$limit.json" zswpout)" = 0
done
verdict
