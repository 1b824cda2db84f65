#!/usr/bin/env python3
"""Measures what events and streams cost in other libraries for CUDA:

	costs.py torch|cuda.core [--rounds N] [--ms M]

It prints lines "peer, operation, round, nanoseconds a call", with tabs between,
like cu/costs_test.go, whose operations they are; tools/plot puts them side
by side. What is measured is the statement that a program writes, in a loop of
timeit, which collects no garbage meanwhile; the row "empty loop" says what that
loop costs, and it is taken off nowhere. As in Go, a stream is held up until the
last rows, so that there is something to find pending.

Notes go to the standard error, beginning with the versions. What this version
of the library lacks is left out, and a note says so. The exit status is 3 if the
library is not installed, and 1 if a measurement failed.
"""

import argparse
import contextlib
import ctypes
import importlib
import importlib.metadata
import os
import platform
import sys
import time
import timeit

# In the order, and with the names, of cu/costs_test.go.
OPERATIONS = (
    "query a pending event",
    "query a completed event",
    "query a busy stream",
    "query an idle stream",
    "record, untimed",
    "record, timed",
    "record on the default stream",
    "wait for an event",
    "wait for a stream",
    "elapsed time",
    "create, destroy",
    "create, first record, destroy",
    "an event for a moment",
    "an event for a moment, recorded",
    "launch an empty kernel",
    "copy 4 KiB from pinned memory",
    "launch a kernel with 4 arguments",
    "set 4 KiB",
    "launch a graph of 10 kernels",
    "empty loop",
)

# What is measured while no stream is held, as in Go: it may need a queue of the GPU that it shares.
BESIDE_NOTHING = ("launch a kernel with 4 arguments", "set 4 KiB", "launch a graph of 10 kernels")

# What needs memory or code, and the method that makes it.
PREPARED = {
    "launch an empty kernel": "launch",
    "copy 4 KiB from pinned memory": "copy",
    "launch a kernel with 4 arguments": "launch_with_arguments",
    "set 4 KiB": "memory",
    "launch a graph of 10 kernels": "graph",
}

# cu lends such events out of a pool. Others have none: they create and destroy.
SAME = {
    "an event for a moment": "create, destroy",
    "an event for a moment, recorded": "create, first record, destroy",
}

COPY_SIZE = 4096
KERNELS = 10  # of the graph

EMPTY_PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry empty()
{
	ret;
}
"""


ARGUMENTS_PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry args4(.param .u64 p0, .param .u32 p1, .param .u64 p2, .param .u32 p3)
{
	ret;
}
"""


class NotInstalled(Exception):
    """The library is not there."""


class Failure(Exception):
    """Something is not as it has to be for a measurement."""


def note(text):
    print(text, file=sys.stderr, flush=True)


