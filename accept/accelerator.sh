#!/usr/bin/env bash
# Shows: programs whose pages a MODEL of IAA devices compresses (--compressor deflate-iaa --iaa-model ...), with no
# faults, with 50 permille of injected ones, and with devices that come and go: uzswap-torture finds no page that
# differs; Redis has the same DEBUG DIGEST as an unmanaged one; a CPython heap prints the same. The counters add up.
# Usage: accept/accelerator.sh [path-to-uzswap]
# Takes: 3 to 15 minutes (SECONDS_EACH: of torture, 60); half a GiB of memory; needs python3, redis-server and
# redis-tools. No figure is one of hardware.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

seconds_each=${SECONDS_EACH:-60}
models=("devices=4,engines=8,wqs=2,faults=0,seed=1" "devices=4,engines=8,wqs=2,faults=50,seed=2"
    "devices=2,faults=50,outage=20,churn=100,seed=3")
begin "$@"
torture=$(dirname "$uzswap")/uzswap-torture

# add_up NAME: whether the counters of run NAME do, but for pages under way when its processes ended.
add_up() {
    "$python" - "$work/$1.json" <<'PY'
import json, sys
counters = json.load(open(sys.argv[1]))
of = lambda name: counters["iaa/" + name]
left = of("under_way")
for direction in ("comp", "decomp"):
    requests = of(f"{direction}_requests")
    causes = sum(of(f"{direction}_{cause}") for cause in ("no_slot", "full", "no_queue", "unfit", "withdrawn"))
    submitted = of(f"total_{direction}_calls") + causes
    ended = of(f"{direction}_done") + of(f"{direction}_cancelled") + of(f"total_sw_{direction}_calls")
    ended += of("comp_incompressible") if direction == "comp" else 0
    print(f"     {direction}: {requests} requests, {submitted} submitted or with a cause, {ended} ended")
    assert 0 <= requests - submitted <= left <= 4096, direction
    assert 0 <= requests - ended <= left, direction
fates = [of("acomp_" + fate) for fate in ("done", "poor", "refused", "wrong", "late", "cancelled")]
print("     pages:", of("acomp_pages"), "done, poor, refused, wrong, late, cancelled:", *fates)
assert of("acomp_pages") == sum(fates)
print("     model:", of("model_submitted"), "submitted,", of("model_injected"), "faults,", of("model_openings"), "openings")
assert counters["iaa"] == "MODEL" and of("acomp_done") > 0
PY
}

# under NAME LIMIT MODEL CMD...: a managed run on the model.
under() {
    local name=$1 limit=$2 model=$3
    shift 3
    "$python" "$accept_dir/measure.py" "$work/$name.took" "$uzswap" run --memory-max "$limit" --compressor deflate-iaa \
        --recompress none --iaa-model "$model" --summary --stat-json "$work/$name.json" -- "$@" \
        >"$work/$name.stdout" 2>"$work/$name.stderr" || true
    say "$name: $(field "$work/$name.took" seconds) s, status $(status_of "$name")"
    grep 'iaa:' "$work/$name.stderr" | sed 's/^/     |/' || true
}

free_port() {
    "$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

ask() {
    timeout 900 redis-cli -h 127.0.0.1 -p "$port" "$@"
}

# digest_of NAME [WRAPPER...]: of a server with 80 MiB of values, in $digest; BGSAVE forks on the way.
digest_of() {
    local name=$1 deadline=$((SECONDS + 120))
    shift
    port=$(free_port)
    "$@" redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --enable-debug-command yes \
        --dir "$work" --dbfilename "$name.rdb" --logfile "$work/$name.log" 2>"$work/$name.stderr" &
    local server=$!
    on_exit stop "$server"
    until [[ $(ask PING 2>/dev/null) == PONG ]]; do
        ((SECONDS < deadline)) || die "$name server does not answer: $(cat "$work/$name.stderr")"
        sleep 0.2
    done
    "$python" "$accept_dir/redis_load.py" 80 | ask --pipe >"$work/$name.load"
    grep -q 'errors: 0' "$work/$name.load" || die "loading: $(cat "$work/$name.load")"
    digest=$(ask DEBUG DIGEST)
    ask BGSAVE >/dev/null
    while [[ $(ask INFO | tr -d '\r' | sed -n 's/^rdb_bgsave_in_progress://p') == 1 ]]; do sleep 0.2; done
    saved=$(ask INFO | tr -d '\r' | sed -n 's/^rdb_last_bgsave_status://p')
    [[ $(ask DEBUG DIGEST) == "$digest" ]] || digest="changed by BGSAVE"
    ask SHUTDOWN NOSAVE || true
    wait "$server" && status=0 || status=$?
}

heap=("$python" "$accept_dir/cpython_heap.py" 0.06)
run_unmanaged unmanaged "${heap[@]}"
if command -v redis-server >/dev/null && command -v redis-cli >/dev/null; then
    digest_of reference
    reference=$digest
else
    say "Redis is left out: there is no redis-server"
    reference=
fi
for number in "${!models[@]}"; do
    model=${models[$number]}
    echo "== MODEL $model"
    under "torture$number" 24M "$model" "$torture" --seconds "$seconds_each" --threads 2
    check "uzswap-torture found no page that differs" test "$(status_of "torture$number")" -eq 0
    check "its counters add up" add_up "torture$number"
    under "heap$number" 32M "$model" "${heap[@]}"
    check "the CPython heap prints the same" cmp "$work/unmanaged.stdout" "$work/heap$number.stdout"
    check "its counters add up" add_up "heap$number"
    if [[ -n $reference ]]; then
        digest_of "redis$number" "$uzswap" run --memory-max 40M --compressor deflate-iaa:dynamic --recompress none \
            --iaa-model "$model" --summary --stat-json "$work/redis$number.json" --
        grep 'iaa:' "$work/redis$number.stderr" | sed 's/^/     |/' || true
        check "Redis has the same digest, saved: $saved" test "$digest/$status/$saved" = "$reference/0/ok"
        check "its counters add up" add_up "redis$number"
    fi
done
verdict
