#!/usr/bin/env python3
"""Samples the anonymous memory of a process and of its descendants, until the process ends or SIGTERM comes.

usage: memory_sampler.py PID OUTPUT [INTERVAL_MS]

Writes KEY=VALUE lines, in KiB where not said otherwise:
    self_rss_anon_peak      RssAnon of PID
    children_rss_anon_peak  largest RssAnon of one descendant (a forked child's counts the pages it still shares)
    family_rss_anon_peak    largest sum of both
    pss_anon_peak           largest sum of Pss_Anon, which counts a shared page once, taken every SLOW samples
    zswap_peak              Zswap of /proc/meminfo: the pool of the kernel's own zswap
    samples, gap_ms_max     how often it looked, and the longest it did not
"""

import os
import signal
import sys
import time

SLOW = 50


def read(path):
    """The file's text, or nothing when the process is gone."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def kib(text, name):
    """The figure of a `Name:   123 kB` line, 0 when there is none."""
    start = text.find(name)
    return int(text[start + len(name) :].split(None, 1)[0]) if start >= 0 else 0


def rss_anon(pid):
    return kib(read(f"/proc/{pid}/status"), b"RssAnon:")


def pss_anon(pid):
    return kib(read(f"/proc/{pid}/smaps_rollup"), b"Pss_Anon:")


def children(pid):
    """All descendants; those that a thread started are listed under that thread."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found = [int(child) for thread in threads for child in read(f"/proc/{pid}/task/{thread}/children").split()]
    return found + [grandchild for child in found for grandchild in children(child)]


class Peaks(dict):
    def note(self, name, value):
        self[name] = max(self.get(name, 0), value)


def sample(pid, peaks, with_pss):
    descendants = children(pid)
    own = rss_anon(pid)
    theirs = [rss_anon(child) for child in descendants]
    peaks.note("self_rss_anon_peak", own)
    peaks.note("children_rss_anon_peak", max(theirs, default=0))
    peaks.note("family_rss_anon_peak", own + sum(theirs))
    peaks.note("zswap_peak", kib(read("/proc/meminfo"), b"Zswap:"))
    if with_pss:
        peaks.note("pss_anon_peak", sum(pss_anon(member) for member in [pid, *descendants]))


def ended(pid):
    return read(f"/proc/{pid}/stat").rpartition(b") ")[2][:1] in (b"", b"Z", b"X")


def main():
    pid, output = int(sys.argv[1]), sys.argv[2]
    interval = float(sys.argv[3] if len(sys.argv) > 3 else 20) / 1000
    asked_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(True))
    peaks = Peaks()
    samples, last = 0, time.monotonic()
    while not asked_to_stop and not ended(pid):
        sample(pid, peaks, with_pss=samples % SLOW == 0)
        samples += 1
        now = time.monotonic()
        peaks.note("gap_ms_max", round((now - last) * 1000))
        last = now
        time.sleep(interval)
    peaks["samples"] = samples
    with open(output, "w", encoding="ascii") as file:
        file.writelines(f"{name}={value}\n" for name, value in peaks.items())


if __name__ == "__main__":
    main()