class Gate:
    """A word of host memory that streams wait for, as in Go's measurement."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        host, self.device = ctypes.c_void_p(), ctypes.c_uint64()
        portable_and_mapped = ctypes.c_uint(1 | 2)
        self.call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(4096), portable_and_mapped)
        self.call("cuMemHostGetDevicePointer_v2", ctypes.byref(self.device), host, ctypes.c_uint(0))
        self.word = ctypes.c_uint32.from_address(host.value)
        self.word.value = 0

    def call(self, name, *args):
        result = getattr(self.driver, name)(*args)
        if result != 0:
            raise Failure(f"{name}: CUresult {result}")

    def hold(self, stream):
        """Lets the stream with this handle go no further until the gate opens."""
        name = "cuStreamWaitValue32_v2"
        if not hasattr(self.driver, name):  # before CUDA 11.7
            name = "cuStreamWaitValue32"
        at_least = ctypes.c_uint(0)
        self.call(name, ctypes.c_void_p(stream), self.device, ctypes.c_uint32(1), at_least)

    def open(self):
        self.word.value = 1


class Torch:
    """torch.cuda.Event and torch.cuda.Stream."""

    def __init__(self):
        try:
            self.torch = importlib.import_module("torch")
        except ModuleNotFoundError as e:
            if e.name != "torch":
                raise
            raise NotInstalled("torch is not installed") from e
        self.version = f"torch {self.torch.__version__}"
        self.cuda = self.torch.cuda
        if not self.cuda.is_available():
            raise Failure("torch sees no GPU")
        self.cuda.set_device(0)
        self.torch.zeros(1, device="cuda")  # makes the context

    def stream(self):
        return self.cuda.Stream()

    def default_stream(self):
        return self.cuda.default_stream()

    def handle(self, stream):
        return stream.cuda_stream

    def event(self, timed):
        return self.cuda.Event(enable_timing=timed)

    def record(self, event, stream):
        event.record(stream)

    def done(self, event):
        return event.query()

    def sync(self, stream):
        stream.synchronize()

    # Without "create, destroy", as an event is created by its first record. There is no
    # public launch but of whole operators: the launch with arguments is torch's own helper for
    # kernels that it compiles, and "set" is an operator that launches a kernel.
    statements = {
        "query a pending event": "event.query()",
        "query a completed event": "event.query()",
        "query a busy stream": "stream.query()",
        "query an idle stream": "stream.query()",
        "record, untimed": "event.record(stream)",
        "record, timed": "event.record(stream)",
        "record on the default stream": "event.record(stream)",
        "wait for an event": "stream.wait_event(event)",
        "wait for a stream": "stream.wait_stream(other)",
        "elapsed time": "start.elapsed_time(stop)",
        "create, first record, destroy": "event = create(); event.record(stream)",  # and the one before is gone
        "copy 4 KiB from pinned memory": "to.copy_(source, non_blocking=True)",
        "launch a kernel with 4 arguments": "kernel(args=[to, 1, to, 3], stream=stream)",
        "set 4 KiB": "to.zero_()",
        "launch a graph of 10 kernels": "graph.replay()",
    }

    def create(self):
        return {"create": self.cuda.Event}

    def memory(self, stream):
        return {"to": self.torch.empty(COPY_SIZE // 4, dtype=self.torch.float32, device="cuda")}

    def copy(self, stream):
        source = self.torch.zeros(COPY_SIZE // 4, dtype=self.torch.float32).pin_memory()
        return self.memory(stream) | {"source": source}

    def launch_with_arguments(self, stream):
        kernels = self.cuda._utils._cuda_load_module(ARGUMENTS_PTX, ["args4"])
        return self.memory(stream) | {"kernel": kernels["args4"]}

    def graph(self, stream):
        to = self.memory(stream)["to"]
        with self.cuda.stream(stream):
            to.add_(1)  # loads the kernel
        stream.synchronize()
        graph = self.cuda.CUDAGraph()
        with self.cuda.graph(graph, stream=stream):
            for _ in range(KERNELS):
                to.add_(1)
        return {"graph": graph, "to": to}

    def current(self, stream):
        return self.cuda.stream(stream)


class CUDACore:
    """NVIDIA's cuda.core, which was cuda.core.experimental before 0.5."""

    def __init__(self):
        self.core = self.find()
        try:
            version = importlib.metadata.version("cuda-core")
        except importlib.metadata.PackageNotFoundError:
            version = getattr(self.core, "__version__", "of an unknown version")
        self.version = f"cuda.core {version}"
        self.device = self.core.Device(0)
        self.device.set_current()

    @staticmethod
    def find():
        names = ("cuda.core", "cuda.core.experimental")
        for name in names:
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError as e:
                if e.name not in ("cuda", *names):
                    raise
                continue
            if hasattr(module, "Device"):
                return module
        raise NotInstalled("cuda.core is not installed")

    def stream(self):
        return self.device.create_stream(options=self.core.StreamOptions(nonblocking=True))

    def default_stream(self):
        return self.device.default_stream

    def handle(self, stream):
        return int(stream.handle)

    def event(self, timed):
        for name in ("timing_enabled", "enable_timing"):  # the newer name first
            try:
                options = self.core.EventOptions(**{name: timed})
            except TypeError:
                continue
            return self.device.create_event(options)
        raise AttributeError("EventOptions has neither timing_enabled nor enable_timing")

    def record(self, event, stream):
        stream.record(event)

    def done(self, event):
        return event.is_done

    def sync(self, stream):
        stream.sync()

    # Without "query a stream", as a stream cannot be asked.
    statements = {
        "query a pending event": "event.is_done",
        "query a completed event": "event.is_done",
        "record, untimed": "stream.record(event)",
        "record, timed": "stream.record(event)",
        "record on the default stream": "stream.record(event)",
        "wait for an event": "stream.wait(event)",
        "wait for a stream": "stream.wait(other)",
        "elapsed time": "stop - start",
        "create, destroy": "create().close()",
        "create, first record, destroy": "event = create(); stream.record(event); event.close()",
        "launch an empty kernel": "launch(stream, config, kernel)",
        "copy 4 KiB from pinned memory": "to.copy_from(source, stream=stream)",
        "launch a kernel with 4 arguments": "launch(stream, config, kernel, to, one, to, three)",
        "set 4 KiB": "to.fill(1, stream=stream)",
        "launch a graph of 10 kernels": "graph.launch(stream)",
    }

    def create(self):
        return {"create": self.device.create_event}  # untimed unless told otherwise

    def load(self, ptx, name):
        kernel = self.core.ObjectCode.from_ptx(ptx).get_kernel(name)
        return {"launch": self.core.launch, "config": self.core.LaunchConfig(grid=1, block=1), "kernel": kernel}

    def launch(self, stream):
        return self.load(EMPTY_PTX, "empty")

    def launch_with_arguments(self, stream):
        numbers = {"one": ctypes.c_uint32(1), "three": ctypes.c_uint32(3)}
        return self.load(ARGUMENTS_PTX, "args4") | self.memory(stream) | numbers

    def memory(self, stream):
        return {"to": self.device.allocate(COPY_SIZE, stream=stream)}

    def copy(self, stream):
        source = self.core.LegacyPinnedMemoryResource().allocate(COPY_SIZE, stream=stream)
        return self.memory(stream) | {"source": source}

    def graph(self, stream):
        names = self.launch(stream)
        names["launch"](stream, names["config"], names["kernel"])  # loads the kernel
        stream.sync()
        builder = self.device.create_graph_builder().begin_building()
        for _ in range(KERNELS):
            names["launch"](builder, names["config"], names["kernel"])
        return {"graph": builder.end_building().complete(), "kernel": names["kernel"]}

    def current(self, stream):
        return contextlib.nullcontext()


