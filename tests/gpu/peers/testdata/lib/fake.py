"""A GPU that does everything at once, but for what waits on a stream that is
held by a word of memory: what the stubs of libraries need to run costs.py. The
environment variable FAULT makes it misbehave, and STUCK says how many streams
share the queue of the one that is held."""

import ctypes
import os

FAULT = os.environ.get("FAULT", "")
streams = {}
buffers = []


class Driver:
    """The functions of libcuda.so.1 that costs.py calls through ctypes."""

    def cuMemHostAlloc(self, host, size, flags):
        if FAULT == "no memory":
            return 2
        buffers.append(ctypes.create_string_buffer(b"\xff" * size.value, size.value))
        host._obj.value = ctypes.addressof(buffers[-1])
        return 0

    def cuMemHostGetDevicePointer_v2(self, device, host, flags):
        device._obj.value = host.value + 1  # another address, as it may be
        return 0

    def cuStreamWaitValue32_v2(self, stream, device, value, flags):
        assert (value.value, flags.value) == (1, 0)
        Stream.holder = streams[stream.value].word = ctypes.c_uint32.from_address(device.value - 1)
        return 0


def load(name):
    assert name == "libcuda.so.1", name
    return Driver()


ctypes.CDLL = load


class Stream:
    holder = None  # the word that holds a stream
    stuck = int(os.environ.get("STUCK", "0"))

    def __init__(self):
        self.number = len(streams) + 1
        self.word = None
        self.queued = 0
        streams[self.number] = self
        if Stream.holder is not None and Stream.stuck > 0:
            Stream.stuck -= 1
            self.word = Stream.holder

    def held(self):
        return self.word is not None and self.word.value < 1 and FAULT != "gate ignored"

    def enqueue(self, room):
        """Fails if the stream has no room for more, as nobody lets it catch up."""
        self.queued += 1
        assert self.queued <= room, "the queue is full"

    def sync(self):
        assert not self.held(), "this would hang"
        self.queued = 0


class Event:
    def __init__(self, timed):
        self.timed, self.stream, self.held_up = timed, None, False

    def record(self, stream):
        stream.enqueue(25_000)
        self.stream, self.held_up = stream, stream.held()

    def complete(self):
        return not (self.held_up and self.stream.held())

    def milliseconds_since(self, start):
        assert start.timed and self.timed, "not timed"
        assert start.stream and self.stream, "not recorded"
        assert start.complete() and self.complete(), "not complete"
        return 0.5


used = set()


def may_wait_for_all(what):
    """Fails if the first use of something comes while a stream is held."""
    if what not in used:
        used.add(what)
        assert not any(s.held() for s in streams.values()), f"{what} waits for a held stream"


def asked_to_fail(operation):
    if FAULT == operation:
        raise RuntimeError("CUDA error: injected")
