#!/usr/bin/env bash
# Shows: compressor and allocator are changed 1,000 times and more under load, and nothing is lost: the state machine checks
# every page that it reads, and old pools live until their last page leaves.
# Usage: accept/pool_switch.sh [path-to-uzswap]
# Takes: 1 minute; 100 MiB of memory.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
begin "$@"
name=pool-switch-$$
compressors=(lz4 words zstd:1 deflate:1 lz4-parallel:4 zstd:3 words-parallel)
zpools=(zsmalloc zbud z3fold)

"$uzswap" run --memory-max 24M --name "$name" --stat-json "$work/json" -- \
    "$(dirname "$uzswap")/uzswap-torture" --seconds 60 --threads 2 --seed 31 >"$work/stdout" 2>"$work/stderr" &
launched=$!
on_exit stop "$launched"
asked=0
while kill -0 "$launched" 2>/dev/null; do
    "$uzswap" set "$name" "compressor=${compressors[asked % 7]}" "zpool=${zpools[asked % 3]}" 2>/dev/null || true
    asked=$((asked + 1))
    sleep 0.01
done
wait "$launched" && status=0 || status=$?
say "asked $asked times; $(tail -n 1 "$work/stdout")"
check "no page read back different" test "$status" -eq 0
check "pools were switched $(counter "$work/json" pool_switch) times" test "$(counter "$work/json" pool_switch)" -ge 1000
check_swapped "$work/json"
verdict