PEERS = {"torch": Torch, "cuda.core": CUDACore}


class Row:
    """One operation: the names in its statement, and how it is measured.

    No more than in_a_row calls are made before catch_up, which is not timed, lets
    the GPU do its part: a stream takes about a thousand kernels or copies, and
    then holds its caller up. The numbers are those of the Go program. still is
    asked around each round whether there is what is to be measured.
    """

    def __init__(self, names, in_a_row=1000, catch_up=None, still=None, current=None):
        self.names, self.in_a_row, self.current = names, in_a_row, current
        self.catch_up = catch_up or (lambda: None)
        self.still = still or (lambda: True)

    def timer(self, statement):
        # The names become variables of the loop's function: the fastest there are.
        setup = "; ".join(f"{name} = names[{name!r}]" for name in self.names) or "pass"
        return timeit.Timer(statement, setup, time.perf_counter_ns, {"names": self.names})

    def round(self, timer, least):
        """Returns the nanoseconds a call of at least so many in all."""
        spent = calls = 0
        self.check()
        while spent < least:
            spent += timer.timeit(self.in_a_row)
            calls += self.in_a_row
            self.catch_up()
        self.check()
        return spent / calls

    def check(self):
        if not self.still():
            raise Failure("what is measured is not pending, or not complete, as it has to be")


