package sim

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/purecu/purecu/driver"
)

// words returns an attribute whose value begins with these words.
func words(id int32, list ...uint32) driver.LaunchAttribute {
	a := driver.LaunchAttribute{ID: id}
	for i, w := range list {
		binary.LittleEndian.PutUint32(a.Value[4*i:], w)
	}
	return a
}

// ofEvent returns an attribute with an event.
func ofEvent(id int32, e driver.Event, flags uint32) driver.LaunchAttribute {
	return words(id, uint32(e), uint32(e>>32), flags)
}

// config returns the configuration of a launch of one block of threads.
func config(s driver.Stream, gridX uint32, list []driver.LaunchAttribute) *driver.LaunchConfig {
	return &driver.LaunchConfig{GridX: gridX, GridY: 1, GridZ: 1, BlockX: 32, BlockY: 1, BlockZ: 1,
		Stream: s, Attributes: unsafe.SliceData(list), Count: uint32(len(list))}
}

// TestLaunchAttributes launches with attributes, with and without a capture, and compares the
// results with those of an H100.
func TestLaunchAttributes(t *testing.T) {
	const (
		invalid     = driver.ResultInvalidValue
		unsupported = driver.ResultNotSupported
		badCluster  = driver.ResultInvalidClusterSize
		window      = driver.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
		cooperative = driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
		cluster     = driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
		preferred   = driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION
		domains     = driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
		domain      = driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
		updatable   = driver.CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE
		carveout    = driver.CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
		scheduling  = driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
	)
	type attributes = []driver.LaunchAttribute
	half, two := math.Float32bits(0.5), math.Float32bits(2)
	for _, tt := range []struct {
		name      string
		grid      uint32
		list      attributes
		want      driver.Result
		inCapture []driver.Result // nil if the results are the same
		ends      bool            // invalidates the capture
	}{
		{name: "none"},
		{name: "ignore", list: attributes{words(driver.CU_LAUNCH_ATTRIBUTE_IGNORE, 5)}},
		{name: "window of nothing", list: attributes{words(window)}},
		{name: "window", list: attributes{words(window, 4096, 0, 4096, 0, half, 2, 1)}},
		{name: "window with misses that persist", list: attributes{words(window, 4096, 0, 4096, 0, half, 2, 2)}, want: invalid},
		{name: "window with a ratio of 2", list: attributes{words(window, 4096, 0, 4096, 0, two, 2, 1)}, want: invalid},
		{name: "window that is too large", list: attributes{words(window, 4096, 0, 0, 256, half, 2, 1)}, want: invalid},
		{name: "cooperative", list: attributes{words(cooperative, 1)}},
		{name: "too large and cooperative", grid: 1 << 20, list: attributes{words(cooperative, 1)}, want: driver.ResultCooperativeLaunchTooLarge, ends: true},
		{name: "the last one counts", grid: 1 << 20, list: attributes{words(cooperative, 1), words(cooperative)}},
		{name: "synchronization policy", list: attributes{words(driver.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 1)}, want: invalid},
		{name: "no cluster", list: attributes{words(cluster)}},
		{name: "clusters of 1", list: attributes{words(cluster, 1, 1, 1)}},
		{name: "clusters of 8", grid: 16, list: attributes{words(cluster, 8, 1, 1)}},
		{name: "clusters of 16", grid: 16, list: attributes{words(cluster, 16, 1, 1)}, want: badCluster, ends: true},
		{name: "clusters that do not fit", grid: 3, list: attributes{words(cluster, 2, 1, 1)}, want: badCluster, ends: true},
		{name: "flat clusters", grid: 2, list: attributes{words(cluster, 2)}, want: badCluster},
		{name: "preferred alone", list: attributes{words(preferred, 1, 1, 1)}, want: badCluster, ends: true},
		{name: "preferred", grid: 16, list: attributes{words(cluster, 2, 1, 1), words(preferred, 16, 1, 1)}},
		{name: "preferred that are smaller", grid: 16, list: attributes{words(cluster, 2, 1, 1), words(preferred, 1, 1, 1)}, want: badCluster, ends: true},
		{name: "preferred that are flat", grid: 16, list: attributes{words(cluster, 2, 1, 1), words(preferred, 0, 1, 1)}, want: badCluster},
		{name: "cluster scheduling", list: attributes{words(scheduling, 2)}},
		{name: "unknown cluster scheduling", list: attributes{words(scheduling, 3)}, want: invalid},
		{name: "serialization", list: attributes{words(driver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1)}},
		{name: "priority", list: attributes{words(driver.CU_LAUNCH_ATTRIBUTE_PRIORITY, 100)}},
		{name: "domains", list: attributes{words(domains, 0x0303)}},
		{name: "too many domains", list: attributes{words(domains, 0x0400)}, want: invalid},
		{name: "remote domain", list: attributes{words(domain, 1)}},
		{name: "unknown domain", list: attributes{words(domain, 2)}, want: invalid},
		{name: "no event", list: attributes{words(driver.CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)}, want: driver.ResultInvalidHandle},
		// On a GPU the last attribute makes a node that kernels can update.
		{name: "not updatable", list: attributes{words(updatable)}, want: unsupported, inCapture: []driver.Result{ok}},
		{name: "updatable in an unknown way", list: attributes{words(updatable, 2)}, want: unsupported, inCapture: []driver.Result{invalid}},
		{name: "updatable", list: attributes{words(updatable, 1)}, want: unsupported},
		{name: "carveout", list: attributes{words(carveout, 100)}},
		{name: "too much carveout", list: attributes{words(carveout, 101)}, want: invalid},
		{name: "unknown", list: attributes{words(cooperative, 1), words(100)}, want: invalid},
		{name: "negative", list: attributes{words(-1)}, want: invalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newLab(t)
			f, s := r.kernel("k", ""), r.newStream()
			c := config(s, max(tt.grid, 1), tt.list)
			r.want("launch", tt.want, r.LaunchKernelEx(r.th, c, f, driver.KernelParams{}))
			want, status, end := tt.want, int32(driver.CU_STREAM_CAPTURE_STATUS_ACTIVE), ok
			if len(tt.inCapture) > 0 {
				want = tt.inCapture[0]
			}
			if tt.ends {
				status, end = driver.CU_STREAM_CAPTURE_STATUS_INVALIDATED, driver.ResultStreamCaptureInvalidated
			}
			r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
			r.want("launch in a capture", want, r.LaunchKernelEx(r.th, c, f, driver.KernelParams{}))
			if got, res := r.StreamIsCapturing(r.th, s); got != status || res != ok {
				t.Errorf("the capture has status %d, %v; want %d", got, res, status)
			}
			g, res := r.StreamEndCapture(r.th, s)
			r.want("end", end, res)
			if g != 0 {
				r.must(r.GraphDestroy(r.th, g))
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		r := newLab(t)
		f := r.kernel("k", "")
		r.want("no configuration", invalid, r.LaunchKernelEx(r.th, nil, f, driver.KernelParams{}))
		r.want("no attributes", invalid, r.LaunchKernelEx(r.th, &driver.LaunchConfig{Count: 1}, f, driver.KernelParams{}))
		r.want("no kernel", driver.ResultInvalidHandle, r.LaunchKernelEx(r.th, config(0, 1, nil), 0, driver.KernelParams{}))
		r.want("no blocks", invalid, r.LaunchKernelEx(r.th, config(0, 0, nil), f, driver.KernelParams{}))
		s := r.newStream()
		r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
		r.want("no blocks, in a capture", invalid, r.launchOn(s, f, 0, driver.KernelParams{}))
		_, res := r.StreamEndCapture(r.th, s)
		r.want("its end", driver.ResultStreamCaptureInvalidated, res)
	})
	t.Run("more than all devices can do", func(t *testing.T) {
		r := newLab(t)
		f := r.kernel("k", "")
		r.must(r.FuncSetAttribute(r.th, f, driver.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
		r.must(r.LaunchKernelEx(r.th, config(0, 16, attributes{words(cluster, 16, 1, 1)}), f, driver.KernelParams{}))
	})
}

// TestLaunchEvents launches with events, which complete with the kernel.
func TestLaunchEvents(t *testing.T) {
	for name, id := range map[string]int32{
		"programmatic": driver.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
		"completion":   driver.CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
	} {
		t.Run(name, func(t *testing.T) {
			r := newLab(t, VirtualTime())
			f, s := r.kernel("spin", ".param .u64 ns"), r.newStream()
			event := func(flags uint32) driver.Event {
				e, res := r.EventCreate(r.th, flags)
				r.must(res)
				t.Cleanup(func() { r.EventDestroy(r.th, e) })
				return e
			}
			launch := func(e driver.Event, flags uint32) driver.Result {
				return r.LaunchKernelEx(r.th, config(s, 1, []driver.LaunchAttribute{ofEvent(id, e, flags)}), f, params(uint64(time.Second)))
			}
			e, timed := event(driver.CU_EVENT_DISABLE_TIMING), event(0)
			r.want("timing", driver.ResultNotSupported, launch(timed, 0))
			r.want("external", driver.ResultIllegalState, launch(timed, driver.CU_EVENT_RECORD_EXTERNAL))
			r.want("unknown flags", driver.ResultInvalidValue, launch(timed, 2))
			r.must(launch(e, 0))
			r.want("query", driver.ResultNotReady, r.EventQuery(r.th, e))
			r.Advance(time.Second)
			r.want("query", ok, r.EventQuery(r.th, e))

			interprocess := event(driver.CU_EVENT_DISABLE_TIMING | driver.CU_EVENT_INTERPROCESS)
			r.want("of several processes", driver.ResultNotSupported, launch(interprocess, 0))
			r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
			r.want("timing", driver.ResultNotSupported, launch(timed, 0))
			r.want("of several processes", driver.ResultStreamCaptureUnsupported, launch(interprocess, 0))
			r.want("external", driver.ResultNotSupported, launch(e, driver.CU_EVENT_RECORD_EXTERNAL))
			r.must(launch(e, 0))
			other := r.newStream()
			r.must(r.StreamWaitEvent(r.th, other, e, 0))
			if got, res := r.StreamIsCapturing(r.th, other); got != driver.CU_STREAM_CAPTURE_STATUS_ACTIVE || res != ok {
				t.Errorf("a stream that waits for the event has status %d, %v", got, res)
			}
			r.must(r.EventRecord(r.th, e, other))
			r.must(r.StreamWaitEvent(r.th, s, e, 0))
			g, res := r.StreamEndCapture(r.th, s)
			r.must(res)
			r.must(r.GraphDestroy(r.th, g))
		})
	}
}

// TestExtra passes arguments in one buffer, and compares the results with those of an H100.
func TestExtra(t *testing.T) {
	const (
		invalid = driver.ResultInvalidValue
		large   = driver.ResultLaunchOutOfResources
		pointer = driver.CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT
		size    = driver.CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT
		end     = driver.CU_LAUNCH_PARAM_END_AS_INT
	)
	type pair struct {
		key   uintptr
		value unsafe.Pointer
	}
	type extra = []pair
	values := [24]byte{0: 1, 8: 2, 12: 3, 16: 4, 23: 5}
	data := unsafe.Pointer(&values)
	bytes := func(n uint64) pair { return pair{size, unsafe.Pointer(&n)} }
	at, stop := pair{pointer, data}, pair{key: end}
	all := []any{uint64(1), uint32(2), uint32(3), uint64(5<<56 + 4)}
	for _, tt := range []struct {
		name  string
		extra extra
		ptrs  bool // also pass an array of pointers
		want  driver.Result
		saw   []any
	}{
		{"all", extra{at, bytes(24), stop}, false, ok, all},
		{"the size first", extra{bytes(24), at, stop}, false, ok, all},
		{"the last pointer counts", extra{pair{key: pointer}, at, bytes(24), stop}, false, ok, all},
		{"short", extra{at, bytes(20), stop}, false, ok, []any{uint64(1), uint32(2), uint32(3), uint64(4)}},
		{"very short", extra{at, bytes(8), stop}, false, ok, []any{uint64(1), uint32(0), uint32(0), uint64(0)}},
		{"nothing", extra{at, bytes(0), stop}, false, invalid, nil},
		{"long", extra{at, bytes(25), stop}, false, large, nil},
		{"far too long", extra{at, bytes(1 << 20), stop}, false, invalid, nil},
		{"no size", extra{at, stop}, false, invalid, nil},
		{"no pointer", extra{bytes(24), stop}, false, invalid, nil},
		{"NULL", extra{pair{key: pointer}, bytes(24), stop}, false, invalid, nil},
		{"NULL for the size", extra{at, pair{key: size}, stop}, false, invalid, nil},
		{"an unknown key", extra{at, bytes(24), pair{3, data}, stop}, false, invalid, nil},
		{"far too long by a byte", extra{at, bytes(32765), stop}, false, invalid, nil},
		{"not far too long", extra{at, bytes(32764), stop}, false, large, nil},
		{"both forms", extra{at, bytes(24), stop}, true, invalid, nil},
		{"both forms, one of no bytes", extra{at, bytes(0), stop}, true, ok, []any{uint64(9), uint32(9), uint32(9), uint64(9)}},
		{"only the other form", extra{stop}, true, ok, []any{uint64(9), uint32(9), uint32(9), uint64(9)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var saw []any
			r := newLab(t, WithKernel("k", Kernel{Run: func(l *Launch) {
				saw = []any{l.U64(0), l.U32(1), l.U32(2), l.U64(3)}
			}}))
			f := r.kernel("k", ".param .u64 a, .param .u32 b, .param .u32 c, .param .u64 d")
			p := driver.KernelParams{Extra: unsafe.Pointer(unsafe.SliceData(tt.extra))}
			if tt.ptrs {
				p.Ptrs = params(uint64(9), uint32(9), uint32(9), uint64(9)).Ptrs
			}
			for _, launch := range []func() driver.Result{
				func() driver.Result { return r.LaunchKernel(r.th, f, 1, 1, 1, 1, 1, 1, 0, 0, p) },
				func() driver.Result { return r.LaunchKernelEx(r.th, config(0, 1, nil), f, p) },
			} {
				saw = nil
				r.want("launch", tt.want, launch())
				r.must(r.CtxSynchronize(r.th))
				if diff := cmp.Diff(tt.saw, saw); diff != "" {
					t.Errorf("the kernel saw (-want +got):\n%s", diff)
				}
			}
			s, want := r.newStream(), tt.want
			if want == large {
				want = invalid
			}
			r.must(r.StreamBeginCapture(r.th, s, driver.CU_STREAM_CAPTURE_MODE_RELAXED))
			r.want("launch in a capture", want, r.launchOn(s, f, 1, p))
			g, res := r.StreamEndCapture(r.th, s)
			r.want("the end of the capture", ok, res)
			r.must(r.GraphDestroy(r.th, g))
		})
	}
	t.Run("of a struct that ends with padding", func(t *testing.T) {
		r := newLab(t)
		f := r.kernel("k", ".param .u64 a, .param .u8 b")
		launch := func(list ...pair) driver.Result {
			return r.launchOn(0, f, 1, driver.KernelParams{Extra: unsafe.Pointer(unsafe.SliceData(list))})
		}
		r.want("without the padding", ok, launch(at, bytes(9), stop))
		r.want("a byte of it", large, launch(at, bytes(10), stop))
		r.want("all of it", large, launch(at, bytes(16), stop))
	})
	t.Run("of a kernel without parameters", func(t *testing.T) {
		r := newLab(t)
		f := r.kernel("k", "")
		launch := func(list ...pair) driver.Result {
			return r.launchOn(0, f, 1, driver.KernelParams{Extra: unsafe.Pointer(unsafe.SliceData(list))})
		}
		r.want("nothing", ok, launch(pair{key: pointer}, bytes(0), stop))
		r.want("no bytes", ok, launch(at, bytes(0), stop))
		r.want("bytes", large, launch(at, bytes(24), stop))
	})
}
