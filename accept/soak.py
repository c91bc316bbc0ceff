"""The torture mix: `uzswap-torture` processes, fork storms and idle heaps in one group, some of which are killed or stopped at
random. Run by soak.sh under `uzswap run`; everything that it starts is managed.

    soak.py mix SECONDS SEED GROUP UZSWAP TORTURE WORK      the driver: exits with 1 if anything was wrong
    soak.py storm SECONDS SEED                              one fork storm: a heap, and children that check and change it
"""

import collections
import ctypes
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
#: A process that has not ended so long after it should have hangs: under pressure a round takes seconds, never minutes.
HANG_SECONDS = 120
#: Descriptors of a pager: its own, and a few for each generation of forks that it still reads from.
DESCRIPTORS_MAX = 64
DIFFERENT = 42


def storm(seconds, seed):
    """Fork children that all check the heap they inherited, and change a part of their own copy."""
    draw = random.Random(seed)
    heap = [hashlib.sha256(b"%d" % (seed + i)).hexdigest() * 8 for i in range(16000)]
    until, forks = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        children = []
        for _ in range(draw.randint(2, 6)):
            part = draw.sample(range(len(heap)), 1000)
            pid = os.fork()
            if pid == 0:
                good = all(heap[i] == hashlib.sha256(b"%d" % (seed + i)).hexdigest() * 8 for i in part)
                for i in part[:100]:
                    heap[i] = heap[i][::-1]
                os._exit(0 if good else DIFFERENT)
            children.append(pid)
        forks += len(children)
        for pid in children:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if status != 0:
                print(f"DIFFERENCE: a child of a fork storm ended with {status}", flush=True)
                return 1
    print(f"0 steps, {forks} forks", flush=True)
    return 0


def agent_threads(pid):
    """The fault threads of a process: where the pager's descriptors are."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as comm:
            if comm.read().strip() == "uzswap-fault":
                yield tid


def descriptors(pid):
    """How many descriptors the pager of a process has, 0 if it has none (yet, or any more); and if these are too many what.

    Its threads have one table. As it starts several have the fault thread's name."""
    try:
        tables = [f"/proc/{pid}/task/{tid}/fd" for tid in agent_threads(pid)]
        count, table = max(((len(os.listdir(table)), table) for table in tables), default=(0, ""))
        if count <= DESCRIPTORS_MAX:
            return count, ""
        links = (os.readlink(os.path.join(table, fd)) for fd in os.listdir(table))
        return count, dict(collections.Counter(link.rstrip("0123456789") for link in links))
    except OSError:
        return 0, ""


class Member:
    """One process that the driver has started."""

    def __init__(self, kind, process, log, seconds):
        self.kind, self.process, self.log = kind, process, log
        self.deadline = time.monotonic() + seconds + HANG_SECONDS
        self.killed = False
        self.descriptors = []

    def sample(self):
        """Look at its pager's descriptors."""
        count, what = descriptors(self.process.pid)
        if count:
            self.descriptors.append(count)
        if what:
            print(f"{self.kind} {self.process.pid} has {count} descriptors: {what}", flush=True)

    def leaked(self):
        """How many more descriptors its pager has at its end than once it had settled; forks under way are left out by the minima."""
        settled = self.descriptors[3:]
        if len(settled) < 16:
            return 0
        return min(settled[-8:]) - min(settled[:8])


