"""Numbers in ordinary memory, and a GPU that reads and writes them: `gpu_heap.py MIB`.

Prints sums that are the same however it is run. In each round all numbers are touched, so that under a limit what the
GPU is to reach next has left.
"""

import hashlib
import multiprocessing
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import numpy
import torch

PIECE = 4 << 20
CUDA = torch.cuda.cudart()


def digest(arrays):
    sums = hashlib.sha256()
    for array in arrays:
        sums.update(array)
    return sums.hexdigest()[:16]


def numbers(count, seed):
    """Pieces of 4 MiB that compress about two to one."""
    make = numpy.random.default_rng(seed)
    return [make.integers(0, 1 << 14, PIECE // 4, dtype=numpy.int32) for _ in range(count)]


def copied(heap):
    """The GPU copies memory that nobody has registered, and copies it back changed."""
    for array in heap:
        here = torch.from_numpy(array)
        there = here.cuda()
        there.mul_(3).add_(1).bitwise_and_(0x3FFF)
        here.copy_(there)
    print("copied", digest(heap), flush=True)


def registered(heap, rounds=4):
    """The GPU writes to registered memory by itself, while all other memory is touched; and reads it so."""
    array = numpy.zeros(16 * PIECE // 4, dtype=numpy.int32)
    array[::1024] = 7
    digest(heap)
    status = CUDA.cudaHostRegister(array.ctypes.data, array.nbytes, 0)
    assert int(status) == 0, f"cudaHostRegister: {status}"
    here = torch.from_numpy(array)
    assert here.is_pinned()
    print("registered", digest([array]), flush=True)
    stream = torch.cuda.Stream()
    for number in range(rounds):
        there = torch.arange(array.size, dtype=torch.int32, device="cuda") % (1000 + number)
        torch.cuda.synchronize()
        digest(heap)
        with torch.cuda.stream(stream):
            for _ in range(8):
                here.copy_(there, non_blocking=True)
        digest(heap)
        stream.synchronize()
        print("written by the GPU", number, digest([array]), flush=True)
        array += number
        digest(heap)
        back = here.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        print("read by the GPU", number, int(back.sum(dtype=torch.int64)), flush=True)
        array[:] = number
    child = os.fork()
    if child == 0:
        os._exit(0 if int(array[5]) == rounds - 1 else 1)
    print("seen by a child", os.waitpid(child, 0)[1], flush=True)
    here.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    print("written after a fork", digest([array]), flush=True)
    assert int(CUDA.cudaHostUnregister(array.ctypes.data)) == 0


def reached(heap):
    """The GPU reads ordinary memory itself, where it can."""
    try:
        import cupy
    except ImportError:
        return print("reached: no cupy", flush=True)
    can = cupy.cuda.runtime.deviceGetAttribute(88, 0)
    print("pageable memory access", can, flush=True)
    if not can:
        return None
    kernel = cupy.RawKernel(
        r"""extern "C" __global__ void sum(const unsigned long long at, unsigned long long n, unsigned long long *out) {
            const int *here = (const int *)at;
            unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x, s = 0;
            for (; i < n; i += gridDim.x * (unsigned long long)blockDim.x) s += here[i];
            atomicAdd(out, s);
        }""",
        "sum",
    )
    digest(heap)
    out = cupy.zeros(1, dtype=cupy.uint64)
    for array in heap[:64]:
        kernel((64,), (256,), (numpy.uint64(array.ctypes.data), numpy.uint64(array.size), out))
    cupy.cuda.runtime.deviceSynchronize()
    print("reached", int(out[0]), int(sum(array.sum(dtype=numpy.int64) for array in heap[:64])), flush=True)
    return None


class Rows(torch.utils.data.Dataset):
    def __init__(self, heap):
        self.heap = heap

    def __len__(self):
        return len(self.heap)

    def __getitem__(self, n):
        return torch.from_numpy(self.heap[n][:65536].astype(numpy.float32))


def loaded(heap):
    """Forked workers read the heap; a thread registers what they send."""
    loader = torch.utils.data.DataLoader(Rows(heap), batch_size=4, num_workers=2, pin_memory=True)
    total = sum(float(batch.cuda(non_blocking=True).double().sum()) for batch in loader)
    print("loaded", total, flush=True)


def trained(heap):
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)).cuda()
    steps = torch.optim.SGD(model.parameters(), lr=1e-3)
    for array in heap:
        rows = torch.from_numpy(array[: 256 * 1024].reshape(256, 1024)).cuda().float() / 16384
        loss = ((model(rows) - rows.mean(1, keepdim=True)) ** 2).mean()
        steps.zero_grad()
        loss.backward()
        steps.step()
    print(f"trained {float(loss):.6f}", flush=True)


def main():
    multiprocessing.set_start_method("fork")
    heap = numbers(int(sys.argv[1]) * (1 << 20) // PIECE, 1)
    print("made", digest(heap), torch.cuda.device_count(), flush=True)
    for part in (copied, registered, loaded, trained, reached):
        if len(sys.argv) < 3 or part.__name__ in sys.argv[2:]:
            part(heap)
    print("at the end", digest(heap), flush=True)


main()
