"""Fills memory with secrets and looks for them in the swap file of this very process: bytes on disk, secrets found, pages lost."""

import os

PAGE = 4096
SECRET = b"TOPSECRET%07d"


def contents(page):
    return SECRET % page * (PAGE // 32)


def swap_file():
    """The pager's threads have descriptors of their own."""
    for task in os.listdir("/proc/self/task"):
        directory = f"/proc/self/task/{task}/fd"
        for fd in os.listdir(directory):
            path = f"{directory}/{fd}"
            try:
                if "(deleted)" in os.readlink(path) and "/#" in os.readlink(path):
                    return path
            except OSError:
                pass
    return None


def search(path):
    found, at = 0, 0
    fd = os.open(path, os.O_RDONLY)
    on_disk = os.fstat(fd).st_blocks * 512
    while True:
        # The file is as long as the disk has room, and nearly all of it a hole.
        try:
            at = max(at, os.lseek(fd, at, os.SEEK_DATA))
        except OSError:
            break
        piece = os.pread(fd, 1 << 20, at)
        found += piece.count(SECRET[:9])
        at += len(piece)
    os.close(fd)
    return on_disk, found


def main():
    memory = bytearray(96 << 20)
    pages = range(len(memory) // PAGE)
    for page in pages:
        memory[page * PAGE : (page + 1) * PAGE] = os.urandom(PAGE // 2) + contents(page)
    on_disk, found = search(swap_file())
    lost = sum(memory[page * PAGE + PAGE // 2 : (page + 1) * PAGE] != contents(page) for page in pages)
    print(on_disk, found, lost)


main()
