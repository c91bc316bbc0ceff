#!/usr/bin/env python3
"""Forks children that only look at what they share with their parent, and checks that nothing of it changes.

usage: fork_shares.py MIB CHILDREN
"""

import hashlib
import os
import random
import sys
import time

LIVES_S = 0.5


def main():
    mib, children = map(int, sys.argv[1:])
    data = bytearray(random.Random(1).randbytes(1 << 20)) * mib
    digest = hashlib.blake2b(data).digest()
    for _ in range(children):
        pid = os.fork()
        if pid == 0:
            time.sleep(LIVES_S)
            os._exit(0)
        is_same = hashlib.blake2b(data).digest() == digest
        os.waitpid(pid, 0)
        # What was the child's is the parent's alone now: a while for it to count.
        time.sleep(LIVES_S)
        if not is_same:
            sys.exit("the data is not what it was")


main()
