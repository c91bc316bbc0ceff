#!/usr/bin/env bash
# Shows: what a program keeps in memory is not to be found in its swap file; with --encrypt off it is, so the search finds what there is.
# Usage: accept/secrets.sh [path-to-uzswap [limit-in-mebibytes]]
# Takes: 10 seconds; 96 MiB of memory, 100 MB of disk.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

limit_mib=${2:-32}
begin "$@"

# Prints the size of the swap file and how often the secret is in it.
found() {
    "$uzswap" run --memory-max "${limit_mib}M" --max-pool-percent 20 --recompress none --swap "$work" --encrypt "$1" \
        -- "$python" "$accept_dir/secrets.py"
}

on=$(found on)
off=$(found off)
say "encrypted (on disk, secrets, pages that differ): $on"
say "not encrypted: $off"
check "pages went to the disk" test "$(cut -d' ' -f1 <<<"$on")" -gt 10000000
check "no secret is in the swap file" test "$(cut -d' ' -f2 <<<"$on")" = 0
check "without encryption there are some" test "$(cut -d' ' -f2 <<<"$off")" -gt 0
check "every page is as it was" test "$(cut -d' ' -f3 <<<"$on")$(cut -d' ' -f3 <<<"$off")" = 00
verdict
