#!/usr/bin/env bash
# Shows: a CPython heap that is stored by lz4 and left alone for 30 s rests at 1.3 times the density at least, and that
# took less than a tenth of one core. Afterwards the program reads all of it and comes to the same digest.
# Usage: accept/recompress.sh [path-to-uzswap]
# Takes: 2 minutes; 1 GiB of memory.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

idle_seconds=30
records=330000
begin "$@"
name=recompress-$$

stat_of() {
    "$uzswap" stat "$name" --json | "$python" -c "import json, sys; print(json.load(sys.stdin)['$1'])"
}

# Stored bytes over pool bytes.
stored_ratio() {
    "$uzswap" stat "$name" --json | "$python" -c \
        'import json, sys; c = json.load(sys.stdin); print(c["stored_pages"] * 4096 / c["pool_total_size"])'
}

# CPU seconds of all threads of the program, pager included.
cpu_seconds() {
    "$python" -c 'import os, sys
fields = open(f"/proc/{sys.argv[1]}/stat").read().rpartition(")")[2].split()
print((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))' "$pid"
}

"$uzswap" run --memory-max 2G --compressor lz4 --recompress none --name "$name" -- \
    "$python" "$accept_dir/idle_heap.py" "$records" "$work/go" >"$work/stdout" 2>"$work/stderr" &
launched=$!
on_exit stop "$launched"
until grep -q '^before' "$work/stdout"; do
    kill -0 "$launched" || die "the program ended: $(cat "$work/stderr")"
    sleep 0.2
done
pid=$(pgrep -P "$launched")

"$uzswap" reclaim "$name" 4G 2>/dev/null || true
sleep 1
before=$(stored_ratio)
say "$(stat_of stored_pages) pages stored by lz4 at $(calc "$before" %.3f)"
"$uzswap" set "$name" recompress=zstd:1
cpu_before=$(cpu_seconds)
sleep "$idle_seconds"
share=$(calc "($(cpu_seconds) - $cpu_before) / $idle_seconds * 100" %.1f)
after=$(stored_ratio)
say "after $idle_seconds s: $(stat_of recompressed) of them again by zstd:1, at $(calc "$after" %.3f);" \
    "$share % of a core"
check "the stored ratio is 1.3 times lz4's at least: $(calc "$after / $before" %.3f)" at_most "$(calc "1.3 * $before" %.4f)" "$after"
check "at under 10 % of one core" at_most "$share" 9.9
touch "$work/go"
wait "$launched" && status=0 || status=$?
check "the program ends well" test "$status" -eq 0
check "and reads back what it wrote" test "$(sed -n 's/^before //p' "$work/stdout")" = "$(sed -n 's/^after //p' "$work/stdout")"
verdict
