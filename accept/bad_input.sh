#!/usr/bin/env bash
# Shows: what cannot work is refused with an error that names the value and the rule, and CMD is not started; exit
# statuses are CMD's own, 125, 126, 127 or 128 + N; a program that outgrows its limit is killed with one clear line, and
# a swap file that runs full in mid-run loses nothing.
# Usage: accept/bad_input.sh [path-to-uzswap]
# Takes: about a minute; 500 MiB of memory; needs gcc with a static libc, and root for the swap file that runs full.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/harness.sh"

begin "$@"
need gcc mount

# attempt WHAT STATUS PATTERN... : ARG...: `uzswap run ARG...` must exit with STATUS, an extended regular expression,
# and match every PATTERN on stderr, whatever the case. Its output stays in $work/stdout and $work/stderr.
attempt() {
    local what=$1 expected=$2 patterns=() problems=() pattern
    shift 2
    while [[ $1 != : ]]; do
        patterns+=("$1")
        shift
    done
    shift
    timeout 300 "$uzswap" run "$@" >"$work/stdout" 2>"$work/stderr" </dev/null && status=0 || status=$?
    [[ $status =~ ^($expected)$ ]] || problems+=("status $status, expected $expected;")
    for pattern in "${patterns[@]}"; do
        grep -qiE -e "$pattern" "$work/stderr" || problems+=("stderr does not match /$pattern/;")
    done
    check "$what: ${problems[*]:-status $status}" test "${#problems[@]}" -eq 0
    head -n 3 "$work/stderr" | sed 's/^/     | /'
}

# refused WHAT PATTERN... : OPTION...: status 125 before CMD, which would leave a file behind, is started.
refused() {
    local what=$1
    shift
    attempt "$what" 125 "$@" -- touch "$work/started"
    check "$what: CMD was not started, stdout is empty" test ! -e "$work/started" -a ! -s "$work/stdout"
    rm -f "$work/started"
}

# What a program that was killed leaves behind.
one_line() {
    [[ $(grep -c memory-max "$work/stderr") -eq 1 ]]
}

right_or_one_line() {
    if ((status == 0)); then grep -qx "$1" "$work/stdout"; else one_line; fi
}

check_values() {
    local value
    refused "unknown compressor" lzo lz4 : --compressor lzo
    refused "compressor level that is no number" zstd:fast 'level|number' : --compressor zstd:fast
    refused "compressor level out of range" zstd:99 'level|[0-9] to [0-9]' : --compressor zstd:99
    refused "unknown zpool" zsmallocs zbud : --zpool zsmallocs
    for value in 12Q -5M 5MM M '' 99999999999999G; do
        refused "SIZE '$value'" "$value" memory-max 'size|number|K.*M.*G' : --memory-max "$value"
    done
    refused "limit that no program starts in" 64K memory-max 'least|below|less|minimum|need|small' : --memory-max 64K
    for value in 0 200% 1 -1%; do
        refused "--stall $value" "$value" stall 'above 0%' : --stall="$value"
    done
    refused "--stall beside a size" 2% stall auto : --memory-max 512M --stall 2%
    refused "--swap-max '8 M'" '8 M' swap-max 'size|number|K.*M.*G' : --swap-max '8 M'
    refused "--max-pool-percent 101" 101 max-pool-percent 100 : --max-pool-percent 101
    refused "--accept-threshold-percent x" x accept-threshold-percent 100 : --accept-threshold-percent x
    refused "--folio-max 3M" 3M folio-max '4K|2M' : --folio-max 3M
    refused "--batch 0" 0 batch : --batch 0
    refused "unknown option" frobnicate : --frobnicate
}

check_paths() {
    local unwritable=/sys/kernel
    refused "swap path in a directory that is missing" "$work/missing" 'no such|exist|missing' : \
        --swap "$work/missing/swap"
    if ((EUID != 0)); then
        unwritable=$work/unwritable
        mkdir -m 500 "$unwritable"
    fi
    refused "swap directory that is not writable" "$unwritable" 'permission|writ|denied' : --swap "$unwritable"
    refused "report in a directory that is missing" "$work/missing" 'no such|exist|missing' : \
        --stat-json "$work/missing/stat.json"
}

