"""Sorts an array four times as large as the memory that it may have.

    python3 sort.py 256M
"""

import sys
import time

import numpy as np

import uzswap

uzswap.limit(sys.argv[1] if len(sys.argv) > 1 else "256M", swap="/var/tmp")
limit = uzswap.stats()["memory.max"]
numbers = uzswap.empty(4 * limit // 8, "i8")

random = np.random.default_rng(1)
piece = 1 << 16
for start in range(0, numbers.size, piece):
    part = numbers[start : start + piece]
    part[:] = random.integers(0, 1 << 60, part.size)

began = time.perf_counter()
numbers.sort()
took = time.perf_counter() - began

for start in range(0, numbers.size - 1, piece):
    part = numbers[start : start + piece + 1]
    assert (part[:-1] <= part[1:]).all()

stats = uzswap.stats()
assert stats["memory.peak"] <= limit, stats
print(
    f"{numbers.nbytes >> 20} MiB sorted below {limit >> 20} MiB in {took:.1f} s:",
    f"peak {stats['memory.peak'] >> 20} MiB, {stats['pswpout']} pages written to the swap file",
)
