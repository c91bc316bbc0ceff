"""Builds about 1.2 GiB of Python objects, sorts, changes, pickles and hashes them, and prints a hash of each stage.

The output is a function of this file and of the Python version alone (it runs itself with PYTHONHASHSEED=0), so
two runs can be compared byte for byte: usage: cpython_heap.py [SCALE], where SCALE 1 is the full size.
"""

import datetime
import hashlib
import os
import pickle
import random
import sys

RECORDS = 660_000
WORDS = 400_000
BLOBS = 60_000
POINTS = 1_200_000
CHUNK = 5_000

EPOCH = datetime.datetime(2020, 1, 1)
SYLLABLES = ["ka", "lo", "mi", "ner", "os", "pra", "quin", "ru", "sel", "tor", "ul", "ven", "wy", "xan", "zeb"]


def name(rng):
    return "".join(rng.choices(SYLLABLES, k=3))


def build_records(rng, count):
    """Dictionaries with strings, a float, a datetime and a list, as from a table or a JSON file."""
    return [
        {
            "id": number,
            "name": name(rng),
            "email": f"{name(rng)}.{number}@example.org",
            "score": rng.random(),
            "created": EPOCH + datetime.timedelta(seconds=rng.randrange(10**8)),
            "tags": rng.choices(SYLLABLES, k=3),
        }
        for number in range(count)
    ]


def build_index(rng, count):
    """A dictionary of many small lists."""
    index = {}
    for number in range(count * 3):
        index.setdefault(f"{name(rng)}-{rng.randrange(count)}", []).append(number)
    return index


def build_blobs(rng, count):
    """Byte strings of 256 B to 8 KiB: a third random, the others text."""
    text = " ".join(name(rng) for _ in range(40_000)).encode()
    blobs = []
    for number in range(count):
        size = rng.randrange(256, 8192)
        start = rng.randrange(len(text) - size)
        blobs.append(rng.randbytes(size) if number % 3 == 0 else text[start : start + size])
    return blobs


def build_points(rng, count):
    """Tuples of floats and integers."""
    return [(rng.random(), round(rng.gauss(0, 100), 2), rng.randrange(10**6)) for _ in range(count)]


def chunks(items):
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))


def pickled(items):
    digest = hashlib.sha256()
    for chunk in chunks(items):
        digest.update(pickle.dumps(chunk, protocol=4))
    return digest


def unpickled(items):
    """Like `pickled`, by way of objects that were rebuilt from their pickles."""
    digest = hashlib.sha256()
    for chunk in chunks(items):
        copy = pickle.loads(pickle.dumps(chunk, protocol=4))
        digest.update(repr(copy[:: CHUNK // 50]).encode())
    return digest


def hashed(values):
    digest = hashlib.sha256()
    for value in values:
        digest.update(value if isinstance(value, bytes) else repr(value).encode())
    return digest


def report(stage, digest):
    print(f"{stage:24} {digest.hexdigest()}", flush=True)


def change(rng, records, index):
    """Scattered writes and look-ups over everything."""
    keys = list(index)
    for _ in range(len(records) // 2):
        record = records[rng.randrange(len(records))]
        record["score"] += 1.0
        record["tags"] = record["tags"] + [name(rng)]
        index[keys[rng.randrange(len(keys))]].append(record["id"])


def main(scale):
    rng = random.Random(20240229)
    records = build_records(rng, int(RECORDS * scale))
    report("records built", pickled(records))
    index = build_index(rng, int(WORDS * scale))
    report("index built", hashed(list(index.items())[::50]))
    blobs = build_blobs(rng, int(BLOBS * scale))
    report("blobs built", hashed(blobs))
    points = build_points(rng, int(POINTS * scale))
    report("points built", hashed(points[::50]))

    records.sort(key=lambda record: (record["name"], record["created"]))
    report("records sorted", hashed(record["id"] for record in records))
    blobs.sort()
    report("blobs sorted", hashed(blobs))
    points.sort(key=lambda point: point[1])
    report("points sorted", hashed(points[::50]))
    report("index keys sorted", hashed(sorted(index)))

    change(rng, records, index)
    report("records changed", pickled(records))
    report("index changed", hashed(list(index.items())[::50]))
    report("points copied", unpickled(points))
    report("blobs pickled", pickled(blobs))


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
