#!/usr/bin/env bash
# Shows: programs that are unkind to their pager (accept/hostile/*.c: all memory locked, no descriptors left, another PID
# namespace, memory that children do not get, memory mapped over memory, closed descriptors, dropped rights, ...) print the
# same and exit the same managed as unmanaged.
# Usage: accept/hostile.sh [path-to-uzswap [limit-in-mebibytes]]
# Takes: half a minute. As root; needs a C compiler.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

limit_mib=${2:-24}
begin "$@"
need cc

# What is locked, or may only be read, cannot be reclaimed: it has to fit.
limit_of() {
    case $1 in
    executable | mlockall | probe) echo $((limit_mib + 200))M ;;
    *) echo "${limit_mib}M" ;;
    esac
}

cd "$work"
for source in "$accept_dir"/hostile/*.c; do
    name=$(basename "$source" .c)
    cc -O1 -w -pthread -o "$name" "$source"
    unmanaged=0 managed=0
    timeout 60 "./$name" >"$name.unmanaged" || unmanaged=$?
    # Some of its children cannot be managed: eight descriptors, another root directory.
    allow=()
    [[ $name != probe ]] || allow=(--allow-unmanaged)
    timeout 120 "$uzswap" run "${allow[@]}" --memory-max "$(limit_of "$name")" --memory-high "${limit_mib}M" -- "./$name" \
        >"$name.managed" 2>"$name.stderr" || managed=$?
    sed 's/^/     | /' "$name.stderr"
    check "$name exits with $unmanaged" test "$managed" = "$unmanaged"
    check "$name prints the same" diff "$name.unmanaged" "$name.managed"
done
verdict
