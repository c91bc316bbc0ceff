#!/usr/bin/env python3
"""Lives that take Python to live, or to make: `lives.py LIFE [CMD...]`."""

import hashlib
import multiprocessing
import os
import pty
import select
import signal
import subprocess
import sys

MIB = 1 << 20
CHUNKS = [hashlib.sha256(b"%d" % i).digest() * 2048 for i in range(24 * MIB >> 16)]
"""24 MiB, which every process that is made by fork or by an import has."""


def digest(part):
    """What a worker finds in a part of the data."""
    return hashlib.sha256(b"".join(CHUNKS[part::3])).hexdigest()


def workers(method):
    """A pool of workers, made by one of the methods."""
    with multiprocessing.get_context(method).Pool(2) as pool:
        for line in pool.map(digest, range(3)):
            print(line)
        print(sum(map(len, pool.imap_unordered(bytes, [MIB, MIB, 3 * MIB]))))


def children():
    """Children of `subprocess`, with and without pipes, one that does not live to its end."""
    data = b"".join(CHUNKS)
    done = subprocess.run(["cksum"], input=data, capture_output=True, check=True)
    print(done.stdout.decode().strip())
    print(subprocess.run(["sh", "-c", "kill -9 $$"], check=False).returncode)
    print(subprocess.run(["births", "work", "24", "3"], check=False, start_new_session=True).returncode)
    print(subprocess.run(["sh", "-c", "exit 4"], check=False, preexec_fn=lambda: os.nice(1)).returncode)
    try:
        subprocess.run(["sleep", "60"], timeout=0.3, check=False)
    except subprocess.TimeoutExpired:
        print("timed out")
    print(hashlib.sha256(data).hexdigest())


def bare(command):
    """Spawn a command with nothing in its environment, and one that shows what is in its own."""
    command[0] = os.path.join(os.environ["BIN"], command[0])
    print(subprocess.run(command, env={}, check=False).returncode)
    print(os.waitpid(os.posix_spawn(command[0], command, {}), 0)[1])
    print(subprocess.run(["env"], env={"A": "1"}, capture_output=True, check=True).stdout)
    print(hashlib.sha256(b"".join(CHUNKS)).hexdigest())


def blocked(command):
    """Run a command with all signals blocked that can be."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    os.execvp(command[0], command)


def hear(terminal, until, said):
    """Read what is printed, up to a word or the end."""
    while until not in said:
        select.select([terminal], [], [])
        try:
            more = os.read(terminal, 4096)
        except OSError:
            more = b""
        if not more:
            break
        said += more
    return said


def shell(command):
    """Run a command as a shell does: a job in the foreground, which may stop and is told to go on."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execvp(command[0], command)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        print("stopped by", os.WSTOPSIG(status), flush=True)
        os.killpg(job, signal.SIGCONT)
    os.tcsetpgrp(0, os.getpgrp())
    status = os.waitstatus_to_exitcode(status)
    print("the job:", 128 - status if status < 0 else status)


def at_terminal(command):
    """Run a command at a terminal, talk to it, stop it and let it go on, and interrupt it."""
    pid, terminal = pty.fork()
    if pid == 0:
        shell(command)
        sys.stdout.flush()
        os._exit(0)
    said = hear(terminal, b"foreground", b"")
    for typed, heard in ((b"one\n", b"heard one"), (b"\x1a", b"stopped by 20\r\n"), (b"two\n", b"heard two"),
                         (b"three\n", b"ready"), (b"\x03", b"the job: 130\r\n"), (b"", b"never said")):
        os.write(terminal, typed)
        said = hear(terminal, heard, said)
    os.waitpid(pid, 0)
    print(said.decode().replace("\r", ""))


def main():
    life, rest = sys.argv[1], sys.argv[2:]
    if life == "workers":
        workers(rest[0])
    elif life == "children":
        children()
    elif life == "bare":
        bare(rest)
    elif life == "blocked":
        blocked(rest)
    elif life == "at-terminal":
        at_terminal(rest)


if __name__ == "__main__":
    main()
