# A program in Python that uses libnvidia-ml.so.1 as programs use NVIDIA's: nvml.py LIBRARY.
import ctypes as c
import sys

nvml = c.CDLL(sys.argv[1])


def ok(result):
    if result:
        nvml.nvmlErrorString.restype = c.c_char_p
        raise RuntimeError(f"{result}: {nvml.nvmlErrorString(result).decode()}")


class Memory(c.Structure):
    _fields_ = [("total", c.c_uint64), ("free", c.c_uint64), ("used", c.c_uint64)]


class FieldValue(c.Structure):
    _fields_ = [("field", c.c_uint), ("scope", c.c_uint), ("timestamp", c.c_longlong), ("latency", c.c_longlong),
                ("type", c.c_uint), ("result", c.c_uint), ("value", c.c_uint64)]


count, device, text, memory = c.c_uint(), c.c_void_p(), c.create_string_buffer(96), Memory()
assert nvml.nvmlDeviceGetCount_v2(c.byref(count)) == 1  # NVML_ERROR_UNINITIALIZED
ok(nvml.nvmlInit_v2())
ok(nvml.nvmlDeviceGetCount_v2(c.byref(count)))
assert count.value == 3, count.value
for i in range(count.value):
    ok(nvml.nvmlDeviceGetHandleByIndex_v2(i, c.byref(device)))
    ok(nvml.nvmlDeviceGetName(device, text, len(text)))
    ok(nvml.nvmlDeviceGetMemoryInfo(device, c.byref(memory)))
    assert b"H200" in text.value and memory.used + memory.free <= memory.total
values = (FieldValue * 2)()
values[0].field, values[1].field = 82, 999  # NVML_FI_DEV_MEMORY_TEMP, and one that there is not
ok(nvml.nvmlDeviceGetFieldValues(device, 2, values))
assert values[0].result == 0 and values[1].result != 0, (values[0].result, values[1].result)
temperature = c.c_uint()
ok(nvml.nvmlDeviceGetTemperature(device, 0, c.byref(temperature)))
assert 20 < temperature.value < 100, temperature.value
# The structs of older functions are shorter. What lies behind them is not touched.
for name, size in ("nvmlDeviceGetPciInfo", 52), ("nvmlDeviceGetPciInfo_v2", 52), ("nvmlDeviceGetPciInfo_v3", 68):
    place = (c.c_ubyte * 72)(*[0xA5] * 72)
    ok(getattr(nvml, name)(device, c.byref(place)))
    assert bytes(place[:5]) == b"0000:" and place[size - 1] in (0, 0xA5), (name, bytes(place))
    assert bytes(place[size:]) == b"\xa5" * (72 - size), (name, bytes(place))
ok(nvml.nvmlShutdown())
