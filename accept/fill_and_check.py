#!/usr/bin/env python3
"""Fills memory with blocks of 1 MiB, then checks all of them twice.

usage: fill_and_check.py MIB random|text

Random blocks do not compress, text blocks do, to about 1/3. Prints one line when every block is as it was written, and
fails with one that says so when not.
"""

import hashlib
import random
import sys

MIB = 1 << 20


def text_pool(rng):
    """2 MiB of log lines."""
    lines = []
    for number in range(2 * MIB // 64):
        fields = (number, rng.getrandbits(48), rng.randrange(10**6), rng.choice(["GET", "PUT", "DELETE"]))
        lines.append(b"%08d session=%012x user=%06d %-6s /index.html 200\n" % (*fields[:3], fields[3].encode()))
    return b"".join(lines)


def blocks(kind, count):
    rng = random.Random(11)
    pool = text_pool(rng)
    for number in range(count):
        if kind == "random":
            yield rng.randbytes(MIB)
        else:
            start = rng.randrange(len(pool) - MIB)
            yield b"%016d" % number + pool[start + 16 : start + MIB]


def main():
    count, kind = int(sys.argv[1]), sys.argv[2]
    kept = [(block, hashlib.sha1(block).digest()) for block in blocks(kind, count)]
    for _ in range(2):
        for number, (block, digest) in enumerate(kept):
            if hashlib.sha1(block).digest() != digest:
                sys.exit(f"block {number} DIFFERS")
    print(f"checked {count} MiB")


if __name__ == "__main__":
    main()
