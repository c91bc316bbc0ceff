#!/usr/bin/env bash
# Shows: an image copied into `uzswap zram` and out again is the same, and how ratio and throughput are beside the
# kernel's own zram, with lz4 and the same client (nbdcopy) on both sides. The sides take turns.
# Usage: bench/zram.sh [path-to-uzswap [ROUNDS]]
# Takes: 2 minutes for the default of 3 rounds; 4 GiB of memory and 4 GiB of disk in $TMPDIR or /var/tmp; needs nbdcopy
# (libnbd-bin) and heap_pages (an example of uzswap-workload); root for the kernel's side, which is left out without it.
# The kernel's device is removed on any exit.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../accept/harness.sh"

control=/sys/class/zram-control
begin "$@"
need nbdcopy cmp
rounds=${2:-3}
heap_pages=$(dirname "$uzswap")/examples/heap_pages
image=$work/image
socket=$work/socket
mib=2048

# Six parts of a heap, one of noise and one of zeros.
make_image() {
    [[ -x $heap_pages ]] || die "$heap_pages is missing; build it with: cargo build --release -p uzswap-workload --examples"
    "$heap_pages" $((mib * 256 * 6 / 8)) >"$image"
    head -c $((mib * 1048576 / 8)) /dev/urandom >>"$image"
    head -c $((mib * 1048576 / 8)) /dev/zero >>"$image"
}

# rate CMD...: runs it and sets $rate, MiB of the image a second.
rate() {
    local begun
    begun=$(date +%s.%N)
    "$@"
    rate=$(calc "$mib / ($(date +%s.%N) - $begun)" %.0f)
}

# copy_in_and_out SIDE ADDRESS: both rates.
copy_in_and_out() {
    rate nbdcopy --flush "$image" "$2"
    written=$rate
    if [[ -b $2 ]]; then blockdev --flushbufs "$2"; fi
    rate nbdcopy "$2" null:
    echo "$written $rate" >>"$work/$1.rates"
}

tell() {
    say "round $round: $1: in $written MiB/s, out $rate MiB/s, $2 MiB for $mib (ratio $(calc "$mib / $2" %.2f))"
}

make_kernel_device() {
    local id
    id=$(<"$control/hot_add")
    device=/dev/zram$id
    sys=/sys/block/zram$id
    on_exit eval "echo 1 >$sys/reset; echo $id >$control/hot_remove"
}

measure_kernel() {
    echo lz4 >"$sys/comp_algorithm" # a reset has put the kernel's own choice back
    echo "${mib}M" >"$sys/disksize"
    copy_in_and_out kernel "$device"
    tell "kernel zram, lz4" "$(awk '{ print $3 / 1048576 }' "$sys/mm_stat")"
    check "the same from the kernel's device" cmp "$image" "$device"
    rate dd if="$image" of="$device" bs=1M oflag=direct status=none
    written=$rate
    rate dd if="$device" of=/dev/null bs=1M iflag=direct status=none
    say "round $round: kernel zram, lz4, past the page cache (dd, one thread): in $written MiB/s, out $rate MiB/s"
    echo 1 >"$sys/reset"
}

# measure_uzswap COMPRESSOR
measure_uzswap() {
    local server
    "$uzswap" zram --size "${mib}M" --socket "$socket" --compressor "$1" --stat-json "$work/stat.json" --quiet &
    server=$!
    on_exit stop "$server"
    while [[ ! -S $socket ]]; do sleep 0.05; done
    copy_in_and_out "$1" "nbd+unix:///?socket=$socket"
    if ((round == 1)); then
        nbdcopy "nbd+unix:///?socket=$socket" "$work/copy"
        check "an image of $mib MiB comes out as it went in ($1)" cmp "$image" "$work/copy"
        rm "$work/copy"
    fi
    kill -TERM "$server"
    wait "$server"
    tell "uzswap zram, $1" "$(calc "$(counter "$work/stat.json" mem_used_total) / 1048576" %.1f)"
}

say "Linux $(uname -r), $(nproc) processors, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
make_image
if ((EUID == 0)) && [[ -e $control/hot_add ]]; then make_kernel_device; fi
for ((round = 1; round <= rounds; round++)); do
    if [[ -n ${device:-} ]]; then measure_kernel; fi
    measure_uzswap lz4
    measure_uzswap words
done
verdict
