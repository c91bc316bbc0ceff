#!/usr/bin/env bash
# Shows: a page whose copy on the swap device is gone raises SIGBUS in whoever reads it, and only there: nothing reads as
# zeros, the other pages are whole, the launcher says one line, and `poisoned` counts it.
# Usage: accept/lost_page.sh [path-to-uzswap]
# Takes: some seconds; 200 MiB of memory; needs gcc.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
begin "$@"

need gcc
gcc -O1 -o "$work/lost_page" "$accept_dir/lost_page.c"

run_managed managed 48M "$work/lost_page"
say "$(tail -n 1 "$work/managed.stdout")"
check "pages are whole or raise SIGBUS, none reads different" test "$(status_of managed)" -eq 0
check "one line says that a page is lost" test "$(grep -c 'is lost' "$work/managed.stderr")" -eq 1
check "poisoned pages are counted" test "$("$python" -c "import json, sys; print(json.load(open(sys.argv[1]))['poisoned'])" \
    "$work/managed.json")" -gt 0
verdict
