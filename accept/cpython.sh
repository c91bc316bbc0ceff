#!/usr/bin/env bash
# Shows: a CPython program that builds 1.2 GiB of dicts, lists, strings, bytes and tuples, sorts, changes, pickles and
# hashes them prints the same under --memory-max 400M as unmanaged.
# Usage: accept/cpython.sh [path-to-uzswap]
# Takes: 1 to 5 minutes, of them half a minute unmanaged; 1.3 GiB of memory; needs python3.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

limit_mib=400
begin "$@"

program=("$python" "$accept_dir/cpython_heap.py")
run_unmanaged unmanaged "${program[@]}"
check "the program needs more than 1.1 GiB" test "$(field "$work/unmanaged.took" rss_mib)" -gt 1126
run_managed managed "${limit_mib}M" "${program[@]}"
check "the managed run exited with status 0" test "$(status_of managed)" -eq 0
check_swapped "$work/managed.json"
check "the output is the same, byte for byte ($(wc -l <"$work/unmanaged.stdout") hashes)" \
    cmp "$work/unmanaged.stdout" "$work/managed.stdout"
say "managed / unmanaged time:" \
    "$(calc "$(field "$work/managed.took" seconds) / $(field "$work/unmanaged.took" seconds)")"
verdict
