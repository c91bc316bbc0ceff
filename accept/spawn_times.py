#!/usr/bin/env python3
"""Times how long commands take from being started to being waited for, taking turns.

usage: spawn_times.py RUNS CMD [ARG...] [+ CMD [ARG...]]...

Prints for each command, in order: median, 10th and 90th percentile in ms.
"""

import os
import statistics
import sys
import time


def split(words):
    commands = [[]]
    for word in words:
        if word == "+":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def spawn_ms(command):
    began = time.perf_counter()
    pid = os.posix_spawnp(command[0], command, os.environ)
    _, status = os.waitpid(pid, 0)
    elapsed = time.perf_counter() - began
    if status != 0:
        sys.exit(f"{' '.join(command)}: wait status {status}")
    return elapsed * 1000


def main():
    runs, commands = int(sys.argv[1]), split(sys.argv[2:])
    rounds = [[spawn_ms(command) for command in commands] for _ in range(runs)]
    for times in zip(*rounds):
        tenths = statistics.quantiles(times, n=10)
        print(f"{statistics.median(times):.3f} {tenths[0]:.3f} {tenths[-1]:.3f}")


if __name__ == "__main__":
    main()
