package sim

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

const (
	geq = driver.CU_STREAM_WAIT_VALUE_GEQ
	eq  = driver.CU_STREAM_WAIT_VALUE_EQ
	and = driver.CU_STREAM_WAIT_VALUE_AND
	nor = driver.CU_STREAM_WAIT_VALUE_NOR
)

// TestPasses checks the conditions of waits for values.
func TestPasses(t *testing.T) {
	for _, tt := range []struct {
		have, want   uint64
		flags        uint32
		bits32, both bool // the results with 32 and with 64 bits
	}{
		{5, 5, geq, true, true}, {6, 5, geq, true, true}, {4, 5, geq, false, false},
		{1, 0xffff_ffff, geq, true, false}, // wrapped around
		{0xffff_ffff, 1, geq, false, true},
		{0, 0x8000_0000, geq, false, false}, {1, 0x8000_0000, geq, false, false},
		{5, 5, eq, true, true}, {6, 5, eq, false, false},
		{0b110, 0b010, and, true, true}, {0b100, 0b010, and, false, false}, {0, 0, and, false, false},
		{0, 0, nor, true, true}, {0xffff_ffff, 0, nor, false, true}, {0xffff_fff0, 0xf, nor, false, true}, {0xffff_fff0, 0x7, nor, true, true},
	} {
		if got := passes32(uint32(tt.have), uint32(tt.want), tt.flags); got != tt.bits32 {
			t.Errorf("32 bits: %#x, %#x, flags %d: %v", tt.have, tt.want, tt.flags, got)
		}
		if got := passes64(tt.have, tt.want, tt.flags); got != tt.both {
			t.Errorf("64 bits: %#x, %#x, flags %d: %v", tt.have, tt.want, tt.flags, got)
		}
	}
	if passes64(1<<63|6, 6, geq) || !passes64(1, 1<<64-1, geq) || passes64(1<<64-1, 0, nor) {
		t.Error("64 bits: numbers that have wrapped around")
	}
}

// TestWaitValue makes a stream wait for a word that another stream writes.
func TestWaitValue(t *testing.T) {
	r := newLab(t, VirtualTime())
	p := r.alloc("\x00\x00\x00\x00\x00\x00\x00\x00")
	_, host := r.pinned("\x00\x00\x00\x00\x00\x00\x00\x00")
	for name, p := range map[string]driver.DevicePtr{"device": p, "host": driver.DevicePtr(host)} {
		t.Run(name, func(t *testing.T) {
			s, w := r.newStream(), r.newStream()
			r.must(r.StreamWaitValue32(r.th, s, p, 3, geq))
			r.must(r.StreamWaitValue64(r.th, s, p, 7, eq))
			for _, step := range []struct {
				value uint32
				want  driver.Result
			}{{0, driver.ResultNotReady}, {2, driver.ResultNotReady}, {7, ok}} {
				r.must(r.StreamWriteValue32(r.th, w, p, step.value, 0))
				r.want("query", step.want, r.StreamQuery(r.th, s))
			}
			r.must(r.StreamWriteValue64(r.th, w, p, 1<<40, 0))
			if got := r.read(p, 8); got != "\x00\x00\x00\x00\x00\x01\x00\x00" {
				t.Errorf("the word is %q", got)
			}
		})
	}
}

// TestWaitValueWakes makes a call wait for a stream that waits for a word. Another stream or the
// program writes the word.
func TestWaitValueWakes(t *testing.T) {
	r := newLab(t, VirtualTime())
	s, w, p := r.newStream(), r.newStream(), r.alloc("\x00\x00\x00\x00")
	_, host := r.pinned("\x00\x00\x00\x00")
	for name, tt := range map[string]struct {
		p     driver.DevicePtr
		write func()
	}{
		"a stream":    {p, func() { r.must(r.StreamWriteValue32(r.th, w, p, 1, 0)) }},
		"the program": {driver.DevicePtr(host), func() { store32(foreignBytes(host, 4), 1) }},
	} {
		t.Run(name, func(t *testing.T) {
			r.must(r.StreamWaitValue32(r.th, s, tt.p, 1, eq))
			done := make(chan driver.Result)
			th := r.otherThread()
			go func() { done <- r.StreamSynchronize(th, s) }()
			r.blocked(1)
			tt.write()
			r.want("synchronize", ok, <-done)
		})
	}
}

