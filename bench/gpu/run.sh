#!/bin/sh
# Batches of pages through a GPU, and the same pages through our codecs on this machine's processor.
# Usage: run.sh OUT-DIRECTORY [MIB]; prints lines of JSON, and leaves them in OUT-DIRECTORY/gpu.jsonl.
#
# NVCOMP   where nvCOMP is (include/, lib64/), as in the wheel nvidia-libnvcomp-cu13; else ours only
# GPU_BIN, PAGES_BIN   built elsewhere: for a machine without nvcc or cargo
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1 mib=${2:-256}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

gpu=${GPU_BIN:-$scratch/gpu}
pages=${PAGES_BIN:-$here/../../target/release/examples/pages}
if [ -z "${GPU_BIN:-}" ]; then
    set -- -std=c++17 -O3 -arch=native "$here/main.cu" -o "$gpu"
    if [ -n "${NVCOMP:-}" ]; then
        set -- "$@" -DNVCOMP -I"$NVCOMP/include" -L"$NVCOMP/lib64" -l:libnvcomp.so.5
    fi
    nvcc "$@"
fi
[ -n "${PAGES_BIN:-}" ] || (cd "$here" && cargo build --release -p uzswap-acomp --example pages)

{
    nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.max,pcie.link.width.max --format=csv,noheader |
        sed 's/.*/{"gpu":"&"}/'
    sed -n 's/^model name.*: \(.*\)/{"cpu":"\1"}/p' /proc/cpuinfo | head -1
    PYTHONHASHSEED=0 python3 "$here/heap.py" "$scratch/pages" "$mib"
    LD_LIBRARY_PATH=${NVCOMP:+$NVCOMP/lib64} "$gpu" "$scratch/pages" "$scratch/blocks"
    # Whether our code reads what the GPU wrote.
    for blocks in words:words lz4:lz4 zstd:zstd:1 deflate-1:deflate:1 deflate-4:deflate:6; do
        file=$scratch/blocks-${blocks%%:*}
        [ ! -e "$file" ] || "$pages" check "$scratch/pages" "${blocks#*:}" "$file" || echo '{"failed":"'"$blocks"'"}'
    done
    for threads in 1 "$(nproc)"; do
        for codec in words lz4 zstd:1 deflate:1 deflate:6; do
            "$pages" time "$scratch/pages" "$codec" "$threads"
        done
    done
} | tee "$out/gpu.jsonl"
