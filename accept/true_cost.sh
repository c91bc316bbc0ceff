#!/usr/bin/env bash
# Shows: `uzswap run -- true` costs at most 5 ms more than `true`, in the median of 200 runs each, taking turns; `env
# true` stands for what any launcher costs.
# Usage: accept/true_cost.sh [path-to-uzswap]
# Takes: a few seconds.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

runs=200
allowed_ms=5
begin "$@"

"$python" "$accept_dir/spawn_times.py" "$runs" true + env true + "$uzswap" run --quiet -- true >"$work/times"
{
    read -r bare bare_spread
    read -r env env_spread
    read -r managed managed_spread
} <"$work/times"
say "true:               median $bare ms (10 and 90 %: $bare_spread)"
say "env true:           median $env ms ($env_spread)"
say "uzswap run -- true: median $managed ms ($managed_spread)"
say "env true costs $(calc "$env - $bare") ms over true"
cost=$(calc "$managed - $bare")
check "uzswap run -- true costs $cost ms over true, at most $allowed_ms" at_most "$cost" "$allowed_ms"
verdict
