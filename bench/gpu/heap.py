"""Writes pages of a CPython heap to a file: usage: heap.py OUT MIB.

The heap is that of accept/cpython_heap.py. Its runs of 64 KiB that are not all zeros are taken evenly, so that about
MIB MiB come together.
"""

import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "accept"))
import cpython_heap as heap

RUN = 16 * 4096
# Of the full size of cpython_heap.py, for each MiB that is to come out: a heap some 1.3 times as large.
SCALE = 1 / 900


def anonymous():
    """Addresses of runs in private writable memory that is no file's."""
    for line in open("/proc/self/maps"):
        span, mode, _, _, _, *name = line.split()
        start, end = (int(address, 16) for address in span.split("-"))
        if mode == "rw-p" and (not name or name[0] == "[heap]" or name[0].startswith("[anon")):
            yield from range(start, end - RUN + 1, RUN)


def used(memory):
    for start in anonymous():
        memory.seek(start)
        try:
            run = memory.read(RUN)
        except OSError:
            continue
        if any(run):
            yield start


def main(out, mib):
    rng = random.Random(20240229)
    scale = mib * SCALE
    kept = heap.build_records(rng, int(heap.RECORDS * scale)), heap.build_index(rng, int(heap.WORDS * scale))
    kept += heap.build_blobs(rng, int(heap.BLOBS * scale)), heap.build_points(rng, int(heap.POINTS * scale))
    heap.change(rng, *kept[:2])
    with open("/proc/self/mem", "rb", buffering=0) as memory, open(out, "wb") as file:
        starts = list(used(memory))
        wanted = mib * 1024 * 1024 // RUN
        if len(starts) < wanted:
            raise SystemExit(f"heap.py: the heap has {len(starts)} runs in use, not {wanted}: raise SCALE")
        for number in range(wanted):
            memory.seek(starts[number * len(starts) // wanted])
            file.write(memory.read(RUN))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
