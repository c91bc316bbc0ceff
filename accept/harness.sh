# shellcheck shell=bash
# What the scripts of this directory share. Sourced, not run:
#
#     source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"
#     begin "$@"
#
# After `begin`, $uzswap is the executable under test (the script's argument, or target/release/uzswap), $work an empty
# directory on a real disk and $python a python3 that is no wrapper script. On exit, however it comes, what was given to
# `on_exit` is done, latest first, and $work is removed (not with KEEP=1 in the environment).

accept_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
failures=0
undo=()

begin() {
    uzswap=$(realpath -- "${1:-$accept_dir/../target/release/uzswap}")
    [[ -x $uzswap ]] || die "$uzswap is not an executable; build it with: cargo build --release"
    python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
    work=$(mktemp -d "${TMPDIR:-/var/tmp}/uzswap-accept.XXXXXX")
    trap clean_up EXIT
    trap 'echo "FAIL $(basename "$0"): line $LINENO: $BASH_COMMAND" >&2' ERR
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

die() {
    echo "$(basename "$0"): $*" >&2
    exit 2
}

need() {
    local program
    for program; do
        command -v "$program" >/dev/null || die "this script needs $program"
    done
}

say() {
    printf '     %s\n' "$*"
}

# check WHAT CMD...: one PASS or FAIL line, from the status of CMD, after whatever figures CMD prints.
check() {
    local what=$1
    shift
    if "$@"; then
        echo "PASS $what"
    else
        echo "FAIL $what"
        failures=$((failures + 1))
    fi
}

# The script's own last line and exit status.
verdict() {
    local name
    name=$(basename "$0" .sh)
    if ((failures == 0)); then
        echo "PASS $name"
    else
        echo "FAIL $name: $failures of its checks"
        exit 1
    fi
}

# run_unmanaged NAME CMD... and run_managed NAME LIMIT CMD...: run CMD with its output in $work/NAME.stdout and
# $work/NAME.stderr and what it took in $work/NAME.took, print that, and go on whatever CMD's status was. A managed
# run's final counters are in $work/NAME.json.
run_unmanaged() {
    local name=$1
    shift
    "$python" "$accept_dir/measure.py" "$work/$name.took" "$@" >"$work/$name.stdout" 2>"$work/$name.stderr" || true
    say "$name: $(field "$work/$name.took" seconds) s" \
        "(user $(field "$work/$name.took" user), system $(field "$work/$name.took" system))," \
        "largest resident set $(field "$work/$name.took" rss_mib) MiB, status $(field "$work/$name.took" status)"
}

run_managed() {
    local name=$1 limit=$2
    shift 2
    run_unmanaged "$name" "$uzswap" run --memory-max "$limit" --summary --stat-json "$work/$name.json" -- "$@"
    sed 's/^/     | /' "$work/$name.stderr" | tail -n 25
}

# status_of NAME: the exit status of a run.
status_of() {
    field "$work/$1.took" status
}

# at_most A B: whether A <= B, for decimal fractions too.
at_most() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'
}

# calc EXPRESSION [FORMAT]: arithmetic with fractions.
calc() {
    awk "BEGIN { printf \"${2:-%.2f}\", $1 }"
}

# field FILE KEY: VALUE of a KEY=VALUE line.
field() {
    sed -n "s/^$2=//p" "$1"
}

# counter FILE NAME: one of the final counters that `uzswap run --stat-json` wrote, 0 where there is none.
counter() {
    "$python" -c 'import json, sys; print(json.load(open(sys.argv[1])).get(sys.argv[2], 0))' "$1" "$2" || echo 0
}

# Without pages swapped out a run has shown nothing.
check_swapped() {
    local file=$1
    check "pages were swapped out: zswpout $(counter "$file" zswpout), zswpwb $(counter "$file" zswpwb)" \
        test "$(counter "$file" zswpout)" -gt 0
}

# on_exit CMD...: CMD is run when the script ends, whether or not it succeeds.
on_exit() {
    undo+=("${*@Q}")
}

clean_up() {
    local last
    for ((last = ${#undo[@]} - 1; last >= 0; last--)); do
        eval "${undo[last]}" || echo "$(basename "$0"): could not undo: ${undo[last]}" >&2
    done
    [[ ${KEEP:-} == 1 ]] || rm -rf -- "$work"
}

# stop PID: ends a child of this script and its descendants, by force after ten seconds. A number that meanwhile belongs
# to somebody else's process is left alone.
stop() {
    local pids pid tries
    grep -qs "^PPid:[[:space:]]*$$\$" "/proc/$1/status" || return 0
    mapfile -t pids < <(family "$1")
    ((${#pids[@]})) || return 0
    kill -TERM "${pids[@]}" 2>/dev/null || true
    for ((tries = 0; tries < 100; tries++)); do
        any_alive "${pids[@]}" || return 0
        sleep 0.1
    done
    for pid in "${pids[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
}

family() {
    local child
    kill -0 "$1" 2>/dev/null || return 0
    for child in $(pgrep -P "$1" || true); do
        family "$child"
    done
    echo "$1"
}

# A zombie, whose parent is yet to wait for it, is not alive.
any_alive() {
    local pid
    for pid; do
        grep -qs '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$pid/status" && return 0
    done
    return 1
}
