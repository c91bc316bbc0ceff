#!/usr/bin/env bash
# Shows: what a program sees of each kind of failure, made to happen or real: nothing, SIGBUS on that page, or the end with one
# line; and that no page is lost that was not reported, and none reads different. One row for each kind.
# Usage: accept/failures.sh [path-to-uzswap]
# Takes: five minutes; 200 MiB of memory; needs a C compiler. As root; rows that the machine does not allow are left out.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
begin "$@"
need cc timeout

torture=$(dirname "$uzswap")/uzswap-torture
[[ -x $torture ]] || die "$torture is not there; build it with: cargo build --release"
for source in "$accept_dir"/failures/*.c; do
    cc -O1 -o "$work/$(basename "$source" .c)" "$source"
done
cd "$work"

table=()
row() {
    table+=("$(printf '%-22s | %8s | %-36s | %6s | %8s | %s' "$@")")
}

# saw NAME STATUS: what became of the program, in words.
saw() {
    local lines
    lines=$(grep -c '^uzswap:' "$1.stderr" || true)
    case $2 in
    0) if grep -q 'is lost' "$1.stderr"; then echo "SIGBUS on those pages, $lines line"; else echo nothing; fi ;;
    124) echo "HUNG" ;;
    12[89] | 13? | 14?) echo "killed by signal $(($2 - 128)), $lines line" ;;
    *) echo "status $2, $lines line" ;;
    esac
}

# counted NAME WORD: the sum of WORD over all of a run's reports.
counted() {
    { grep -o "$2 [0-9]*" "$1.stdout" || true; } | awk '{ n += $2 } END { print n + 0 }'
}

# managed NAME OPTIONS -- CMD...: run CMD; its counters, output and status are in files of that name.
managed() {
    local name=$1 status=0
    shift
    timeout 180 "$uzswap" run --memory-max 16M --stat-json "$name.json" "$@" \
        >"$name.stdout" 2>"$name.stderr" || status=$?
    echo "$status" >"$name.status"
}

# judge NAME INJECTED: a row, and the checks that hold for any kind.
judge() {
    local name=$1 injected=$2 status lost reported
    status=$(<"$name.status")
    lost=$(counted "$name" lost)
    reported=$(counter "$name.json" poisoned)
    row "$name" "$injected" "$(saw "$name" "$status")" "$lost" "$reported" "$(counted "$name" different)"
    check "$name: nothing reads different" test "$(counted "$name" different)" -eq 0
    check "$name: does not hang" test "$status" -ne 124
    # A forked child inherits a poisoned page that nobody has read yet: one poisoned, two told.
    check "$name: who lost a page was told ($lost SIGBUS, $reported poisoned)" at_most "$(calc "($lost > 0) != ($reported > 0)")" 0
}

# kind=KIND inject NAME PER-MILLE OPTIONS -- CMD...: CMD while KIND is made to happen.
inject() {
    local name=$1 per_mille=$2
    shift 2
    managed "$name" --max-pool-percent 25 --fail-per-mille "$per_mille" --fail-kinds "$kind" "$@"
    judge "$name" "$(counter "$name.json" "injected/$kind")"
    check "$name: it was made to happen" test "$(counter "$name.json" "injected/$kind")" -gt 0
}

# Nothing may be seen of these.
for kind in map_eagain map_ebusy map_enomem map_einval write_enospc write_eio write_short read_eio; do
    inject "$kind" 100 -- ./check_pages 12000 4 2
    check "$kind: the program sees nothing" test "$(<"$kind.status")-$(counter "$kind.json" poisoned)" = 0-0
done

# The same with everything that a program does to its memory, forks included.
managed torture --fail-per-mille 50 -- "$torture" --seconds 20 --threads 2
judge "torture" "$("$python" -c 'import json; print(sum(n for k, n in json.load(open("torture.json")).items() if k[:9] == "injected/"))')"
check "torture: no difference" test "$(<torture.status)" -eq 0

# A pool cannot be made while the compressor changes.
change_pools() {
    local compressor
    while :; do
        for compressor in zstd:1 lz4 deflate:1 words; do
            "$uzswap" set "$1" "compressor=$compressor" 2>/dev/null || true
            sleep 0.2
        done
    done
}
change_pools "failures-$$" &
on_exit stop $!
kind=arena_enomem inject arena_enomem 500 --name "failures-$$" -- ./check_pages 12000 8 0

# These lose pages: the program is told of each.
for how in on off; do
    kind=read_bad inject "read_bad-encrypt-$how" 10 --encrypt "$how" -- ./check_pages 12000 4 2
    kind=read_torn inject "read_torn-encrypt-$how" 20 --encrypt "$how" -- ./check_pages 12000 4 2
done
kind=read_torn inject read_torn-plain 20 --swap-format plain -- ./check_pages 12000 4 2
for zpool in zsmalloc zbud z3fold; do
    kind=pool_flip inject "pool_flip-$zpool" 5 --zpool "$zpool" -- ./check_pages 12000 4 2
    check "pool_flip-$zpool: some were read and found damaged" test "$(counter "pool_flip-$zpool.json" decompress_fail)" -gt 0
done

# The agent out of memory: it stops the process.
kind=heap_enomem inject heap_enomem 100 -- ./check_pages 12000 4 0
check "heap_enomem: ends with 137" test "$(<heap_enomem.status)" -eq 137
check "heap_enomem: one line says why" grep -q '^uzswap: stopping the process: memory allocation' heap_enomem.stderr

# Real ones. A filesystem without space, a limit on the size of files, no address space.
mkdir small
if mount -t tmpfs -o size=4M tmpfs small 2>/dev/null; then
    on_exit umount "$work/small"
    managed real-enospc --swap small --max-pool-percent 100 -- ./check_pages 8000 4 2
    judge real-enospc "$(counter real-enospc.json reject_reclaim_fail)"
    check "real-enospc: nothing is lost" test "$(counted real-enospc lost)" -eq 0
    check "real-enospc: it happened" test "$(counter real-enospc.json reject_reclaim_fail)" -gt 0
fi
(ulimit -f 2048 && managed real-efbig --max-pool-percent 100 -- ./check_pages 8000 4 2)
judge real-efbig "$(counter real-efbig.json reject_reclaim_fail)"
check "real-efbig: nothing is lost" test "$(counted real-efbig lost)" -eq 0

# The pager's thread: killed, stopped and continued, crashed.
pager_thread() {
    local task comm
    for task in /proc/[0-9]*/task/[0-9]*; do
        read -r comm 2>/dev/null <"$task/comm" || continue
        [[ $comm == uzswap-fault ]] || continue
        [[ $(readlink "${task%/task/*}/exe") == "$work/check_pages" ]] && basename "$task"
    done | head -n 1
}

