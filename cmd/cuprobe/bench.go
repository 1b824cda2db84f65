package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

func benchCommand() command {
	return command{
		name:  "bench",
		short: "measure copies in both directions and between devices, and the latencies of calls",
		long: `It measures copies to the device (h2d), to the host (d2h), and both at the same time.
The memory of the host is pinned, or pageable, which is ordinary memory of the program.
Between each two devices it measures copies both ways, one way at a time (0>1) and at
the same time (0<>1). Without -device and -devices it uses the first two devices.
A size such as 4K is 4KiB.

Pinned copies and copies between devices are measured by events. A sample has several
copies in a row, as many as take 0.2 ms, at most 64, and a kernel holds the stream until
they are enqueued. So the time of one copy is that of a copy among others, without the
host's time. Pageable copies and calls are measured by the host's clock, one at a time;
both at the same time are made by two goroutines, whose start is part of the time.
GB/s counts 10^9 bytes for a GB, and adds both directions. Latencies: "launch", "record"
and "query" are the host's time for one call, the mean of 32 calls in a row. "launch to
completion" ends when a query says that the kernel has completed. "record to Wait" ends
when Event.Wait returns.

Below the tables are warnings about a busy GPU, and hints about inaccurate results. On
a terminal, standard error shows the progress. An interrupt ends the measurement: the
results so far are printed, and the exit status is 1.

With -driver soft the time is virtual, and the results are a model's: they are the same
in each run, and a row has ten samples. Calls and pageable copies take no time there.

Fields with -json: driver, devices (see cuprobe -h), virtualTime, measurements (name,
kind: copy or call, device, peer: the other device, memory: pinned, pageable or device,
direction: h2d, d2h, both or peer, bytes: of all copies that one time is for, batch: how
many of them are a sample, clock: events or host, time: samples, minNS, medianNS, p95NS,
maxNS, madNS, distribution of a call's times: percent, timeNS, bytesPerSecond: of the
median, notHeld, hints: code, text), warnings (device, code: busy or memory-in-use,
text), skipped (name, reason), interrupted, and error if there was one.`,
		define: func(fs *flag.FlagSet) func(*invocation) error {
			b := &bench{budget: 250 * time.Millisecond, sizes: []uint64{4 << 10, 1 << 20, 64 << 20}}
			b.define(fs)
			return b.run
		},
	}
}

// define defines the flags.
func (b *bench) define(fs *flag.FlagSet) {
	fs.Func("devices", "use the devices of the `LIST`, such as 0,1 or all (default 0,1)", func(s string) (err error) {
		if b.all = s == "all"; b.all {
			return nil
		}
		b.ordinals, err = listOf(parseOrdinal)(s)
		for i, n := range b.ordinals {
			if slices.Contains(b.ordinals[:i], n) {
				return fmt.Errorf("device %d is in the list twice: name each device once", n)
			}
		}
		return err
	})
	var sizes []string
	for _, n := range b.sizes {
		sizes = append(sizes, size(n))
	}
	fs.Func("size", "copy each size of `LIST` (default "+strings.Join(sizes, ",")+")", set(&b.sizes, listOf(parseSize)))
	fs.Func("only", "measure only the parts of the `LIST`: "+strings.Join(benchParts(), ", "),
		set(&b.parts, listOf(parsePart)))
	fs.Func("for", "measure each row for the `DURATION` (default "+b.budget.String()+")",
		set(&b.budget, durationWithin(time.Millisecond, time.Minute, "250ms")))
	fs.Func("n", "take `N` samples of each row, however long they take", set(&b.samples, countOf("samples")))
	fs.Func("batch", "measure `N` copies together (default as many as take 0.2ms, at most 64)", func(s string) error {
		var err error
		if b.batch, err = countOf("copies")(s); err != nil || b.batch > maxCopies {
			return fmt.Errorf("the number of copies is a whole number from 1 to %d", maxCopies)
		}
		return nil
	})
}

func parseOrdinal(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is no ordinal of a device: name ordinals, counted from 0, such as 0,1, or all", s)
	}
	return int(n), nil
}

func parsePart(s string) (string, error) {
	if !slices.Contains(benchParts(), s) {
		return "", fmt.Errorf("there is no part %q: name some of %s", s, strings.Join(benchParts(), ", "))
	}
	return s, nil
}

// complete sets the options that the user has not set.
func (b *bench) complete() {
	s := &b.sampling
	*s = sampling{warmUp: 3, atLeast: 10, atMost: 1000, budget: b.budget, watch: b.watch}
	if b.sim != nil {
		s.atMost = s.atLeast // in a model all samples are the same
	}
	if b.samples > 0 {
		s.atLeast, s.atMost = b.samples, b.samples
	}
}

// run makes all measurements. Without -json it prints each row at once.
func (b *bench) run(c *invocation) error {
	if err := b.check(c, "bench"); err != nil {
		return err
	}
	b.progress = newProgress(c.err)
	b.waiter = &waiter{after: c.after, messages: &b.progress}
	devs, err := b.prepare(c)
	if err != nil {
		return err
	}
	return c.measured(b.report, func(ctx context.Context, w io.Writer) error {
		b.report.head(w)
		return b.measure(ctx, devs, w)
	})
}

// check checks the flags of a command that measures.
func (b *bench) check(c *invocation, command string) error {
	if c.device != anyDevice && (b.all || b.ordinals != nil) {
		return usage("-device and -devices name devices twice: use one of them; see cuprobe %s -h", command)
	}
	return nil
}

// prepare opens the driver, and begins the report. It returns the devices to measure. The software
// driver gets a clock of its own, which virtual time needs.
func (b *bench) prepare(c *invocation) ([]*cu.Device, error) {
	if c.software() {
		if err := c.simulate(cusim.VirtualTime(), modelSpin()); err != nil {
			return nil, err
		}
		b.sim = c.sim
	}
	b.complete()
	b.report = newBenchReport(b.sim != nil)
	drv, err := c.open()
	if err != nil {
		return nil, err
	}
	if b.report.Driver, err = c.driverInfo(drv); err != nil {
		return nil, err
	}
	devs, err := b.devices(drv, c.device)
	if err != nil {
		return nil, err
	}
	for _, dev := range devs {
		info, err := newDeviceInfo(dev)
		if err != nil {
			return nil, err
		}
		b.report.Devices = append(b.report.Devices, info)
	}
	return devs, nil
}

// devices returns the devices that the user has chosen, without the faulty ones. one is the value of
// -device.
func (b *bench) devices(drv *cu.Driver, one int) ([]*cu.Device, error) {
	ordinals := b.ordinals
	if one != anyDevice {
		ordinals = []int{one}
	}
	usable := func(devs []*cu.Device) []*cu.Device {
		return slices.DeleteFunc(devs, func(d *cu.Device) bool { return slices.Contains(b.faulty, d.Ordinal()) })
	}
	if ordinals == nil {
		devs, err := drv.Devices()
		if devs = usable(devs); !b.all {
			devs = devs[:min(len(devs), 2)]
		}
		return devs, err
	}
	var devs []*cu.Device
	for _, n := range ordinals {
		dev, err := drv.Device(n)
		if err != nil {
			return nil, err
		}
		devs = append(devs, dev)
	}
	return usable(devs), nil
}