// TestWaitValueOfProgram makes a stream wait for a word that the program writes, and the program
// for a word that the stream writes, without calls of the driver.
func TestWaitValueOfProgram(t *testing.T) {
	r := newLab(t)
	s := r.newStream()
	b, address := r.pinned("\x00\x00\x00\x00\x00\x00\x00\x00")
	in, out := (*atomic.Uint32)(unsafe.Pointer(&b[0])), (*atomic.Uint32)(unsafe.Pointer(&b[4]))
	p := driver.DevicePtr(address)
	for i := range uint32(20) {
		r.must(r.StreamWaitValue32(r.th, s, p, i+1, eq))
		r.must(r.StreamWriteValue32(r.th, s, p+4, i+1, 0))
		in.Store(i + 1)
		for out.Load() != i+1 {
			time.Sleep(10 * time.Microsecond)
		}
	}
	r.must(r.StreamSynchronize(r.th, s))
}

// TestValueOfRegistered makes streams write and wait for a word in registered memory.
func TestValueOfRegistered(t *testing.T) {
	r := newLab(t)
	c := mem.New(new(mem.Budget), mem.Page)
	defer c.Release()
	addr, b := c.Place(), c.Contiguous(0, mem.Page)
	word := (*atomic.Uint64)(unsafe.Pointer(&b[0]))
	word.Store(1)
	r.must(r.MemHostRegister(r.th, driver.HostPtr(addr), mem.Page,
		driver.CU_MEMHOSTREGISTER_PORTABLE|driver.CU_MEMHOSTREGISTER_DEVICEMAP))
	p, res := r.MemHostGetDevicePointer(r.th, driver.HostPtr(addr), 0)
	r.must(res)
	s, w := r.newStream(), r.newStream()
	r.must(r.StreamWaitValue64(r.th, s, p, 3, geq))
	r.must(r.StreamWriteValue64(r.th, s, p, 4, 0))
	r.must(r.StreamWriteValue64(r.th, w, p, 2, 0))
	r.want("query", driver.ResultNotReady, r.StreamQuery(r.th, s))
	if v := word.Load(); v != 2 {
		t.Errorf("the word is %d", v)
	}
	word.Store(3)
	for word.Load() != 4 { // without calls of the driver
		time.Sleep(10 * time.Microsecond)
	}
	r.must(r.StreamSynchronize(r.th, s))
	r.must(r.MemHostUnregister(r.th, driver.HostPtr(addr)))
	word.Store(5)
	r.want("write", driver.ResultInvalidValue, r.StreamWriteValue64(r.th, w, p, 6, 0))
}

// TestFirstMemOps makes the calls of CUDA 8, which a system has to enable. The results are those that an H200
// returns for one of them, cuStreamBatchMemOp.
func TestFirstMemOps(t *testing.T) {
	r := newLab(t)
	for name, call := range map[string]func(s driver.Stream) driver.Result{
		"batch":   func(s driver.Stream) driver.Result { return r.StreamBatchMemOpV1(r.th, s, nil, 0) },
		"wait 32": func(s driver.Stream) driver.Result { return r.StreamWaitValue32V1(r.th, s, 0, 0, 0) },
		"wait 64": func(s driver.Stream) driver.Result { return r.StreamWaitValue64V1(r.th, s, 0, 0, 0) },
		"set 32":  func(s driver.Stream) driver.Result { return r.StreamWriteValue32V1(r.th, s, 0, 0, 0) },
		"set 64":  func(s driver.Stream) driver.Result { return r.StreamWriteValue64V1(r.th, s, 0, 0, 0) },
	} {
		s := r.newStream()
		r.want(name, notSupported, call(s))
		r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
		r.want(name+" in a capture", driver.ResultStreamCaptureUnsupported, call(s))
		_, res := r.StreamEndCapture(r.th, s)
		r.want(name+", end of the capture", driver.ResultStreamCaptureInvalidated, res)
	}
}
