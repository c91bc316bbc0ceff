"""NumPy arrays in memory that pages itself.

    import uzswap
    uzswap.limit("2G", swap="/var/tmp")
    a = uzswap.zeros((1_000_000, 1_000), "float64")

All arrays of a process together stay below one limit: what is cold is compressed, and what does not
fit after that goes to the swap file, if there is one. An array is an ordinary `numpy.ndarray`, so
pandas, pyarrow and everything else that takes those take it.

Three things are different from other memory:

* Without privileges a system call fails with EFAULT that reads or writes cold memory
  (`stats()["serves_system_calls"]` is 0 then): file.write(a), file.readinto(a), sockets. Wrap such
  calls in `with uzswap.resident(a):`.
* A forked child (os.fork, multiprocessing with "fork") does not have its parent's arrays: touching
  one ends it with SIGSEGV. "spawn" and "forkserver" are fine.
* Where contents do not compress and there is no swap file, the limit is exceeded
  (`stats()["limit_exceeded"]`).
"""

import contextlib
import operator
import os

import numpy as np

from . import _uzswap
from ._uzswap import Region

__all__ = ["Region", "empty", "limit", "resident", "stats", "zeros"]


_chosen = None


def _bytes(size):
    return _uzswap.size(size) if isinstance(size, str) else size


def limit(limit, *, swap=None, swap_max=None, compressor=None):
    """Have all arrays of this process together stay below `limit`: bytes, or "512M", "1.5G".

    The limit can be changed at any time. The others are chosen with the first one: `swap` is a
    directory, or the name of a file to be made (it has no name from then on, and is encrypted);
    `swap_max` its most bytes; `compressor` is words, lz4, zstd or deflate, the last three with a
    level if need be ("zstd:3").
    """
    global _chosen
    limit, swap_max = _bytes(limit), None if swap_max is None else _bytes(swap_max)
    chosen = (os.getpid(), swap, swap_max, compressor)
    # The same once more: a notebook's cell, perhaps.
    if swap is swap_max is compressor is None or chosen == _chosen:
        _uzswap.limit(limit)
    else:
        _uzswap.start(limit, swap, swap_max, compressor)
        _chosen = chosen


def empty(shape, dtype=float, order="C"):
    """An array of zeros, as `numpy.empty` takes its arguments. Nothing of it takes memory yet."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise ValueError(f"dtype {dtype}: must have no Python objects, which are elsewhere")
    if order not in ("C", "F"):
        raise ValueError(f"order {order!r}: must be 'C' or 'F'")
    shape = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    if any(isinstance(n, (bool, np.bool_)) for n in shape):
        raise TypeError(f"shape {shape}: must be of integers")
    shape = tuple(operator.index(n) for n in shape)
    nbytes = dtype.itemsize
    for n in shape:
        if n < 0:
            raise ValueError(f"shape {shape}: must have no negative numbers")
        nbytes *= n
    if nbytes == 0:
        return np.empty(shape, dtype, order)
    return np.ndarray(shape, dtype, np.asarray(Region(nbytes)), order=order)


# Memory of a region is zeros until it is written to.
zeros = empty


def stats():
    """Sizes in bytes and counters, by name; empty before there is a limit or an array."""
    return dict(_uzswap.stats())


def _region_of(array):
    owner = array
    while owner is not None and not isinstance(owner, Region):
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    if owner is None:
        raise ValueError(f"array of shape {array.shape}: must be one of uzswap, or a view of one")
    return owner


def _bounds(array):
    """The first byte of an array, and one past its last, as addresses."""
    first = last = array.__array_interface__["data"][0]
    for n, stride in zip(array.shape, array.strides):
        reach = (n - 1) * stride
        first, last = first + min(reach, 0), last + max(reach, 0)
    return first, last + array.itemsize


@contextlib.contextmanager
def resident(array):
    """Bring an array or a view of one, and keep it where it is, so that system calls can use it.

        with uzswap.resident(part):
            file.readinto(part)

    Half of the limit can be resident in this way at a time.
    """
    array = np.asarray(array)
    if array.size == 0:
        yield array
        return
    region = _region_of(array)
    start = region.__array_interface__["data"][0]
    first, last = _bounds(array)
    pin = region.pin(first - start, last - start)
    try:
        yield array
    finally:
        pin.unpin()
