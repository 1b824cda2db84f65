"""As much of torch as costs.py uses."""

import contextlib
import types

import fake

__version__ = "2.99"
float32 = "float32"


class Tensor:
    def pin_memory(self):
        return self

    def copy_(self, source, non_blocking):
        fake.asked_to_fail("copy_")
        assert non_blocking and isinstance(source, Tensor)
        cuda.current.fake.enqueue(500)

    def zero_(self):
        cuda.current.fake.enqueue(500)

    def add_(self, number):
        if cuda.captures is not None:
            assert "add_" in fake.used, "a kernel is loaded during a capture"
            cuda.captures.kernels += 1
            return
        fake.may_wait_for_all("add_")
        cuda.current.fake.enqueue(500)


def empty(n, dtype, device):
    assert (n, dtype, device) == (1024, float32, "cuda")
    fake.may_wait_for_all("torch.empty")
    return Tensor()


def zeros(n, dtype=float32, device="cpu"):
    return Tensor()


class Stream:
    def __init__(self):
        self.fake = fake.Stream()
        self.cuda_stream = self.fake.number

    def query(self):
        return not self.fake.held()

    def synchronize(self):
        self.fake.sync()

    def wait_event(self, event):
        assert event.fake.stream
        self.fake.enqueue(500)

    def wait_stream(self, other):
        fake.asked_to_fail("wait_stream")
        assert other is not self
        self.fake.enqueue(500)
        other.fake.enqueue(500)


class Event:
    def __init__(self, enable_timing=False):
        self.fake = fake.Event(enable_timing)

    def record(self, stream):
        self.fake.record(stream.fake)

    def query(self):
        return self.fake.complete()

    def elapsed_time(self, stop):
        return stop.fake.milliseconds_since(self.fake)


if fake.FAULT == "no elapsed_time":
    del Event.elapsed_time

the_default_stream = Stream()


@contextlib.contextmanager
def within(stream):
    cuda.current = stream
    yield
    cuda.current = None


class CUDAGraph:
    def __init__(self):
        self.kernels = 0

    def replay(self):
        fake.may_wait_for_all("the first launch of a graph")
        for _ in range(self.kernels):
            cuda.current.fake.enqueue(500)


@contextlib.contextmanager
def capture(graph, stream):
    cuda.captures = graph
    yield
    cuda.captures = None


def launch(args, stream):
    fake.may_wait_for_all("a launch")
    to, one, again, three = args
    assert isinstance(to, Tensor) and again is to and (one, three) == (1, 3)
    stream.fake.enqueue(500)


def load_module(ptx, names):
    assert names == ["args4"] and b".entry args4(" in ptx
    return {"args4": launch}


cuda = types.SimpleNamespace(
    Stream=Stream,
    Event=Event,
    current=None,
    captures=None,
    stream=within,
    graph=capture,
    CUDAGraph=CUDAGraph,
    _utils=types.SimpleNamespace(_cuda_load_module=load_module),
    default_stream=lambda: the_default_stream,
    is_available=lambda: fake.FAULT != "no GPU",
    set_device=lambda n: None,
)
