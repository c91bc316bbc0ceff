#!/usr/bin/env bash
# Shows: the sum of Pss_Anon of all processes of a run, sampled every 10 ms, stays within 3 % of the limit: a pool of workers over shared data, `make
# -j4`, a daemon, and Redis with BGSAVE. Prints for each the most, as a part of the limit, and how many samples were above.
# Usage: accept/limits.sh [path-to-uzswap [limits-in-mebibytes [loads]]]
# Takes: 10 minutes; 1 GiB of memory; needs gcc, make, redis-server 7 and redis-tools.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
limits=${2:-24 64 128 512} loads=${3:-pool make daemon redis}
begin "$@"
need gcc make
[[ " $loads " != *" redis "* ]] || need redis-server redis-cli redis-benchmark

gcc -O2 -o "$work/sampler" "$accept_dir/limits/pss_sampler.c"
gcc -O2 -o "$work/orphans" "$accept_dir/../crates/cli/tests/programs/orphans.c"

# Data of 1.2 times the limit.
pool() {
    "$@" "$python" "$accept_dir/limits/pool.py" $((limit * 6 / 5)) 4 2
}

daemon() {
    "$@" "$work/orphans" $((limit * 3)) daemon </dev/null
}

make_all() {
    local i
    mkdir -p "$work/made"
    for ((i = 0; i < 24; i++)); do
        [[ -e $work/made/$i.c ]] || "$python" "$accept_dir/gcc_source.py" $((limit / 2 + 10)) 200 >"$work/made/$i.c"
    done
    rm -f "$work"/made/*.o
    printf 'all: %s\n%%.o: %%.c\n\tgcc -O2 -c $<\n' "$(printf '%d.o ' {0..23})" >"$work/made/Makefile"
    "$@" make -s -j4 -C "$work/made"
}

redis() {
    cat >"$work/redis.sh" <<'REDIS'
redis-server --port 0 --unixsocket "$1/redis.sock" --save '' --appendonly no --dir "$1" --logfile "$1/redis.log" &
ask() { redis-cli -s "$1/redis.sock" "${@:2}"; }
until [[ $(ask "$1" PING 2>/dev/null) == PONG ]]; do sleep 0.1; done
redis-benchmark -s "$1/redis.sock" -q -t set -n $(($2 * 1500)) -r $(($2 * 1000)) -d 900 -P 16 >/dev/null
for i in 1 2; do
    ask "$1" BGSAVE >/dev/null
    redis-benchmark -s "$1/redis.sock" -q -t set -n $(($2 * 200)) -r $(($2 * 1000)) -d 900 -P 16 >/dev/null
    while [[ $(ask "$1" INFO | tr -d '\r' | sed -n 's/^rdb_bgsave_in_progress://p') == 1 ]]; do sleep 0.1; done
done
[[ $(ask "$1" INFO | tr -d '\r' | sed -n 's/^rdb_last_bgsave_status://p') == ok ]]
status=$?
ask "$1" SHUTDOWN NOSAVE
wait
exit $status
REDIS
    "$@" bash "$work/redis.sh" "$work" "$limit"
}

for load in $loads; do
    for limit in $limits; do
        run=$load
        [[ $load == make ]] && run=make_all
        status=0
        "$run" timeout 600 "$work/sampler" "$work/$load-$limit" $((limit * 1024)) "$uzswap" run --memory-max "${limit}M" -- \
            >"$work/stdout" 2>"$work/stderr" || status=$?
        check "$load at ${limit}M ends with status 0" test "$status" = 0
        ((status == 0)) || tail -n 3 "$work/stderr"
        ratio=$(field "$work/$load-$limit" most_ratio)
        say "$load at ${limit}M: $(field "$work/$load-$limit" samples) samples, median $(field "$work/$load-$limit" median_ratio)," \
            "p99 $(field "$work/$load-$limit" p99_ratio), above $(field "$work/$load-$limit" over), of $(field "$work/$load-$limit" of)"
        check "$load at ${limit}M: at most $ratio of the limit (1.03)" at_most "${ratio:-9}" 1.03
    done
done
verdict
