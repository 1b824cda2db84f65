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


cuda = types.SimpleNamespace(
    Stream=Stream,
    Event=Event,
    current=None,
    stream=within,
    default_stream=lambda: the_default_stream,
    is_available=lambda: fake.FAULT != "no GPU",
    set_device=lambda n: None,
)