start_idle() {
    managed "$1" -- ./check_pages 12000 "$2" 0 &
    job=$!
    tid=
    for ((tries = 0; tries < 100; tries++)); do
        sleep 0.1
        tid=$(pager_thread)
        [[ -z $tid ]] || break
    done
    [[ -n $tid ]] || die "no pager's thread"
}

start_idle thread-killed 12
sleep 1
kill -KILL "$tid"
wait "$job"
judge thread-killed 1
check "thread-killed: the process is killed" test "$(<thread-killed.status)" -eq 137

start_idle thread-stopped 12
for ((i = 0; i < 3; i++)); do
    sleep 0.5
    kill -STOP "$tid"
    sleep 4
    kill -CONT "$tid"
done
wait "$job"
judge thread-stopped 3
check "thread-stopped: the program goes on as if nothing had been" test "$(<thread-stopped.status)" -eq 0

managed thread-crashed -- ./pager_dies
judge thread-crashed 1
check "thread-crashed: the process dies of it" test "$(<thread-crashed.status)" -eq 139

# A system call filter for all threads ends the pager's one by one, in whatever they are doing: ioctl, futex, read, ppoll.
for number in 16 202 0 271; do
    for ((i = 0; i < 5; i++)); do
        managed "filter-kill-$number" -- ./filter late kill "$number"
        [[ $(<"filter-kill-$number.status") == 132 ]] || break
    done
    judge "filter-kill-$number" "$i"
    check "filter-kill-$number: the process dies of it" test "$(<"filter-kill-$number.status")" -eq 132
    check "filter-kill-$number: one line says why" grep -q '^uzswap: stopping the process: a thread' "filter-kill-$number.stderr"
done
managed filter-errno-16 -- ./filter late errno 16
judge filter-errno-16 1
check "filter-errno-16: the process dies of it" test "$(<filter-errno-16.status)" -eq 137
managed filter-early -- ./filter early kill 16
judge filter-early 1
check "filter-early: one line says that it counts as it is" test "$(grep -c 'is not managed and counts as it is' filter-early.stderr)" = 1
# It has twice the limit, and may have ended before anybody has seen that.
check "filter-early: it ends, or is killed for the limit" grep -qx '0\|137' filter-early.status
managed filter-allowed --allow-unmanaged -- ./filter early kill 16
judge filter-allowed 1
check "filter-allowed: the program runs unmanaged" test "$(<filter-allowed.status)-$(grep -c 'is not managed' filter-allowed.stderr)" = 0-1

# Clocks. What the agent measures it measures on a clock that nobody sets; here it begins years from now, or at zero.
if unshare --time --monotonic=100000000 --boottime=100000000 true 2>/dev/null; then
    managed clock-ahead -- unshare --time --monotonic=100000000 --boottime=100000000 ./check_pages 12000 4 2
    judge clock-ahead 1
    check "clock-ahead: the program sees nothing" test "$(<clock-ahead.status)" -eq 0
fi

printf '\n     %-22s | %8s | %-36s | %6s | %8s | %s\n' "kind" "injected" "what the program saw" "SIGBUS" "poisoned" "different"
for line in "${table[@]}"; do
    say "$line"
done
verdict
