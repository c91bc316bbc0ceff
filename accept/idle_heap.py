"""Builds Python objects, prints a digest of them, does nothing until a file appears, and prints their digest again.

usage: idle_heap.py RECORDS FILE
"""

import hashlib
import os
import pickle
import random
import sys
import time

from cpython_heap import build_records


def digest(records):
    sha = hashlib.sha256()
    for record in records:
        sha.update(pickle.dumps(record))
    return sha.hexdigest()


def main():
    count, go = int(sys.argv[1]), sys.argv[2]
    records = build_records(random.Random(7), count)
    print("before", digest(records), flush=True)
    while not os.path.exists(go):
        time.sleep(0.5)
    print("after", digest(records), flush=True)


if __name__ == "__main__":
    main()
