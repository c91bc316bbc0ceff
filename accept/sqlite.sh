#!/usr/bin/env bash
# Shows: the sqlite3 shell answers the same from a database of more than 500 MB in memory, in a third of what it needs.
# SQLite's own speedtest1 (test/speedtest1.c of its sources, not packaged), if SPEEDTEST1 in the environment names one,
# also prints the same but for its times.
# Usage: accept/sqlite.sh [path-to-uzswap [limit-in-mebibytes]]
# Takes: 1 to 10 minutes; 1 GiB of memory; needs sqlite3.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

begin "$@"
need sqlite3

# compare NAME LIMIT
compare() {
    check "$1: both exited with status 0" test "$(status_of "unmanaged-$1")$(status_of "managed-$1")" = 00
    check_swapped "$work/managed-$1.json"
    check "$1: the output is the same ($(wc -l <"$work/unmanaged-$1.stdout") lines)" \
        cmp "$work/unmanaged-$1.stdout" "$work/managed-$1.stdout"
    say "managed / unmanaged time:" \
        "$(calc "$(field "$work/managed-$1.took" seconds) / $(field "$work/unmanaged-$1.took" seconds)")"
}

# third NAME: a third of what NAME needed, in MiB.
third() {
    echo $(($(field "$work/unmanaged-$1.took" rss_mib) / 3))
}

run_unmanaged unmanaged-script sqlite3 -bail :memory: ".read $accept_dir/heap.sql"
check "the database needs more than 500 MiB" test "$(field "$work/unmanaged-script.took" rss_mib)" -gt 500
limit_mib=${2:-$(third script)}
say "limit: ${limit_mib}M"
run_managed managed-script "${limit_mib}M" timeout 1200 sqlite3 -bail :memory: ".read $accept_dir/heap.sql"
compare script

if [[ -n ${SPEEDTEST1:-} ]]; then
    # --verify hashes every result.
    program=("$SPEEDTEST1" --memdb --size 300 --verify)
    run_unmanaged unmanaged-speedtest1 "${program[@]}"
    limit_mib=${2:-$(third speedtest1)}
    say "limit: ${limit_mib}M"
    run_managed managed-speedtest1 "${limit_mib}M" timeout 1200 "${program[@]}"
    sed -i -E 's/ +[0-9]+\.[0-9]+s//' "$work"/*managed-speedtest1.stdout
    compare speedtest1
fi
verdict
