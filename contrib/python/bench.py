"""Compares an array of uzswap, at a quarter of its size, with numpy.memmap and an NDArray of Blosc2.

    python3 bench.py [MiB] [COMPRESSOR]

Each way has a process of its own. Numbers of memmap are those of a page cache that nothing limits:
run it in a container of that size to compare at equal memory. Blosc2 is passed over if it is not
installed.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

MIB = int(sys.argv[1]) if len(sys.argv) > 1 else 256
COMPRESSOR = sys.argv[2] if len(sys.argv) > 2 else "words"
COLUMNS = 1 << 17
ROWS = (MIB << 20) // (8 * COLUMNS)
PICKS, SPAN = 2000, 512


def rows():
    """Numbers below a thousand, in 8 bytes each: they compress, though not well."""
    random = np.random.default_rng(1)
    for row in range(ROWS):
        yield row, random.integers(0, 1000, COLUMNS)


def timed(work):
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def measure(array, sync):
    """Seconds to write it row by row, to add it up, and for each of many short spans changed."""
    def write():
        for row, values in rows():
            array[row] = values
        sync()

    def total():
        return sum(int(array[row].sum()) for row in range(ROWS))

    def update():
        random = np.random.default_rng(2)
        for _ in range(PICKS):
            row, at = random.integers(ROWS), random.integers(COLUMNS - SPAN)
            array[row, at : at + SPAN] = array[row, at : at + SPAN] + 1

    wrote, _ = timed(write)
    added, before = timed(total)
    updated, _ = timed(update)
    assert total() == before + PICKS * SPAN
    return wrote, added, updated / PICKS


def of_numpy():
    return np.zeros((ROWS, COLUMNS), "i8"), lambda: None, lambda: MIB


def of_uzswap():
    import uzswap

    uzswap.limit(f"{MIB // 4}M", swap="/var/tmp", compressor=COMPRESSOR)
    array = uzswap.zeros((ROWS, COLUMNS), "i8")
    return array, lambda: None, lambda: uzswap.stats()["memory.peak"] >> 20


def of_memmap():
    file = tempfile.NamedTemporaryFile(dir="/var/tmp")
    array = np.memmap(file, "i8", "w+", shape=(ROWS, COLUMNS))
    return array, array.flush, lambda: None


def of_blosc2():
    import blosc2

    array = blosc2.zeros((ROWS, COLUMNS), "i8", chunks=(1, COLUMNS))
    return array, lambda: None, lambda: array.schunk.cbytes >> 20


WAYS = {"numpy": of_numpy, "uzswap": of_uzswap, "memmap": of_memmap, "blosc2": of_blosc2}

if os.environ.get("UZSWAP_BENCH_WAY"):
    name = os.environ["UZSWAP_BENCH_WAY"]
    try:
        array, sync, memory = WAYS[name]()
    except ImportError as error:
        sys.exit(f"{name}: {error}")
    wrote, added, updated = measure(array, sync)
    memory = memory()
    said = "page cache" if memory is None else f"{memory} MiB"
    print(f"| {name} | {MIB / wrote:.0f} | {MIB / added:.0f} | {updated * 1e6:.0f} | {said} |")
else:
    print(f"{MIB} MiB; uzswap at {MIB // 4} MiB with {COMPRESSOR}\n")
    print("| array | write, MiB/s | add up, MiB/s | change 4 KiB somewhere, us | memory |")
    print("|---|---|---|---|---|", flush=True)
    for way in WAYS:
        subprocess.run([sys.executable, *sys.argv], env={**os.environ, "UZSWAP_BENCH_WAY": way})
