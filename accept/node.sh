#!/usr/bin/env bash
# Shows: a Node program with about a gigabyte of objects in the main thread and two workers, which also starts child
# processes, prints the same under --memory-max 400M as unmanaged.
# Usage: accept/node.sh [path-to-uzswap [limit-in-mebibytes]]
# Takes: 2 minutes; 1.2 GiB of memory; needs node 18 or later.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

limit_mib=${2:-400}
begin "$@"
need node

program=(node --max-old-space-size=4000 "$accept_dir/node_heap.mjs" 600)
run_unmanaged unmanaged "${program[@]}"
run_managed managed "${limit_mib}M" timeout 900 "${program[@]}"
check "both exited with status 0" test "$(status_of unmanaged)$(status_of managed)" = 00
check_swapped "$work/managed.json"
check "the output is the same" cmp "$work/unmanaged.stdout" "$work/managed.stdout"
say "managed / unmanaged time: $(calc "$(field "$work/managed.took" seconds) / $(field "$work/unmanaged.took" seconds)")"
verdict