check_commands() {
    echo 'int main(void) { return 5; }' | gcc -static -x c - -o "$work/static"
    echo 'exit 0' >"$work/not-executable"
    attempt "no CMD" 125 'CMD|command' :
    attempt "no CMD after --" 125 'CMD|command' : --memory-max 64M --
    attempt "CMD that is not found" 127 no-such-program 'not found|no such' : -- no-such-program
    attempt "CMD at a path that is not found" 127 "$work/none" 'not found|no such' : -- "$work/none"
    attempt "CMD that is not executable" 126 not-executable 'permission|execut' : -- "$work/not-executable"
    attempt "CMD that is a directory" 126 "$work" 'permission|execut|directory' : -- "$work"
    attempt "CMD that exits with 7" 7 : -- sh -c 'exit 7'
    attempt "CMD that SIGTERM ends" 143 : -- sh -c 'kill -TERM $$'
    attempt "CMD that SIGKILL ends" 137 : -- sh -c 'kill -KILL $$'
    attempt "CMD that SIGSEGV ends" 139 : -- sh -c 'kill -SEGV $$'
    attempt "static executable: its own status" 5 : -- "$work/static"
    attempt "arguments with spaces, and options after CMD, are CMD's" 0 : -- printf '%s|' 'a b' --memory-max ''
    check "they arrived unchanged" test "$(<"$work/stdout")" = 'a b|--memory-max||'
}

check_limit() {
    local fill=("$python" "$accept_dir/fill_and_check.py")
    attempt "random data under its limit" 0 : --memory-max 256M --swap none -- "${fill[@]}" 64 random
    attempt "random data that outgrows its limit, no swap" 137 memory-max '96 ?M|100663296' : \
        --memory-max 96M --swap none -- "${fill[@]}" 300 random
    check "one line says so" one_line
    attempt "random data that outgrows limit and --swap-max" 137 memory-max '96 ?M|100663296' : \
        --memory-max 96M --swap "$work" --swap-max 8M -- "${fill[@]}" 300 random
    check "one line says so" one_line
    attempt "random data that fits limit and swap" 0 : --memory-max 96M --swap "$work" -- "${fill[@]}" 300 random
    check "every block was right" grep -qx 'checked 300 MiB' "$work/stdout"
}

# The file system of the swap file has 16 MiB; nothing but the limit may decide what happens then.
check_full_swap() {
    local fill=("$python" "$accept_dir/fill_and_check.py") tiny=$work/tiny
    if ((EUID != 0)); then
        say "not root: swap on a full file system left out"
        return
    fi
    mkdir "$tiny"
    mount -t tmpfs -o size=16M uzswap-accept "$tiny"
    on_exit umount --lazy "$tiny"
    attempt "swap runs full, text fits in limit and pool" 0 : \
        --memory-max 192M --swap "$tiny" --max-pool-percent 90 -- "${fill[@]}" 240 text
    check "every block was right" grep -qx 'checked 240 MiB' "$work/stdout"
    attempt "swap runs full with a small pool: the limit decides" '0|137' : \
        --memory-max 128M --swap "$tiny" --max-pool-percent 10 -- "${fill[@]}" 160 text
    check "finished and right, or one line" right_or_one_line 'checked 160 MiB'
    attempt "swap runs full, random data outgrows the limit" 137 memory-max '96 ?M|100663296' : \
        --memory-max 96M --swap "$tiny" -- "${fill[@]}" 300 random
    check "no block was different" test ! -s "$work/stdout" -a "$(grep -c DIFFERS "$work/stderr")" -eq 0
    check "nothing is left in the swap directory" test -z "$(ls -A "$tiny")"
}

check_values
check_paths
check_commands
check_limit
check_full_swap
verdict
