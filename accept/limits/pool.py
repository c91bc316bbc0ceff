#!/usr/bin/env python3
"""Shared data that a pool of workers reads, slices and sums; every result is checked.

usage: pool.py MIB WORKERS ROUNDS
"""

import hashlib
import multiprocessing
import sys

KINDS = 64
DATA = []


def work(i):
    mine = DATA[i * len(DATA) // KINDS : (i + 1) * len(DATA) // KINDS]
    digest = hashlib.blake2b(digest_size=8)
    for text in mine:
        digest.update(text)
    return sum(map(len, mine)), digest.hexdigest()


def main():
    mib, workers, rounds = map(int, sys.argv[1:])
    # Objects of some 500 bytes: a reference count is written with each that is looked at.
    DATA.extend(b"%09d" % i * 50 for i in range(mib * 2048))
    expected = [work(i) for i in range(KINDS)]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        for _ in range(rounds):
            if pool.map(work, range(KINDS)) != expected:
                sys.exit("the data is not what it was")
    print("whole")


main()
