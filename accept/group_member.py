"""A process of a group: fills MEBIBYTES, then touches all of them in turn for BUSY seconds, then sleeps for IDLE seconds and checks.

Prints "filled", the milliseconds that the last round of touches took, and the number of pages that are not what they were.
Usage: group_member.py MEBIBYTES BUSY IDLE
"""

import os
import sys
import time

PAGE = 4096


def text(at):
    return b"%016d" % at * 128 + os.urandom(8)


mebibytes, busy, idle = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
memory = bytearray(mebibytes << 20)
pages = range(0, len(memory), PAGE)
for at in pages:
    memory[at : at + 2056] = text(at)
print("filled", flush=True)
until, took = time.monotonic() + busy, 0.0
while time.monotonic() < until:
    began = time.monotonic()
    for at in pages:
        memory[at + PAGE - 1] = 1
    took = time.monotonic() - began
time.sleep(idle)
damaged = sum(memory[at : at + 16] != b"%016d" % at for at in pages)
print(f"round {took * 1000:.1f}\ndamaged {damaged}", flush=True)
