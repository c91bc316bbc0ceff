#!/usr/bin/env bash
# Shows: stress-ng, which fills memory with patterns by every one of its methods and verifies them, finds no difference
# in 60 s with two processes that hold 75 % of 1 GiB together, under a limit of a third of that.
# Usage: accept/stress_ng.sh [path-to-uzswap]
# Takes: a bit over a minute; 800 MiB of memory; needs stress-ng.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

total_mib=768 # stress-ng divides --vm-bytes among its workers
limit_mib=$((total_mib / 3))
seconds=60
begin "$@"
need stress-ng

run_managed managed "${limit_mib}M" stress-ng --vm 2 --vm-bytes "${total_mib}m" --vm-method all --verify \
    --timeout "${seconds}s" --metrics-brief --temp-path "$work"
check "stress-ng exited with status 0" test "$(status_of managed)" -eq 0
grep -h "^stress-ng:" "$work/managed.stdout" "$work/managed.stderr" >"$work/output"
check "it completed" grep -q 'successful run completed' "$work/output"
for bad in 'fail:' 'bit error' 'verification' 'OOM' 'restarting'; do
    check "no line of its output says: $bad" test "$(grep -c -- "$bad" "$work/output")" -eq 0
done
check_swapped "$work/managed.json"
verdict
