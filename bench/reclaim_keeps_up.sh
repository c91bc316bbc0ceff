#!/usr/bin/env bash
# Shows: a process that writes 1.5 GiB of heap-like data is at least as fast under uzswap as under the kernel's own
# zswap (lzo, a v1 memory cgroup of 384M, a swap file) at equal memory. A v1 cgroup does not charge the zswap pool, so
# uzswap's limit is 384M plus the peak of `Zswap:` in the kernel's run of the same pair. See README.md beside this file.
# Usage: bench/reclaim_keeps_up.sh [path-to-uzswap [PAIRS]]
# Takes: 2 minutes for the default of 5 pairs; 1 GiB of memory and 4 GiB of disk in $TMPDIR or /var/tmp; needs root, no
# swap in use, and a v1 memory controller. Everything it switches on is switched off again on any exit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../accept/harness.sh"

resident_mib=384
swap_file_mib=4096
zswap=/sys/module/zswap/parameters
cgroup=/sys/fs/cgroup/memory/uzswap-bench.$$
begin "$@"
pairs=${2:-5}
workload=$(dirname "$uzswap")/uzswap-workload
command=("$workload" usemem --mb 1536 --passes write)

require_machine() {
    ((EUID == 0)) || die "the kernel's zswap and a memory cgroup need root"
    [[ -w $zswap/enabled ]] || die "this kernel has no zswap"
    [[ -w /sys/fs/cgroup/memory/cgroup.procs ]] || die "no v1 memory controller at /sys/fs/cgroup/memory"
    [[ $(wc -l </proc/swaps) -eq 1 ]] || die "swap is in use already: $(tail -n +2 /proc/swaps)"
    [[ -x $workload ]] || die "$workload is missing; build it with: cargo build --release -p uzswap-workload"
}

# set_parameter NAME VALUE: of the kernel's zswap, put back on exit.
set_parameter() {
    on_exit eval "echo $(<"$zswap/$1") >$zswap/$1"
    echo "$2" >"$zswap/$1"
}

set_up_kernel_zswap() {
    set_parameter compressor lzo
    set_parameter max_pool_percent 50
    set_parameter enabled Y
    fallocate -l "${swap_file_mib}M" "$work/swap"
    chmod 600 "$work/swap"
    mkswap "$work/swap" >/dev/null
    on_exit swapoff "$work/swap"
    swapon "$work/swap"
    mkdir "$cgroup"
    on_exit rmdir "$cgroup"
    echo "${resident_mib}M" >"$cgroup/memory.limit_in_bytes"
}

# measure NAME CMD...: runs CMD with a sampler beside it; the sampler's figures are in $work/NAME.
measure() {
    local name=$1 launched sampler
    shift
    wait_for_empty_pool
    "$@" >"$work/$name.stdout" 2>"$work/$name.stderr" &
    launched=$!
    on_exit stop "$launched"
    "$python" "$accept_dir/memory_sampler.py" "$launched" "$work/$name" 20 &
    sampler=$!
    wait "$launched" && status=0 || status=$?
    wait "$sampler"
}

wait_for_empty_pool() {
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        (($(awk '/^Zswap:/ { print $2 }' /proc/meminfo) < 1024)) && return
        sleep 0.1
    done
    die "the kernel's zswap pool does not empty"
}

in_cgroup() {
    # shellcheck disable=SC2016 # the inner shell expands these
    bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$cgroup" "$@"
}

# The kernel kills the process in some runs although there is swap left: such a run is shown, and repeated.
measure_kernel() {
    local attempt
    for attempt in 1 2 3; do
        measure kernel in_cgroup "${command[@]}"
        ((status != 0)) || return 0
        say "pair $pair: the kernel's run $attempt ended with status $status; again"
    done
    die "three runs under the kernel's zswap failed"
}

measure_uzswap() {
    measure uzswap "$uzswap" run --memory-max "${limit_mib}M" --quiet --stat-json "$work/stat.json" -- "${command[@]}"
    ((status == 0)) || die "uzswap's run ended with status $status: $(cat "$work/uzswap.stderr")"
}

# rate NAME: the MB/s that the workload printed.
rate() {
    sed -n 's/^write .* \([0-9.]*\) MB\/s .*/\1/p' "$work/$1.stdout"
}

mib() {
    echo $((($(field "$work/$1" "$2") + 1023) / 1024))
}

median() {
    sort -n | awk '{ value[NR] = $1 } END { print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'
}

run_pair() {
    measure_kernel
    limit_mib=$((resident_mib + $(mib kernel zswap_peak)))
    rate kernel >>"$work/kernel.rates"
    say "pair $pair: kernel $(rate kernel) MB/s, peak RssAnon $(mib kernel family_rss_anon_peak) MiB" \
        "+ Zswap $(mib kernel zswap_peak) MiB"
    measure_uzswap
    rate uzswap >>"$work/uzswap.rates"
    mib uzswap family_rss_anon_peak >>"$work/uzswap.peaks"
    say "pair $pair: uzswap $(rate uzswap) MB/s, peak RssAnon $(mib uzswap family_rss_anon_peak) MiB," \
        "limit $limit_mib MiB, zswpout $(counter "$work/stat.json" zswpout), zswpwb $(counter "$work/stat.json" zswpwb)"
    check "pair $pair: uzswap's peak is within 5 % of the limit" \
        at_most "$(mib uzswap family_rss_anon_peak)" "$(calc "1.05 * $limit_mib")"
}

require_machine
set_up_kernel_zswap
say "Linux $(uname -r), $(nproc) processors, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
"${command[@]}" >/dev/null # memory that the host has not backed yet is slow the first time
for ((pair = 1; pair <= pairs; pair++)); do
    run_pair
done
kernel_median=$(median <"$work/kernel.rates")
uzswap_median=$(median <"$work/uzswap.rates")
ratio=$(calc "$uzswap_median / $kernel_median" %.3f)
say "median of $pairs: kernel $kernel_median MB/s, uzswap $uzswap_median MB/s"
check "uzswap / kernel $ratio, at least 1" at_most 1 "$ratio"
verdict
