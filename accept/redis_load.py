#!/usr/bin/env python3
"""Writes Redis commands that fill a server, the same ones every time, for `redis-cli --pipe`.

usage: redis_load.py MIB [SEED]

MIB of values, log-uniform between 64 B and 64 KiB. By bytes, half are JSON (LZ4 shrinks it to about 1/3), a quarter
random, and a quarter pieces of either. Nine in ten are strings called `key:000000000000` and on, the names that
redis-benchmark draws from, so that its GET meets them; the others are hashes and lists.
"""

import json
import random
import sys

POOL_BYTES = 8 << 20
SMALLEST, LARGEST = 64, 64 << 10
PIECE_BYTES = 512
BATCH = 256


def json_pool(rng):
    """Records of one shape, as an application caches them."""
    cities = ["Lisbon", "Nairobi", "Osaka", "Quito", "Tromso", "Wellington"]
    pool = bytearray()
    while len(pool) < POOL_BYTES:
        record = {
            "id": rng.randrange(10**6),
            "customer": {"city": rng.choice(cities), "active": rng.random() < 0.7, "language": "en"},
            "items": [{"sku": f"SKU-{rng.randrange(10**4):05d}", "quantity": rng.randrange(1, 9), "discount": None}],
            "created_at": f"2024-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}T00:00:00Z",
            "status": rng.choice(["pending", "shipped", "delivered"]),
            "session": f"{rng.getrandbits(64):016x}",
            "total": round(rng.random() * 500, 2),
        }
        pool += json.dumps(record).encode()
    return bytes(pool)


def mixed_pool(rng, pools):
    pool = bytearray()
    while len(pool) < POOL_BYTES:
        pool += piece(rng, rng.choice(pools), PIECE_BYTES)
    return bytes(pool)


def piece(rng, pool, size):
    start = rng.randrange(len(pool) - size)
    return pool[start : start + size]


def command(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts.append(b"$%d\r\n%b\r\n" % (len(word), word))
    return b"".join(parts)


def store(number, value):
    """The command that stores `value` as the data type whose turn it is."""
    if number % 20 == 7:
        quarter = len(value) // 4
        fields = [word for i in range(4) for word in (b"field%d" % i, value[i * quarter : (i + 1) * quarter])]
        return command(b"HSET", b"hash:%012d" % number, *fields)
    if number % 20 == 13:
        half = len(value) // 2
        return command(b"RPUSH", b"list:%012d" % number, value[:half], value[half:])
    return command(b"SET", b"key:%012d" % number, value)


def main():
    total = int(sys.argv[1]) << 20
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    texts, noise = json_pool(rng), rng.randbytes(POOL_BYTES)
    pools = [texts, texts, noise, mixed_pool(rng, [texts, noise])]
    batch, number = [], 0
    while total > 0:
        size = int(SMALLEST * (LARGEST / SMALLEST) ** rng.random())
        batch.append(store(number, piece(rng, rng.choice(pools), size)))
        total -= size
        number += 1
        if len(batch) == BATCH:
            sys.stdout.buffer.write(b"".join(batch))
            batch.clear()
    sys.stdout.buffer.write(b"".join(batch))


if __name__ == "__main__":
    main()
