# Says what libcuda.so.1 returns for contexts that are created with parameters, and for launches with attributes and packed
# arguments, a line for each: launches.py LIBRARY. On a machine with a GPU it records launches-h100.tsv.
import ctypes as c
import itertools
import struct
import sys

cuda = c.CDLL(sys.argv[1])
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry noop() { ret; }
.visible .entry four(.param .u64 a, .param .u8 b, .param .u32 c, .param .u64 d) { ret; }
"""
kept = []  # what the driver has the address of


def ok(result):
    assert result == 0, result


def keep(thing):
    kept.append(thing)
    return thing


def row(name, *results):
    print(name, *results, sep="\t", flush=True)


def words(*list):
    return keep((c.c_void_p * len(list))(*list))


ok(cuda.cuInit(0))
device, primary, module, noop, four, stream, memory = c.c_int(), *(c.c_void_p() for _ in range(5)), c.c_uint64()
ok(cuda.cuDeviceGet(c.byref(device), 0))
ok(cuda.cuDevicePrimaryCtxRetain(c.byref(primary), device))
ok(cuda.cuCtxSetCurrent(primary))
ok(cuda.cuModuleLoadData(c.byref(module), PTX))
ok(cuda.cuModuleGetFunction(c.byref(noop), module, b"noop"))
ok(cuda.cuModuleGetFunction(c.byref(four), module, b"four"))
ok(cuda.cuStreamCreate(c.byref(stream), 1))
ok(cuda.cuMemAlloc_v2(c.byref(memory), c.c_size_t(4096)))


# Contexts.
def created(name, create):
    ctx, flags = c.c_void_p(), c.c_uint()
    result = create(c.byref(ctx))
    if result == 0:
        ok(cuda.cuCtxGetFlags(c.byref(flags)))
        ok(cuda.cuCtxDestroy_v2(ctx))
        result = "0, flags %d" % flags.value
    ok(cuda.cuCtxSetCurrent(primary))
    row(name, result)


def params(affinities, n, cig=None):
    return keep(struct.pack("<QiiQ", c.addressof(affinities) if affinities else 0, n, 0, c.addressof(cig) if cig else 0))


sms = keep((c.c_int * 4)(0, 16, 0, 16))
other = keep((c.c_int * 2)(1, 16))
none = keep((c.c_int * 2)(0, 0))
created("v4 NULL", lambda p: cuda.cuCtxCreate_v4(p, None, 0, device))
for flags in 0, 8, 0x10000:
    created("v4 zeroed, flags %d" % flags, lambda p: cuda.cuCtxCreate_v4(p, params(None, 0), flags, device))
created("v4 zeroed, no result", lambda p: cuda.cuCtxCreate_v4(None, params(None, 0), 0, device))
created("v4 cig", lambda p: cuda.cuCtxCreate_v4(p, params(None, 0, keep((c.c_int * 8)())), 0, device))
created("v3 no result", lambda p: cuda.cuCtxCreate_v3(None, None, 0, 0, device))
created("v3 NULL, 0, flags 65536", lambda p: cuda.cuCtxCreate_v3(p, None, 0, 0x10000, device))
for name, list, n in (("NULL", None, 0), ("NULL", None, 1), ("NULL", None, -1), ("SMs", sms, 0), ("SMs", sms, -1), ("SMs", sms, 1),
                      ("SMs", sms, 2), ("unknown", other, 1), ("no SMs", none, 1)):
    created("v3 %s, %d" % (name, n), lambda p: cuda.cuCtxCreate_v3(p, list, n, 0, device))
    if (name, n) != ("SMs", -1):
        created("v4 %s, %d" % (name, n), lambda p: cuda.cuCtxCreate_v4(p, params(list, n), 0, device))

# Packed arguments.
POINTER, SIZE, END = 1, 2, None


def launch(name, function, extra, both=False):
    values = [keep(c.c_uint64(memory.value)) for _ in range(4)]
    array = words(*map(c.addressof, values)) if both else None
    row("extra: " + name, cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, array, extra))
    ok(cuda.cuStreamSynchronize(stream))


packed = keep(c.create_string_buffer(64))
struct.pack_into("<Q", packed, 0, memory.value)
buffer = c.addressof(packed)


def size(n):
    return c.addressof(keep(c.c_size_t(n)))


launch("pointer, size", four, words(POINTER, buffer, SIZE, size(24), END))
launch("size, pointer", four, words(SIZE, size(24), POINTER, buffer, END))
for n in 0, 8, 20, 21, 23, 25, 32, 40, 64, 4096, 1 << 20:
    launch("%d bytes" % n, four, words(POINTER, buffer, SIZE, size(n), END))
launch("end", four, words(END))
launch("pointer", four, words(POINTER, buffer, END))
launch("size", four, words(SIZE, size(24), END))
launch("NULL", four, words(POINTER, None, SIZE, size(24), END))
launch("NULL, 0 bytes", four, words(POINTER, None, SIZE, size(0), END))
launch("pointer twice", four, words(POINTER, None, POINTER, buffer, SIZE, size(24), END))
launch("unknown first", four, words(9, buffer, POINTER, buffer, SIZE, size(24), END))
launch("unknown last", four, words(POINTER, buffer, SIZE, size(24), 9, buffer, END))
launch("key 3", four, words(POINTER, buffer, SIZE, size(24), 3, buffer, END))
launch("both forms", four, words(POINTER, buffer, SIZE, size(24), END), True)
launch("end, and the other form", four, words(END), True)
launch("neither", four, None)
launch("the other form", four, None, True)
launch("no parameters: 24 bytes", noop, words(POINTER, buffer, SIZE, size(24), END))
launch("no parameters: 0 bytes", noop, words(POINTER, buffer, SIZE, size(0), END))
launch("no parameters: NULL, 0 bytes", noop, words(POINTER, None, SIZE, size(0), END))
launch("no parameters: end", noop, words(END))


# Attributes.
def attribute(id, format="", *values):
    return struct.pack("<i4x", id) + struct.pack("<" + format, *values).ljust(64, b"\0")


def config(attributes, grid=(1, 1, 1), block=(1, 1, 1), n=None, array=True):
    list = keep(c.create_string_buffer(b"".join(attributes) or b"\0"))
    return keep(struct.pack("<7I4xQQI4x", *grid, *block, 0, stream.value, c.addressof(list) if array else 0, len(attributes) if n is None else n))


def launch_ex(name, attributes, function=noop, extra=None, **shape):
    what = config(attributes, **shape)
    result = cuda.cuLaunchKernelEx(what, function, None, extra)
    ok(cuda.cuStreamSynchronize(stream))
    graph, status, nodes = c.c_void_p(), c.c_int(), c.c_size_t()
    ok(cuda.cuStreamBeginCapture_v2(stream, 2))
    captured = cuda.cuLaunchKernelEx(what, function, None, extra)
    ok(cuda.cuStreamIsCapturing(stream, c.byref(status)))
    end = cuda.cuStreamEndCapture(stream, c.byref(graph))
    if graph:
        ok(cuda.cuGraphGetNodes(graph, None, c.byref(nodes)))
        ok(cuda.cuGraphDestroy(graph))
    row("attributes: " + name, result, "in a capture %d, status %d, end %d, nodes %d" % (captured, status.value, end, nodes.value))


def event(flags):
    e = keep(c.c_void_p())
    ok(cuda.cuEventCreate(c.byref(e), flags))
    return e.value


launch_ex("none", [])
launch_ex("none, NULL", [], array=False)
launch_ex("packed arguments", [], four, words(POINTER, buffer, SIZE, size(24), END))
for id in range(24):
    launch_ex("%d zeroed" % id, [attribute(id)])
launch_ex("window of nothing", [attribute(1, "QQfii", 0, 0, 1.0, 1, 2)])
launch_ex("window", [attribute(1, "QQfii", memory.value, 4096, 0.5, 2, 1)])
launch_ex("window, misses persist", [attribute(1, "QQfii", memory.value, 4096, 0.5, 2, 2)])
launch_ex("window, ratio 2", [attribute(1, "QQfii", memory.value, 4096, 2.0, 2, 1)])
launch_ex("window, large", [attribute(1, "QQfii", memory.value, 1 << 40, 0.5, 2, 1)])
launch_ex("window, no memory", [attribute(1, "QQfii", 0x1000, 4096, 0.5, 2, 1)])
for v in 1, 2, -1:
    launch_ex("cooperative %d" % v, [attribute(2, "i", v)])
launch_ex("cooperative, large", [attribute(2, "i", 1)], grid=(1 << 20, 1, 1))
launch_ex("not cooperative, large", [attribute(2, "i", 0)], grid=(1 << 16, 1, 1))
for v in range(-1, 7):
    launch_ex("synchronization policy %d" % v, [attribute(3, "i", v)])
for d in (1, 1, 1), (2, 1, 1), (8, 1, 1), (9, 1, 1), (16, 1, 1), (0, 1, 1), (1, 0, 0), (3, 1, 1), (2, 2, 2), (1 << 31, 1, 1):
    launch_ex("cluster %d %d %d of 16 2 2" % d, [attribute(4, "III", *d)], grid=(16, 2, 2))
for n in 1, 3:
    launch_ex("cluster 2 1 1 of %d 1 1" % n, [attribute(4, "III", 2, 1, 1)], grid=(n, 1, 1))
for v in range(-1, 5):
    launch_ex("cluster scheduling %d" % v, [attribute(5, "i", v)])
launch_ex("cluster scheduling 1 and cluster 2", [attribute(4, "III", 2, 1, 1), attribute(5, "i", 1)], grid=(2, 1, 1))
for v in 1, 2, -1:
    launch_ex("programmatic serialization %d" % v, [attribute(6, "i", v)])
for timing, flags in itertools.product((0, 2), (0, 1, 2)):
    launch_ex("programmatic event of %d, flags %d" % (timing, flags), [attribute(7, "Qii", event(timing), flags, 0)])
    launch_ex("completion event of %d, flags %d" % (timing, flags), [attribute(12, "Qi", event(timing), flags)])
for trigger in 1, 2:
    launch_ex("programmatic event, trigger %d" % trigger, [attribute(7, "Qii", event(2), 0, trigger)])
for v in -7, -6, -5, -3, -1, 1, 2, 100:
    launch_ex("priority %d" % v, [attribute(8, "i", v)])
for v in (0, 1), (1, 0), (3, 3), (4, 0), (0, 4), (255, 255):
    launch_ex("domains %d %d" % v, [attribute(9, "BB", *v)])
for v in 1, 2, -1:
    launch_ex("domain %d" % v, [attribute(10, "i", v)])
for d in (1, 1, 1), (2, 1, 1), (16, 1, 1), (0, 1, 1):
    launch_ex("preferred cluster %d %d %d" % d, [attribute(11, "III", *d)], grid=(16, 1, 1))
    for n in 1, 2:
        launch_ex("preferred cluster %d %d %d with %d" % (*d, n), [attribute(4, "III", n, 1, 1), attribute(11, "III", *d)], grid=(16, 1, 1))
for v in 1, 2:
    launch_ex("updatable %d" % v, [attribute(13, "i", v)])
for v in -2, -1, 1, 50, 100, 101:
    launch_ex("carveout %d" % v, [attribute(14, "i", v)])
for v in 1, 2:
    launch_ex("nvlink scheduling %d" % v, [attribute(16, "I", v)])
launch_ex("cooperative, and not", [attribute(2, "i", 1), attribute(2, "i", 0)])
launch_ex("cooperative, and not, large", [attribute(2, "i", 1), attribute(2, "i", 0)], grid=(1 << 20, 1, 1))
launch_ex("cooperative and serialization", [attribute(2, "i", 1), attribute(6, "i", 1)])
launch_ex("cooperative and cluster 2", [attribute(2, "i", 1), attribute(4, "III", 2, 1, 1)], grid=(2, 1, 1))
for id in -1, 24, 63, 100, 1 << 20:
    row("attributes: %d alone" % id, cuda.cuLaunchKernelEx(config([attribute(id)]), noop, None, None))
row("attributes: NULL, 1", cuda.cuLaunchKernelEx(config([], array=False, n=1), noop, None, None))
row("attributes: unknown behind another", cuda.cuLaunchKernelEx(config([attribute(2, "i", 1), attribute(100)]), noop, None, None))
row("attributes: unknown, grid 0", cuda.cuLaunchKernelEx(config([attribute(100)], grid=(0, 1, 1)), noop, None, None))
row("attributes: grid 0", cuda.cuLaunchKernelEx(config([], grid=(0, 1, 1)), noop, None, None))
row("attributes: block 2048", cuda.cuLaunchKernelEx(config([], block=(2048, 1, 1)), noop, None, None))
row("attributes: no configuration", cuda.cuLaunchKernelEx(None, noop, None, None))
row("attributes: no kernel", cuda.cuLaunchKernelEx(config([]), None, None, None))
ok(cuda.cuCtxSynchronize())