class Mix:
    """The driver."""

    def __init__(self, seconds, seed, group, uzswap, torture, work):
        self.until = time.monotonic() + seconds
        self.draw = random.Random(seed)
        self.group, self.uzswap, self.torture, self.work = group, uzswap, torture, work
        self.members, self.number = [], 0
        self.did = dict.fromkeys(
            "torture storm idle killed stopped settings ended orphans steps forks lost_orphans".split(), 0)
        self.peak = {"memory.current": 0, "descriptors": 0}
        self.wrong = []

    def start(self, kind):
        """Start one more process of a kind."""
        self.number += 1
        self.did[kind] += 1
        seconds = self.draw.randint(10, 50)
        seed = self.draw.randrange(1 << 40)
        log = os.path.join(self.work, f"{kind}-{self.number}.log")
        go = os.path.join(self.work, f"go-{self.number}")
        command = {
            "torture": [self.torture, "--seed", str(seed), "--seconds", str(seconds), "--threads", "2"],
            "storm": [sys.executable, __file__, "storm", str(seconds), str(seed)],
            "idle": [self.uzswap, "demo-child", "24", "--hold", go],
        }[kind]
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        member = Member(kind, process, log, seconds)
        member.go = go if kind == "idle" else None
        member.end = time.monotonic() + seconds
        self.members.append(member)

    def fill_up(self):
        """Keep so many of each kind going."""
        for kind, wanted in (("torture", 3), ("storm", 1), ("idle", 1)):
            for _ in range(wanted - sum(member.kind == kind for member in self.members)):
                self.start(kind)

    def disturb(self):
        """Kill, stop or retune something now and then."""
        event = self.draw.random()
        victim = self.draw.choice(self.members)
        if event < 0.06:
            victim.killed = True
            self.did["killed"] += 1
            victim.process.kill()
        elif event < 0.08:
            self.did["stopped"] += 1
            victim.process.send_signal(signal.SIGSTOP)
            time.sleep(self.draw.uniform(0.1, 4))
            victim.process.send_signal(signal.SIGCONT)
        elif event < 0.22:
            self.did["settings"] += 1
            setting = self.draw.choice([
                "compressor=lz4", "compressor=words", "compressor=zstd:1", "compressor=deflate:1", "zpool=zsmalloc", "zpool=zbud", "zpool=z3fold",
                "shrinker_enabled=1", "shrinker_enabled=0", "swap_cache=0", "swap_cache=1", "swapout=whole", "swapout=split", "swapout=direct",
            ])
            subprocess.run([self.uzswap, "set", self.group, setting], check=False, stderr=subprocess.DEVNULL)

    def look_after(self):
        """Let idle ones go on when it is time, and see who has ended or hangs."""
        now = time.monotonic()
        for member in list(self.members):
            member.sample()
            if member.go and now > member.end:
                with open(member.go, "wb"):
                    pass
                member.go = None
            status = member.process.poll()
            if status is not None:
                self.members.remove(member)
                self.ended(member, status)
            elif now > member.deadline:
                self.wrong.append(f"{member.kind} {member.process.pid} hangs")
                self.say(self.wrong[-1], member)
                member.killed = True
                member.process.kill()
        self.reap_orphans()

    def ended(self, member, status):
        """Judge the end of a process."""
        self.did["ended"] += 1
        text = self.text(member)
        lines = text.splitlines()
        if member.leaked() > 0:
            self.wrong.append(f"{member.kind}: its pager had {member.descriptors} descriptors")
            self.say(self.wrong[-1], member)
        self.peak["descriptors"] = max([self.peak["descriptors"], *member.descriptors])
        if "DIFFERENCE" in text or "in a forked child" in text or (status != 0 and not member.killed):
            self.wrong.append(f"{member.kind} {member.process.pid} ended with {status}")
            self.say(self.wrong[-1], member)
            return
        if status == 0 and lines and lines[-1].endswith("forks"):
            steps, forks = (int(word) for word in lines[-1].split() if word.isdigit())
            self.did["steps"] += steps
            self.did["forks"] += forks
        os.unlink(member.log)

    @staticmethod
    def text(member):
        with open(member.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def say(self, line, member):
        print(f"WRONG: {line}\n{self.text(member)[-2000:]}", flush=True)

    def reap_orphans(self):
        """Children of killed processes come to us. One that lost its parent before it had a pager is stopped, and one that shared its
        memory (CLONE_VM) gets SIGBUS: that is allowed."""
        ours = {member.process.pid for member in self.members}
        for pid in children():
            if pid in ours:
                continue
            try:
                done, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue
            if not done:
                continue
            self.did["orphans"] += 1
            status = os.waitstatus_to_exitcode(status)
            if status in (-signal.SIGKILL, -signal.SIGBUS):
                self.did["lost_orphans"] += 1
            elif status != 0:
                self.wrong.append(f"an orphan ended with {status}")
                print(f"WRONG: {self.wrong[-1]}", flush=True)

    def stat(self):
        text = subprocess.run([self.uzswap, "stat", self.group, "--json"], check=True, capture_output=True).stdout
        return json.loads(text)

    def progress(self, left):
        stat = self.stat()
        self.peak["memory.current"] = max(self.peak["memory.current"], stat["memory.current"])
        failures = sum(count for name, count in stat.items() if name.startswith("injected/"))
        print(f"{left:6.0f} s left: {self.did}, {failures} failures, memory.current {stat['memory.current'] >> 20} MiB,"
              f" {len(self.wrong)} wrong", flush=True)

    def run(self):
        """The mix, then its end: all are gone, and nothing of them is left in the group."""
        next_line = 0
        while (left := self.until - time.monotonic()) > 0:
            self.fill_up()
            self.disturb()
            self.look_after()
            if left < next_line or not next_line:
                self.progress(left)
                next_line = left - 30
            time.sleep(0.25)
        while self.members or children():
            for member in self.members:
                member.end = 0
            self.look_after()
            time.sleep(0.25)
        self.finish()

    def finish(self):
        """What is charged now is the driver itself."""
        with open("/proc/self/status", encoding="utf-8") as status:
            own = next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) << 10
        for _ in range(50):
            stat = self.stat()
            if stat["memory.current"] <= own + (6 << 20):
                break
            time.sleep(0.1)
        else:
            self.wrong.append(f"{stat['memory.current']} bytes are charged after all have ended, {own} are ours")
        if self.peak["descriptors"] > DESCRIPTORS_MAX:
            self.wrong.append(f"{self.peak['descriptors']} descriptors")
        injected = {name[9:]: count for name, count in stat.items() if name.startswith("injected/")}
        print(f"did: {self.did}\nfailures: {injected}\npeaks: {self.peak}, charged at the end: {stat['memory.current']},"
              f" of the driver {own}")
        for line in self.wrong:
            print(f"WRONG: {line}")
        sys.exit(1 if self.wrong else 0)


def children():
    """All our children, zombies too."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="utf-8") as pids:
        return [int(pid) for pid in pids.read().split()]


def main():
    if sys.argv[1] == "storm":
        sys.exit(storm(int(sys.argv[2]), int(sys.argv[3])))
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    seconds, seed, group, uzswap, torture, work = sys.argv[2:]
    Mix(float(seconds), int(seed), group, uzswap, torture, work).run()


main()
