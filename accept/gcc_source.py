#!/usr/bin/env python3
"""Writes a C file that takes gcc -O2 much memory to compile: functions with loops, branches and calls, and the tables
that code generators write.

usage: gcc_source.py FUNCTIONS ROWS >FILE.c
"""

import random
import sys

HEAD = """\
struct node { struct node *next; long key, value; double weight; unsigned char tag[24]; };
"""

FUNCTION = """\
static __attribute__((noinline)) long f{n}(struct node *head, long *table, unsigned long size)
{{
    long sum = {a};
    for (struct node *node = head; node; node = node->next) {{
        switch ((node->key ^ {b}) & 7) {{
        case 0: sum += node->value * {c}; break;
        case 1: table[(unsigned long)sum % size] ^= node->key; break;
        case 2: node->weight = node->weight * {d}.5 + (double)sum; break;
        case 3: sum -= node->tag[{e}] + {call}; break;
        default: sum = (sum << {s}) | ((unsigned long)sum >> {r}); break;
        }}
        for (int i = 0; i < 24; i++)
            node->tag[i] += (unsigned char)(sum >> (i & 7)) * {m};
    }}
    if (sum > {b})
        for (unsigned long i = 0; i + 4 < size; i += 4)
            table[i] = table[i + 1] * {c} + table[i + 2] - (table[i + 3] ^ {a});
    return sum;
}}
"""

TABLE_HEAD = """\
struct row { long key; double weight; const char *label; const struct row *parent; };
extern const struct row rows[];
const struct row rows[] = {
"""

TAIL = """\
long all(struct node *head, long *table, unsigned long size)
{{
    long sum = 0;
{calls}
    return sum;
}}
"""


def function(rng, n):
    call = f"f{rng.randrange(n)}(node->next, table, size)" if n else "1"
    shift = rng.randrange(1, 63)
    letters = {letter: rng.randrange(1, 10**6) for letter in "abcd"}
    bytes_used = {"e": rng.randrange(24), "m": rng.randrange(2, 200)}
    return FUNCTION.format(n=n, call=call, s=shift, r=64 - shift, **bytes_used, **letters)


def row(rng, n):
    key, weight, parent = rng.randrange(10**9), rng.random(), rng.randrange(n + 1)
    return f'    {{ {key}, {weight:.6f}, "row {n} of a table", &rows[{parent}] }},\n'


def main():
    count, rows = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(7)
    sys.stdout.write(HEAD)
    for n in range(count):
        sys.stdout.write(function(rng, n))
    sys.stdout.write(TABLE_HEAD)
    for n in range(rows):
        sys.stdout.write(row(rng, n))
    sys.stdout.write("};\n")
    calls = "\n".join(f"    sum += f{n}(head, table, size);" for n in range(count))
    sys.stdout.write(TAIL.format(calls=calls))


if __name__ == "__main__":
    main()
