# Says what libcuda.so.1 returns for more launches than launches.py makes: sizes of packed arguments, launches that are
# refused in captures, and events in attributes, a line for each: launches-more.py LIBRARY. On a machine with a GPU it
# records launches-more-h100.tsv.
import ctypes as c
import struct
import sys

cuda = c.CDLL(sys.argv[1])
# What each kernel takes is its name in bytes, but for big, which takes 4000.
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry noop() { ret; }
.visible .entry four(.param .u32 a) { ret; }
.visible .entry nine(.param .u64 a, .param .u8 b) { ret; }
.visible .entry twelve(.param .u64 a, .param .u32 b) { ret; }
.visible .entry ten(.param .u64 a, .param .u8 b, .param .u8 d) { ret; }
.visible .entry big(.param .align 8 .b8 a[4000]) { ret; }
"""
kept = []  # what the driver has the address of


def ok(result):
    assert result == 0, result


def keep(thing):
    kept.append(thing)
    return thing


def row(*columns):
    print(*columns, sep="\t", flush=True)


device, primary, module, stream = c.c_int(), c.c_void_p(), c.c_void_p(), c.c_void_p()
ok(cuda.cuInit(0))
ok(cuda.cuDeviceGet(c.byref(device), 0))
ok(cuda.cuDevicePrimaryCtxRetain(c.byref(primary), device))
ok(cuda.cuCtxSetCurrent(primary))
ok(cuda.cuModuleLoadData(c.byref(module), PTX))
ok(cuda.cuStreamCreate(c.byref(stream), 1))
packed = c.addressof(keep(c.create_string_buffer(1 << 17)))


def function(name):
    f = c.c_void_p()
    ok(cuda.cuModuleGetFunction(c.byref(f), module, name.encode()))
    return f


def extra(size, pointer=packed):
    return keep((c.c_void_p * 5)(1, pointer, 2, c.addressof(keep(c.c_size_t(size))), None))


def launch(name, extra, grid=1, params=None):
    return cuda.cuLaunchKernel(function(name), grid, 1, 1, 1, 1, 1, 0, stream, params, extra)


def captured(call):
    status, graph = c.c_int(), c.c_void_p()
    ok(cuda.cuStreamBeginCapture_v2(stream, 2))
    result = call()
    ok(cuda.cuStreamIsCapturing(stream, c.byref(status)))
    end = cuda.cuStreamEndCapture(stream, c.byref(graph))
    return "%d status=%d end=%d" % (result, status.value, end)


# Packed arguments.
for name, sizes in (
    ("noop", (1, 4, 8)),
    ("four", (4, 5, 6, 7, 8, 9, 12, 16)),
    ("nine", (9, 10, 11, 12, 13, 15, 16, 17, 24)),
    ("twelve", (12, 13, 15, 16, 17, 24)),
    ("ten", (10, 11, 12, 13, 16, 17)),
    ("big", (3999, 4000, 4001, 4004, 4008, 4096)),
    ("twelve", (4097, 4100, 8192, 16384, 32764, 32765, 32768, 40000, 65535, 65536, 100000)),
):
    for n in sizes:
        row("extra %s, %d bytes" % (name, n), launch(name, extra(n)), cuda.cuStreamSynchronize(stream))
row("extra noop, NULL, 8 bytes", launch("noop", extra(8, None)))
params = keep((c.c_void_p * 4)(packed, packed, packed, packed))
row("extra twelve, both, NULL 0 bytes", launch("twelve", extra(0, None), params=params))
row("extra twelve, both, 0 bytes", launch("twelve", extra(0), params=params))

# What a capture is after a launch in it was refused.
row("in a capture: 701", captured(lambda: launch("twelve", extra(24))))
row("in a capture: grid 0", captured(lambda: launch("noop", None, 0)))
row("in a capture: both forms", captured(lambda: launch("twelve", extra(12), params=params)))
row("in a capture: cooperative, too large",
    captured(lambda: cuda.cuLaunchCooperativeKernel(function("noop"), 1 << 20, 1, 1, 1, 1, 1, 0, stream, None)))


# Attributes.
def attribute(id, value):
    return struct.pack("<i4x", id) + value.ljust(64, b"\0")


def launch_ex(name, attributes, extra=None, on=stream, grid=1):
    list = keep(c.create_string_buffer(b"".join(attributes)))
    shape = grid, 1, 1, 1, 1, 1, 0
    config = struct.pack("<7I4xQQI4x", *shape, on.value or 0, c.addressof(list), len(attributes))
    return cuda.cuLaunchKernelEx(keep(config), function(name), None, extra)


def event(flags):
    e = keep(c.c_void_p())
    ok(cuda.cuEventCreate(c.byref(e), flags))
    return e


def recording(id, e):
    return attribute(id, struct.pack("<Qii", e.value, 0, 0))


for id in 7, 12:
    e = event(6)  # without timing, for other processes
    result = launch_ex("noop", [recording(id, e)])
    again = captured(lambda: launch_ex("noop", [recording(id, e)]))
    row("event of several processes, attribute %d" % id, result, again)

    other, mine = c.c_void_p(), event(2)
    ok(cuda.cuCtxCreate_v2(c.byref(other), 0, device))
    foreign = event(2)
    ok(cuda.cuCtxSetCurrent(primary))
    row("event of another context, attribute %d" % id, launch_ex("noop", [recording(id, foreign)]))
    ok(cuda.cuCtxDestroy_v2(other))
    ok(cuda.cuCtxSetCurrent(primary))

    second, status, graph = c.c_void_p(), c.c_int(), c.c_void_p()
    ok(cuda.cuStreamCreate(c.byref(second), 1))
    ok(cuda.cuStreamBeginCapture_v2(stream, 2))
    recorded = launch_ex("noop", [recording(id, mine)])
    waited = cuda.cuStreamWaitEvent(second, mine, 0)
    cuda.cuStreamIsCapturing(second, c.byref(status))
    back = event(2)
    launched = launch_ex("noop", [], on=second)
    joined = cuda.cuEventRecord(back, second), cuda.cuStreamWaitEvent(stream, back, 0)
    end = cuda.cuStreamEndCapture(stream, c.byref(graph))
    row("captured event, attribute %d" % id, recorded, waited, status.value, launched, joined, end)

allowed = cuda.cuFuncSetAttribute(function("noop"), 14, 1)
cluster = attribute(4, struct.pack("<3I", 16, 1, 1))
row("cluster 16, non-portable", allowed, launch_ex("noop", [cluster], grid=16))
result = launch_ex("twelve", [], extra(24))
row("too many arguments in the packed form, Ex", result, captured(lambda: launch_ex("twelve", [], extra(24))))
row("end", cuda.cuCtxSynchronize())
