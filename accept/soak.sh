#!/usr/bin/env bash
# Shows: state machines, fork storms and idle heaps in one group under its limit, while one in a hundred of the machine's steps
# fails and processes are killed with SIGKILL, stopped and retuned at random: no difference, no hang, no byte charged and no
# descriptor, swap space or group file left when they are gone.
# Usage: accept/soak.sh [path-to-uzswap [seconds [seed]]]
# Takes: an hour, or so many seconds and a minute; 300 MiB of memory.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
begin "$@"

seconds=${2:-3600}
seed=${3:-$RANDOM}
group=soak-$$
torture=$(dirname "$uzswap")/uzswap-torture
[[ -x $torture ]] || die "$torture is not there; build it with: cargo build --release"
say "$seconds seconds, seed $seed"

# Swap files have no names: what holds their space is a descriptor.
holders_of_swap() {
    find /proc/[0-9]*/task/[0-9]*/fd -lname "$work/*(deleted)" 2>/dev/null || true
}

mkdir "$work/swap" "$work/logs"
"$uzswap" run --name "$group" --memory-max 96M --swap "$work/swap" --fail-per-mille 10 --stat-json "$work/json" -- \
    "$python" "$accept_dir/soak.py" mix "$seconds" "$seed" "$group" "$uzswap" "$torture" "$work/logs" \
    2>"$work/stderr" &
launched=$!
on_exit stop "$launched"
wait "$launched" && status=0 || status=$?
sed 's/^/     | /' "$work/stderr" | tail -n 20

check "no difference, no hang, no leak" test "$status" -eq 0
check "swapping happened: zswpout $(counter "$work/json" zswpout), pswpin $(counter "$work/json" pswpin)" \
    test "$(counter "$work/json" pswpin)" -gt 0
check "nobody was killed for want of memory" test "$(counter "$work/json" oom_kill)" -eq 0
check "no page was lost" test "$(counter "$work/json" poisoned)" -eq 0
check "no descriptor holds swap space" test -z "$(holders_of_swap)"
check "no file is left of the group" test ! -e "/tmp/uzswap-$(id -u)/$group.group"
check "no file is left in the swap directory" test -z "$(ls -A "$work/swap")"
say "highest charge $(($(counter "$work/json" memory.peak) >> 20)) MiB of 96, $(counter "$work/json" forks) forks handed over"
verdict