class Bench:
    """A peer with a held stream, and a way to make each row."""

    def __init__(self, peer, gate):
        self.peer = peer
        self.keep = []
        self.prepared = self.prepare()
        self.held = peer.stream()
        gate.hold(peer.handle(self.held))
        self.pending = self.event(self.held)
        self.stream, self.other = self.free_stream(), self.free_stream()
        self.complete = self.event(self.stream)
        self.sync()

    def prepare(self):
        """Returns what the operations need that need memory or code, or the error.

        Both may wait for all streams, and so there must be no held one yet; code
        may be loaded only when it is launched.
        """
        p, stream, prepared = self.peer, self.peer.stream(), {}
        for operation, make in PREPARED.items():
            if operation not in p.statements:
                continue
            try:
                names = getattr(p, make)(stream)
                with p.current(stream):
                    Row(names | {"stream": stream}).timer(p.statements[operation]).timeit(1)
                p.sync(stream)
                prepared[operation] = names
            except Exception as e:  # which concerns this row only
                prepared[operation] = e
        return prepared

    def event(self, stream, timed=False):
        e = self.peer.event(timed)
        self.peer.record(e, stream)
        return e

    def sync(self):
        self.peer.sync(self.stream)

    def sync_both(self):
        self.peer.sync(self.other)
        self.peer.sync(self.stream)

    def progresses(self, stream):
        """Says whether the stream goes on beside the held one."""
        e, deadline = self.event(stream), time.monotonic() + 0.25
        while not self.peer.done(e):
            if time.monotonic() > deadline:
                return False
        return True

    def free_stream(self):
        for _ in range(8):
            s = self.peer.stream()
            if self.progresses(s):
                return s
            self.keep.append(s)
        raise Failure("a held stream holds up every other: CUDA_DEVICE_MAX_CONNECTIONS should be 32")

    def row(self, operation):
        """Returns what is measured, for one of the operations."""
        p, s = self.peer, self.stream
        many, some, few = 20000, 2000, 250
        match operation:
            case "query a pending event":
                return Row({"event": self.pending}, still=lambda: not p.done(self.pending))
            case "query a completed event":
                return Row({"event": self.complete}, still=lambda: p.done(self.complete))
            case "query a busy stream":
                return Row({"stream": self.held}, still=lambda: not p.done(self.pending))
            case "query an idle stream":
                return Row({"stream": s})
            case "record, untimed":
                return Row({"event": self.event(s), "stream": s}, many, self.sync)
            case "record, timed":
                return Row({"event": self.event(s, timed=True), "stream": s}, some, self.sync)
            case "record on the default stream":
                default = p.default_stream()
                if not self.progresses(default):
                    raise Failure("the held stream holds up the default stream")
                return Row({"event": self.event(default), "stream": default}, few, lambda: p.sync(default))
            case "wait for an event":
                return Row({"event": self.complete, "stream": s}, few, self.sync)
            case "wait for a stream":
                return Row({"other": self.other, "stream": s}, few, self.sync_both)
            case "elapsed time":
                names = {"start": self.event(s, timed=True), "stop": self.event(s, timed=True)}
                self.sync()
                return Row(names)
            case "create, destroy":
                return Row(p.create())
            case "create, first record, destroy":
                return Row(p.create() | {"stream": s}, few, self.sync)
            case "empty loop":
                return Row({})
            case _ if operation in PREPARED:
                names = self.prepared[operation]
                if isinstance(names, Exception):
                    raise names
                if operation == "launch a graph of 10 kernels":
                    few = 50
                return Row(names | {"stream": s}, few, self.sync, current=p.current(s))
        raise Failure("nothing is known of this operation")

    def measure(self, operation, rounds, least):
        """Returns the nanoseconds a call of each round."""
        statement = "pass" if operation == "empty loop" else self.peer.statements[operation]
        row = self.row(operation)
        timer = row.timer(statement)
        with row.current or contextlib.nullcontext():
            row.round(timer, least)  # warms up
            return [row.round(timer, least) for _ in range(rounds)]


def run(name, rounds, least):
    """Measures a peer, and returns the exit status."""
    try:
        peer = PEERS[name]()
    except NotInstalled as e:
        note(e)
        return 3
    note(f"{peer.version}, Python {platform.python_version()}")
    status = 0
    gate = Gate()
    try:
        bench = Bench(peer, gate)
        for operation in OPERATIONS:
            does = SAME.get(operation, operation)
            if does not in peer.statements and does != "empty loop":
                continue
            if operation in BESIDE_NOTHING:
                gate.open()
                peer.sync(bench.held)
            try:
                results = bench.measure(does, rounds, least)
            except (AttributeError, ImportError, TypeError) as e:
                note(f"{name}: {operation}: left out, as this version is different: {type(e).__name__}: {e}")
                continue
            except Exception as e:  # of the library's own: the other rows are worth having
                note(f"{name}: {operation}: failed: {type(e).__name__}: {e}")
                status = 1
                continue
            for i, ns in enumerate(results, 1):
                print(f"{name}\t{operation}\t{i}\t{ns:.2f}", flush=i == rounds)
    finally:
        gate.open()  # else the process cannot end
    peer.sync(bench.held)
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of each measurement (default 15)")
    parser.add_argument("--ms", type=float, default=2, help="how long a round takes at least (default 2 ms)")
    args = parser.parse_args()
    # Both are read when the library makes its context. Streams that share one of
    # the GPU's queues wait for each other.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    os.environ.pop("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", None)
    try:
        return run(args.peer, args.rounds, args.ms * 1e6)
    except Failure as e:
        note(f"{args.peer}: {e}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
