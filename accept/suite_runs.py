#!/usr/bin/env python3
"""Runs modules of CPython's own test suite, each in a process of its own, and compares two such runs.

usage: suite_runs.py run DIRECTORY SECONDS PYTHON MODULE[=LIMIT]... [-- WRAPPER...]
       suite_runs.py compare UNMANAGED MANAGED

`run` writes for each module DIRECTORY/MODULE.{log,xml,took}; a module that takes longer than SECONDS is killed with all
that it started. An argument of WRAPPER may contain {module} and {limit}. A process that is still there half a second
after its module ended is noted as left behind, and killed. `compare` prints each test whose result differs, and a last
line with the sums.
"""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

PR_SET_CHILD_SUBREAPER = 36


def children():
    pids = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return [int(pid) for pid in pids]


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "?"


def left_behind():
    """What lives on after its module, reaped and killed."""
    deadline = time.monotonic() + 0.5
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return []
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    found = []
    while pids := children():
        for pid in pids:
            found.append(command_line(pid))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return found


def run_module(directory, seconds, command):
    module = command[-1]
    xml_file = directory / f"{module}.xml"
    began = time.monotonic()
    with open(directory / f"{module}.log", "wb") as log:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        peak_kib, status = 0, "timeout"
        while time.monotonic() < began + seconds:
            pid, raw, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                status, peak_kib = os.waitstatus_to_exitcode(raw), usage.ru_maxrss
                break
            time.sleep(0.02)
        else:
            os.killpg(child.pid, signal.SIGKILL)
    took = {"status": status, "seconds": round(time.monotonic() - began, 1), "rss_mib": peak_kib // 1024}
    took["left_behind"] = left_behind()
    with open(directory / f"{module}.took", "w", encoding="utf-8") as file:
        json.dump(took, file)
    print(f"{module:32} {took['seconds']:6.1f} s {took['rss_mib']:4} MiB status {status}", flush=True)
    return xml_file


def run(arguments):
    directory, seconds, python, *modules = arguments
    wrapper = []
    if "--" in modules:
        split = modules.index("--")
        modules, wrapper = modules[:split], modules[split + 1 :]
    directory = pathlib.Path(directory)
    directory.mkdir(exist_ok=True)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for module, _, limit in (module.partition("=") for module in modules):
        command = [argument.replace("{module}", module).replace("{limit}", limit) for argument in wrapper]
        command += [python, "-m", "test", "-u", "subprocess", "--junit-xml", str((directory / f"{module}.xml").absolute()), module]
        run_module(directory, float(seconds), command)


def results(directory, module):
    """Test name -> passed, failed, error or skipped."""
    try:
        tree = xml.etree.ElementTree.parse(directory / f"{module}.xml")
    except (OSError, xml.etree.ElementTree.ParseError):
        return {}
    found = {}
    for case in tree.iter("testcase"):
        result = "passed"
        for kind in ("skipped", "failure", "error"):
            if case.find(kind) is not None:
                result = kind
        if case.get("result") == "skipped":
            result = "skipped"
        found.setdefault(case.get("name"), set()).add(result)
    return {name: "+".join(sorted(kinds)) for name, kinds in found.items()}


def read_took(directory, module):
    try:
        return json.loads((directory / f"{module}.took").read_text(encoding="utf-8"))
    except OSError:
        return {"status": "not run", "seconds": 0, "rss_mib": 0, "left_behind": []}


def compare(arguments):
    before, after = map(pathlib.Path, arguments)
    modules = sorted(path.stem for path in before.glob("*.took"))
    differences = tests = 0
    sums = {"zswpout": 0, "zswpin": 0}
    seconds = [0, 0]
    swapped = 0
    counts = {}
    for module in modules:
        took = [read_took(directory, module) for directory in (before, after)]
        seconds = [total + one["seconds"] for total, one in zip(seconds, took)]
        outcome = [results(directory, module) for directory in (before, after)]
        tests += len(outcome[0])
        for result in outcome[0].values():
            counts[result] = counts.get(result, 0) + 1
        try:
            counters = json.loads((after / f"{module}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            counters = {}
        for name in sums:
            sums[name] += counters.get(name, 0)
        swapped += counters.get("zswpout", 0) > 0
        found = []
        # The launcher waits for what its command leaves behind.
        took[1]["left_behind"] = [line for line in took[1]["left_behind"] if "uzswap run " not in line]
        for what in ("status", "left_behind"):
            if took[0][what] != took[1][what]:
                found.append(f"{what}: {took[0][what]!r} unmanaged, {took[1][what]!r} managed")
        for name in sorted(outcome[0].keys() | outcome[1].keys()):
            pair = [one.get(name, "absent") for one in outcome]
            if pair[0] != pair[1]:
                found.append(f"{name}: {pair[0]} unmanaged, {pair[1]} managed")
        differences += len(found)
        for line in found:
            print(f"{module}: {line}")
    print(
        f"modules={len(modules)} tests={tests} differences={differences} modules_that_swapped={swapped} "
        f"zswpout={sums['zswpout']} zswpin={sums['zswpin']} seconds={seconds[0]:.0f}/{seconds[1]:.0f} "
        + " ".join(f"{name}={count}" for name, count in sorted(counts.items()))
    )
    return differences


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2:])
    else:
        sys.exit(compare(sys.argv[2:]) > 0)
