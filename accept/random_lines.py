#!/usr/bin/env python3
"""Writes lines of random words, each with a random key in front, the same each time.

usage: random_lines.py MEBIBYTES [WORDS]    (about so many words a line, 13 if not given)
"""

import random
import sys


def main():
    left = int(sys.argv[1]) << 20
    most = 2 * int(sys.argv[2]) - 2 if len(sys.argv) > 2 else 24
    generator = random.Random(1)
    words = ["".join(generator.choices("etaoinshrdlu", k=generator.randint(2, 9))) for _ in range(3000)]
    texts = [" ".join(generator.choices(words, k=generator.randint(3, most))) for _ in range(50000)]
    while left > 0:
        keys = generator.randbytes(8 * 10000).hex(" ", 8).split()
        block = "".join(f"{key} {text}\n" for key, text in zip(keys, generator.choices(texts, k=len(keys))))
        block = block[:left]
        left -= sys.stdout.write(block)


if __name__ == "__main__":
    main()
