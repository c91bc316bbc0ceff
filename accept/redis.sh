#!/usr/bin/env bash
# Shows: Redis 7 holds 1.5 GiB of values under --memory-max 512M. Its DEBUG DIGEST equals that of an unmanaged server
# with the same load; BGSAVE completes, and its file loads into an unmanaged server with the same digest;
# redis-benchmark GET and SET run without error; RssAnon, sampled every 20 ms, stays within 5 % of the limit.
# Usage: accept/redis.sh [path-to-uzswap]
# Takes: 2 to 10 minutes, of them 1 unmanaged; 3 GiB of memory; 3 GiB of disk in $TMPDIR or /var/tmp; needs
# redis-server 7 and redis-tools. All servers listen on loopback only.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

limit_mib=512
load_mib=1400
begin "$@"
need redis-server redis-cli redis-benchmark pgrep

free_port() {
    "$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# No answer for 15 minutes is a failure, not a reason to wait on.
ask() {
    timeout 900 redis-cli -h 127.0.0.1 -p "$port" "$@"
}

# info KEY: one value of INFO.
info() {
    ask INFO | tr -d '\r' | sed -n "s/^$1://p"
}

answers() {
    [[ $(ask PING 2>/dev/null) == PONG ]]
}

# start NAME [WRAPPER...]: a server that answers, on its own port, its dump in NAME.rdb.
start() {
    local name=$1
    shift
    port=$(free_port)
    "$@" redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --enable-debug-command yes \
        --dir "$work" --dbfilename "$name.rdb" --logfile "$work/$name.log" 2>"$work/$name.stderr" &
    launched=$!
    on_exit stop "$launched"
    local deadline=$((SECONDS + 300))
    until answers; do
        kill -0 "$launched" 2>/dev/null || die "$name server ended: $(cat "$work/$name.log" "$work/$name.stderr")"
        ((SECONDS < deadline)) || die "$name server does not answer: $(tail -n 3 "$work/$name.log")"
        sleep 0.2
    done
}

shut_down() {
    ask SHUTDOWN NOSAVE || true
    wait "$launched" && status=0 || status=$?
}

load() {
    local began=$SECONDS
    "$python" "$accept_dir/redis_load.py" "$load_mib" | ask --pipe >"$work/load.log"
    grep -q 'errors: 0' "$work/load.log" || die "loading: $(cat "$work/load.log")"
    say "loaded $(calc "$(info used_memory) / 1048576" %.0f) MiB (used_memory) in $((SECONDS - began)) s"
}

bgsave() {
    local began=$SECONDS
    ask BGSAVE >/dev/null || return 1
    while [[ $(info rdb_bgsave_in_progress) == 1 ]]; do
        sleep 0.5
    done
    say "BGSAVE took $((SECONDS - began)) s, fork $(info latest_fork_usec) us, $(stat -c %s "$work/managed.rdb") bytes"
    [[ $(info rdb_last_bgsave_status) == ok ]]
}

# benchmark TEST: redis-benchmark over the names that the load used.
benchmark() {
    local out
    out=$(timeout 900 redis-benchmark -h 127.0.0.1 -p "$port" -t "$1" -n 100000 -c 20 -r 100000 -d 512 --csv 2>&1) ||
        return 1
    say "$(tail -n 1 <<<"$out")"
    ! grep -qi error <<<"$out"
}

echo "== unmanaged"
start reference
load
reference=$(ask DEBUG DIGEST)
say "digest $reference"
shut_down

echo "== managed, --memory-max ${limit_mib}M"
start managed "$uzswap" run --memory-max "${limit_mib}M" --summary --stat-json "$work/stat.json" --
"$python" "$accept_dir/memory_sampler.py" "$(info process_id)" "$work/peaks" 20 &
sampler=$!
on_exit stop "$sampler"
load
began=$SECONDS
check "same digest under the limit" test "$(ask DEBUG DIGEST)" = "$reference"
say "DEBUG DIGEST took $((SECONDS - began)) s"
check "BGSAVE completed" bgsave
check "same digest after BGSAVE" test "$(ask DEBUG DIGEST)" = "$reference"
check "redis-benchmark GET ran without error" benchmark get
check "redis-benchmark SET ran without error" benchmark set
shut_down
wait "$sampler"
check "uzswap run exited with the server's status, 0" test "$status" -eq 0
check_swapped "$work/stat.json"
sed 's/^/     /' "$work/managed.stderr"

peak=$(calc "$(field "$work/peaks" self_rss_anon_peak) / 1024")
say "$(field "$work/peaks" samples) samples, longest gap $(field "$work/peaks" gap_ms_max) ms"
say "BGSAVE child: peak RssAnon $(calc "$(field "$work/peaks" children_rss_anon_peak) / 1024") MiB"
say "server and child: peak Pss_Anon $(calc "$(field "$work/peaks" pss_anon_peak) / 1024") MiB"
check "peak RssAnon of the server $peak MiB, $(calc "$peak / $limit_mib" %.3f) of the limit (at most 1.05)" \
    at_most "$peak" "$(calc "1.05 * $limit_mib")"

echo "== unmanaged, from the managed server's dump"
start managed
check "the dump has the same digest" test "$(ask DEBUG DIGEST)" = "$reference"
shut_down
verdict
