#!/usr/bin/env bash
# Shows: a Java program with a heap of 1 GiB that fills maps, changes them from two threads and checks every value prints
# the same under --memory-max 400M as unmanaged, with each collector that the JVM has.
# Usage: accept/jvm.sh [path-to-uzswap [limit-in-mebibytes [COLLECTOR...]]]
# Takes: 1 to 5 minutes for each collector, of them half a minute unmanaged; 3 GiB of memory; needs java and javac.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

limit_mib=${2:-400}
read -ra collectors <<<"${*:3}"
((${#collectors[@]})) || collectors=(Serial Parallel G1 Shenandoah Z)
begin "$@"
need java javac
javac -d "$work" "$accept_dir/HeapCheck.java"

for collector in "${collectors[@]}"; do
    java "-XX:+Use${collector}GC" -version >/dev/null 2>&1 || {
        say "no $collector collector in this JVM"
        continue
    }
    echo "== $collector"
    program=(java -Xms1g -Xmx1g "-XX:+Use${collector}GC" -cp "$work" HeapCheck 600 4)
    run_unmanaged "unmanaged-$collector" "${program[@]}"
    run_managed "managed-$collector" "${limit_mib}M" timeout 900 "${program[@]}"
    check "$collector: both exited with status 0" \
        test "$(status_of "unmanaged-$collector")$(status_of "managed-$collector")" = 00
    check "$collector: the output is the same" cmp "$work/unmanaged-$collector.stdout" "$work/managed-$collector.stdout"
    # The heap of ZGC is shared memory, which is not managed.
    [[ $collector == Z ]] || check_swapped "$work/managed-$collector.json"
    say "managed / unmanaged time:" \
        "$(calc "$(field "$work/managed-$collector.took" seconds) / $(field "$work/unmanaged-$collector.took" seconds)")"
done
verdict
