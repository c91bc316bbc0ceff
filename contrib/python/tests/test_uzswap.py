"""What arrays of uzswap promise. Each test has a process of its own: its limit is its own."""

import errno
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import uzswap


def run(code, *args, **options):
    """Run `code` in a fresh interpreter; what it printed."""
    prelude = "import os, sys, numpy as np, uzswap\n"
    command = [sys.executable, "-c", prelude + textwrap.dedent(code), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd="/", **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrays_have_the_shape_that_was_asked_for():
    for shape in [5, (3, 4), [2, 3, 4], (), (0, 7)]:
        for dtype in [float, "u1", "complex128", "datetime64[s]", [("a", "i4"), ("b", "S3")]]:
            for order in "CF":
                ours, theirs = uzswap.empty(shape, dtype, order), np.zeros(shape, dtype, order)
                assert (ours.shape, ours.dtype, ours.strides) == (theirs.shape, theirs.dtype, theirs.strides)
                assert ours.flags.writeable and (ours == theirs).all()


@pytest.mark.parametrize(
    "call, line",
    [
        (lambda: uzswap.empty(3, object), "dtype object: must have no Python objects"),
        (lambda: uzswap.empty((3, -1)), "shape (3, -1): must have no negative numbers"),
        (lambda: uzswap.empty(3, order="K"), "order 'K': must be 'C' or 'F'"),
        (lambda: uzswap.empty(1 << 62), "region of 36893488147419103232 bytes"),
        (lambda: uzswap.limit("2Q"), "'2Q' is not a size"),
        (lambda: uzswap.limit(17), "limit of 17 bytes: must be at least 4M"),
        (lambda: uzswap.limit("8M", compressor="gzip"), "compressor 'gzip': "),
        (lambda: uzswap.limit("8M", swap_max="1G"), "swap_max without swap: "),
        (lambda: uzswap.resident(np.zeros(3)).__enter__(), "array of shape (3,): must be one of uzswap"),
    ],
)
def test_mistakes_are_named_with_the_rule(call, line):
    with pytest.raises((ValueError, OverflowError)) as raised:
        call()
    if raised.type is ValueError:
        assert str(raised.value).startswith(line), str(raised.value)


@pytest.mark.parametrize("shape", [3.9, (2.5, 3), "5", True, (True, 2)])
def test_a_shape_is_of_integers(shape):
    with pytest.raises(TypeError):
        uzswap.empty(shape)
    assert uzswap.empty(np.int64(3)).shape == (3,)


def test_what_is_made_of_its_buffer_can_be_resident():
    run(
        """
        uzswap.limit("8M")
        a = uzswap.zeros(1 << 16)
        for view in (memoryview(a), np.frombuffer(a.data), a.data[5:9]):
            with uzswap.resident(view):
                assert uzswap.stats()["pinned"] > 0
        """
    )


def test_settings_are_chosen_once():
    run(
        """
        for swap, error, line in [("/nowhere/at/all", FileNotFoundError, "the swap file /nowhere/at/all: "),
                                  ("/var/tmp", None, ""), ("/var/tmp", None, ""),
                                  ("/tmp", ValueError, "settings: they are chosen before")]:
            try:
                uzswap.limit("8M", swap=swap)
                assert error is None
            except (error or ()) as caught:
                assert line in str(caught), caught
        uzswap.limit("16M")
        assert uzswap.stats()["memory.max"] == 16 << 20
        """
    )


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("limit", ["5M", "32M"])
def test_arithmetic_is_as_without(limit, swap):
    run(
        """
        from concurrent.futures import ThreadPoolExecutor
        uzswap.limit(sys.argv[1], swap="/var/tmp" if sys.argv[2] else None)
        shape, parts = (4096, 2048), 4
        ours, theirs = uzswap.empty(shape, "i8"), np.zeros(shape, "i8")
        def work(part):
            random = np.random.default_rng(part)
            ours_here, theirs_here = ours[part::parts], theirs[part::parts]
            for _ in range(300):
                row = random.integers(len(ours_here))
                assert (ours_here[row] == theirs_here[row]).all()
                values = random.integers(0, 1 << random.integers(1, 40), shape[1])
                ours_here[row] += values
                theirs_here[row] += values
            return True
        with ThreadPoolExecutor(parts) as pool:
            assert all(pool.map(work, range(parts)))
        assert (ours == theirs).all() and ours.sum() == theirs.sum()
        stats = uzswap.stats()
        assert stats["pgsteal_anon"] > 0
        assert not sys.argv[2] or stats["memory.peak"] <= stats["memory.max"]
        """,
        limit,
        "swap" if swap else "",
    )


def test_memory_goes_with_the_last_view():
    run(
        """
        uzswap.limit("8M")
        view = uzswap.zeros((4, 1 << 20))[1:, ::2]
        view += 1
        assert uzswap.stats()["regions"] == 1 and view.sum() == view.size
        del view
        stats = uzswap.stats()
        assert stats["regions"] == stats["resident"] == stats["stored_pages"] == 0, stats
        """
    )


def test_pandas_takes_them_without_a_copy():
    pandas = pytest.importorskip("pandas")
    array = uzswap.zeros((1000, 3))
    frame = pandas.DataFrame(array, columns=list("abc"), copy=False)
    assert np.shares_memory(frame.to_numpy(), array)
    array[:, 1] = np.arange(1000)
    assert frame["b"].sum() == 499500
    assert frame.groupby(frame["b"] % 2)["b"].count().tolist() == [500, 500]


def test_pyarrow_takes_them_without_a_copy():
    arrow = pytest.importorskip("pyarrow")
    array = uzswap.zeros(1000, "i8")
    array[:] = np.arange(1000)
    address = array.__array_interface__["data"][0]
    taken = arrow.array(array)
    assert taken.buffers()[1].address == address and taken[999].as_py() == 999
    assert arrow.py_buffer(array).address == address


SYSTEM_CALLS = """
    import tempfile
    uzswap.limit("8M")
    a = uzswap.zeros((16, 1 << 20), "u1")
    for i, row in enumerate(a):
        row[:] = i + 1
    cold = a[2]
    with tempfile.TemporaryFile(buffering=0) as file:
        if uzswap.stats()["serves_system_calls"]:
            file.write(cold)
        else:
            try:
                file.write(cold)
                sys.exit("a call has read cold memory")
            except OSError as error:
                print(error.errno)
        file.seek(0)
        with uzswap.resident(cold) as pinned:
            a[3:].sum()
            assert file.write(pinned) == cold.size
            cold[:] = 0
            file.seek(0)
            assert file.readinto(pinned) == cold.size
    assert (cold == 3).all() and uzswap.stats()["pinned"] == 0
    try:
        uzswap.resident(a).__enter__()
        sys.exit("more than half of the limit is pinned")
    except ValueError as error:
        assert "at most half of the limit" in str(error)
"""


def test_system_calls_use_what_is_resident():
    assert run(SYSTEM_CALLS) in ["", f"{errno.EFAULT}\n"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be another user")
def test_system_calls_of_nobody():
    try:
        said = run(SYSTEM_CALLS, user=65534, group=65534, extra_groups=[])
    except PermissionError as error:
        pytest.skip(f"nobody cannot run this interpreter: {error}")
    assert said == f"{errno.EFAULT}\n"


def test_a_forked_child_ends_loudly():
    run(
        """
        import signal, warnings
        warnings.simplefilter("ignore")
        uzswap.limit("8M")
        a = uzswap.zeros(1 << 20) + 0
        b = uzswap.zeros(1 << 20)
        b += 1
        child = os.fork()
        if child == 0:
            os._exit(int(b[0]))
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV, status
        child = os.fork()
        if child == 0:
            c = uzswap.zeros(1 << 20)
            c += 2
            os._exit(int(c.sum() != 2 << 20))
        _, status = os.waitpid(child, 0)
        assert status == 0 and b.sum() == 1 << 20, status
        """
    )


def test_a_spawned_child_gets_a_copy():
    run(
        """
        import multiprocessing
        uzswap.limit("8M")
        a = uzswap.zeros(1 << 20)
        a += 3
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(np.sum, (a,)) == 3 << 20
        """
    )


def test_an_array_is_sorted_in_a_quarter_of_its_memory():
    example = os.path.join(os.path.dirname(__file__), "../examples/sort.py")
    done = subprocess.run([sys.executable, example, "16M"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("64 MiB sorted below 16 MiB"), done.stdout


def test_a_signal_finds_python_as_ever():
    run(
        """
        import signal, threading
        uzswap.limit("8M")
        a = uzswap.zeros(4 << 20)
        seen = []
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        for _ in range(50):
            os.kill(os.getpid(), signal.SIGUSR1)
            a += 1
        assert seen and (a == 50).all()
        """
    )
