#!/usr/bin/env python3
"""Runs a command and records what it took.

usage: measure.py OUTPUT CMD [ARG...]

Writes to OUTPUT: status (128 + N for a command that signal N ended), seconds of wall time, user and system time, and
rss_mib, the largest resident set of any process waited for. Exits with that status; the standard streams are CMD's.
"""

import resource
import subprocess
import sys
import time


def main():
    output, command = sys.argv[1], sys.argv[2:]
    began = time.monotonic()
    status = subprocess.run(command, check=False).returncode
    seconds = time.monotonic() - began
    status = 128 - status if status < 0 else status
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(output, "w", encoding="ascii") as file:
        file.write(f"status={status}\nseconds={seconds:.2f}\nuser={usage.ru_utime:.2f}\nsystem={usage.ru_stime:.2f}\n")
        file.write(f"rss_mib={usage.ru_maxrss // 1024}\n")
    sys.exit(status)


if __name__ == "__main__":
    main()
