#!/usr/bin/env bash
# Shows: the units of Redis's own test suite give the same results when the whole run - servers, the children of their
# BGSAVEs and the Tcl clients - is one group under a small limit.
# Usage: accept/redis_suite.sh [path-to-uzswap [limit-in-mebibytes [UNIT[=LIMIT]...]]]
# A unit whose tests wait for so many seconds at most has a larger limit of its own: that of memefficiency waits for a
# defragmentation, that of replication for five servers in turn.
# Takes: half an hour for all units; 200 MiB of memory; needs redis-server 7.0, tclsh 8.6 and its sources: REDIS_SOURCE in
# the environment names them, or they come by `apt-get source redis`. Servers listen on loopback, ports 21111 and up.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

limit_mib=${2:-24}
read -ra units <<<"${*:3}"
((${#units[@]})) || units=(
    unit/type/{string,incr,list,list-2,list-3,set,zset,hash,stream,stream-cgroups}
    unit/{dump,auth,protocol,keyspace,scan,info,sort,expire,other,multi,quit,aofrw,acl,latency-monitor,pubsub,slowlog}
    unit/{scripting,functions,maxmemory,introspection,introspection-2,limits,obuf-limits,bitops,bitfield,geo,hyperloglog}
    unit/{lazyfree,wait,pause,querybuf,tracking,memefficiency=80,client-eviction,shutdown,replybufsize}
    integration/{rdb,aof,aof-multi-part,corrupt-dump,convert-zipmap-hash-on-load,convert-ziplist-hash-on-load,logging}
    integration/{block-repl,replication=384,replication-2,replication-3,replication-psync,shutdown,redis-cli,redis-benchmark,dismiss-mem}
)
begin "$@"
need redis-server redis-cli redis-benchmark redis-check-aof redis-check-rdb tclsh8.6

if [[ -z ${REDIS_SOURCE:-} ]]; then
    (cd "$work" && apt-get source -q redis >apt.log 2>&1) || die "apt-get source redis: $(tail -n 1 "$work/apt.log")"
    REDIS_SOURCE=$(echo "$work"/redis-*/)
fi
mkdir -p "$work/redis/src"
cp -r "$REDIS_SOURCE/tests" "$work/redis"
for program in redis-server redis-cli redis-benchmark redis-check-aof redis-check-rdb; do
    ln -s "$(command -v "$program")" "$work/redis/src/$program"
done
cd "$work/redis"

# results FILE: one line a test, without times and colours; those of one name are counted.
results() {
    sed -E 's/\x1b\[[0-9;]*m//g' "$1" | sed -nE 's/^\[(ok|err|exception|skip|ignore|timeout)\](: ?)/\1 /p' |
        sed -E 's/ \([0-9]+ ms\)$//; s/ in tests\/.*//' | sort | uniq -c
}

swapped=0 tests=0 differing=0
for named in "${units[@]}"; do
    unit=${named%=*} limit=$limit_mib
    [[ $named == "$unit" ]] || limit=${named#*=}
    name=${unit//\//-}
    suite=(timeout 600 tclsh8.6 tests/test_helper.tcl --clients 1 --timeout 300 --single "$unit")
    run_unmanaged "unmanaged-$name" "${suite[@]}"
    run_unmanaged "managed-$name" "$uzswap" run --memory-max "${limit}M" --stat-json "$work/managed-$name.json" -- "${suite[@]}"
    results "$work/unmanaged-$name.stdout" >"$work/unmanaged-$name.results"
    results "$work/managed-$name.stdout" >"$work/managed-$name.results"
    grep -h '^uzswap:' "$work/managed-$name.stdout" "$work/managed-$name.stderr" | sort | uniq -c | head -n 5 || true
    out=$(counter "$work/managed-$name.json" zswpout)
    ((out == 0)) || swapped=$((swapped + 1))
    count=$(grep -c ' ok ' "$work/unmanaged-$name.results" || true)
    tests=$((tests + count))
    if ! diff "$work/unmanaged-$name.results" "$work/managed-$name.results" >"$work/$name.diff"; then
        differing=$((differing + 1))
        sed 's/^/     | /' "$work/$name.diff" | head -n 20
    fi
    check "$unit: $count tests passed unmanaged; the same managed ($limit MiB: peak $(($(counter "$work/managed-$name.json" memory.peak) >> 20)) MiB, zswpout $out, zswpin $(counter "$work/managed-$name.json" zswpin))" \
        test "$count" -gt 0 -a ! -s "$work/$name.diff" -a "$(status_of "unmanaged-$name")" = "$(status_of "managed-$name")"
done
say "$tests tests passed unmanaged; ${#units[@]} units, $swapped of them swapped, $differing with other results"
check "pages were swapped out" test "$swapped" -gt 0
verdict
