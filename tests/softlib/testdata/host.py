# A program in Python that uses libcuda.so.1 as programs use NVIDIA's: host.py LIBRARY.
import ctypes as c
import multiprocessing
import os
import sys
import threading

cuda = c.CDLL(sys.argv[1])


def ok(result):
    if result:
        name = c.c_char_p()
        cuda.cuGetErrorName(result, c.byref(name))
        raise RuntimeError(f"{result}: {name.value.decode() if name.value else 'unknown'}")


def setup():
    ctx = c.c_void_p()
    ok(cuda.cuInit(0))
    ok(cuda.cuDevicePrimaryCtxRetain(c.byref(ctx), 0))
    ok(cuda.cuCtxSetCurrent(ctx))
    return ctx


def work(data):
    """Passes data through the device's memory."""
    ctx = setup()
    mem, stream, event = c.c_uint64(), c.c_void_p(), c.c_void_p()
    back = c.create_string_buffer(len(data))
    ok(cuda.cuMemAlloc_v2(c.byref(mem), c.c_size_t(len(data))))
    ok(cuda.cuStreamCreate(c.byref(stream), 1))
    ok(cuda.cuEventCreate(c.byref(event), 2))
    ok(cuda.cuMemcpyHtoDAsync_v2(mem, data, c.c_size_t(len(data)), stream))
    ok(cuda.cuMemcpyDtoHAsync_v2(back, mem, c.c_size_t(len(data)), stream))
    ok(cuda.cuEventRecord(event, stream))
    ok(cuda.cuEventSynchronize(event))
    ok(cuda.cuEventQuery(event))
    ok(cuda.cuEventDestroy_v2(event))
    ok(cuda.cuStreamDestroy_v2(stream))
    ok(cuda.cuMemFree_v2(mem))
    return back.raw == data


def child(queue):
    queue.put(work(b"from a child " * 1000))


def refused(queue):
    queue.put(cuda.cuInit(0))


def run(context, target):
    queue = context.SimpleQueue()
    process = context.Process(target=target, args=(queue,))
    process.start()
    answer = queue.get()
    process.join()
    assert process.exitcode == 0, process.exitcode
    return answer


fork = multiprocessing.get_context("fork")
assert run(fork, child) is True  # before this process uses the driver
name = c.create_string_buffer(64)
assert cuda.cuDeviceGetName(name, 64, 0) == 3
os.environ["CUSIM_DEVICES"] = "2"  # the process started without
assert work(b"from the parent " * 1000)
count = c.c_int()
ok(cuda.cuDeviceGetCount(c.byref(count)))
assert count.value == 2, count
ok(cuda.cuDeviceGetName(name, 64, 0))
assert name.value == b"Simulated H200", name.value
assert run(fork, refused) == 3  # after

# A function in Python that the driver calls on a thread of its own.
called = []
HOST_FUNC = c.CFUNCTYPE(None, c.c_void_p)
function = HOST_FUNC(lambda data: called.append((data, threading.get_native_id())))
setup()
ok(cuda.cuLaunchHostFunc(None, function, c.c_void_p(42)))
ok(cuda.cuStreamSynchronize(None))
assert len(called) == 1 and called[0][0] == 42, called
assert called[0][1] not in (threading.get_native_id(), os.getpid()), called

# Threads, each with contexts of its own.
errors = []


def threaded(n):
    try:
        ctx = c.c_void_p(1)
        ok(cuda.cuCtxGetCurrent(c.byref(ctx)))
        assert ctx.value is None, ctx
        assert work(bytes([n]) * 10000)
    except Exception as e:  # what a thread raises is lost
        errors.append(e)


threads = [threading.Thread(target=threaded, args=(n,)) for n in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert not errors, errors
