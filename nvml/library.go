package nvml

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecu/purecu/internal/handle"
	"github.com/purecu/purecu/nvml/raw"
)

// Library is an open NVML. It is safe for concurrent use. Several packages of a program can open it, each for itself:
// NVML counts the users.
type Library struct{ object }

// library is what a Library, its devices and their parts share.
type library struct {
	raw  *raw.Library
	refs handle.Refs // the calls in flight
	// exceeded counts the calls that were not answered within their bound.
	exceeded    atomic.Uint64
	initialized atomic.Bool // so there is something to shut down

	mu      sync.Mutex
	lanes   map[raw.Device]*lane // by the handle of the whole GPU
	lookups [mostLookups]*lane   // of calls that look a GPU up, by its index
	sets    map[closer]struct{}  // the event sets and samples that are not freed, each of which is a user of the library
}

// obj returns the object of l, or nil.
func (l *Library) obj() *object {
	if l == nil || l.lib == nil {
		return nil
	}
	return &l.object
}

// Option is an option of [Open].
type Option func(*options)

type options struct {
	path     string
	flags    InitFlags
	timeout  time.Duration
	software raw.Software
	isSoft   bool // WithSoftware was used
}

// WithPath makes [Open] load the library of this path, in place of the driver's.
func WithPath(path string) Option { return func(o *options) { o.path = path } }

// WithTimeout limits the time of each call: see [Library.WithTimeout]. It limits the call of nvmlInit, too.
func WithTimeout(limit time.Duration) Option { return func(o *options) { o.timeout = limit } }

// WithFlags makes [Open] initialize NVML with flags (nvmlInitWithFlags).
func WithFlags(flags InitFlags) Option { return func(o *options) { o.flags = flags } }

// WithSoftware makes [Open] use an NVML that is written in Go, and load no library. If it is nil, Open fails with an
// error that matches [ErrNil]. If it has a method Err() error that returns an error, Open returns this error.
func WithSoftware(s raw.Software) Option {
	return func(o *options) { o.software, o.isSoft = s, true }
}

// InitFlags are the flags of [WithFlags].
type InitFlags uint32

const (
	// InitNoGPUs makes Open succeed on a machine without a GPU.
	InitNoGPUs InitFlags = raw.NVML_INIT_FLAG_NO_GPUS
	// InitNoAttach makes Open attach to no GPU. A GPU is attached when a device for it is asked for.
	InitNoAttach InitFlags = raw.NVML_INIT_FLAG_NO_ATTACH
)

// Open loads and initializes NVML (nvmlInit_v2, nvmlInitWithFlags). The error says why there is none: for example that
// no driver is installed, that the driver is not loaded, or that the library and the driver have different versions.
// [Library.Close] ends the use.
//
// If the program chooses no library, and the environment variable PURECU_DRIVER is soft, Open uses the software NVML of
// package cusim/auto, which the program must import.
func Open(opts ...Option) (*Library, error) {
	var o options
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	lib := &library{lanes: map[raw.Device]*lane{}}
	r, err := o.open()
	if err != nil {
		return nil, &Error{Op: "Open", Err: err}
	}
	lib.raw = r
	l := &Library{object{lib: lib, lane: newLane(), bound: bound{timeout: o.timeout}}}
	op := "nvmlInit_v2"
	if o.flags != 0 {
		op = "nvmlInitWithFlags"
	}
	_, err = l.call(op, words{b: uint64(o.flags)}, func(r *raw.Library, w words) (words, raw.Return) {
		result := initialize(r, uint32(w.b))
		lib.initialized.Store(result == raw.NVML_SUCCESS)
		return words{}, result
	})
	if err != nil {
		_ = l.Close() // the call may succeed yet
		return nil, err
	}
	return l, nil
}

// open opens the library that the program has chosen, or the software NVML that the environment variable PURECU_DRIVER
// names.
func (o *options) open() (*raw.Library, error) {
	name := os.Getenv("PURECU_DRIVER")
	switch soft := raw.Registered(name); {
	case o.isSoft && o.software == nil:
		return nil, ErrNil
	case o.isSoft:
		if f, is := o.software.(interface{ Err() error }); is {
			if err := f.Err(); err != nil {
				return nil, err
			}
		}
		return raw.NewSoftware(o.software), nil
	case o.path != "":
	case soft != nil:
		return soft()
	case name == "soft":
		return nil, errors.New(`PURECU_DRIVER is soft, and the program has no software NVML: ` +
			`import _ "github.com/purecu/purecu/cusim/auto" in the main package, or unset the variable`)
	}
	return raw.Open(o.path)
}

// initialize calls nvmlInit_v2, or nvmlInitWithFlags if there are flags.
func initialize(l *raw.Library, flags uint32) raw.Return {
	if flags == 0 {
		return l.InitV2()
	}
	return l.InitWithFlags(flags)
}

// Close ends the use of the library (nvmlShutdown). It does not wait for calls: if there are calls in flight, NVML is
// shut down after the last of them. It closes the event sets and samples of the library, too. If the library has a
// limit, as of [Library.WithTimeout], it also limits Close. Later calls return an error that matches [ErrClosed].
// Further calls of Close do nothing.
func (l *Library) Close() error {
	const op = "nvmlShutdown"
	if l.obj() == nil {
		return nilError(op)
	}
	if !l.lib.refs.CloseAndRetain() {
		return nil
	}
	return l.within(op, func() raw.Return {
		l.lib.closeSets()
		if !l.lib.refs.ReleaseLast() {
			return raw.NVML_SUCCESS
		}
		return l.lib.shutdown()
	})
}

// within calls f, and waits for it no longer than the object's limit. f ends a use, so that the object's context does
// not count, and an earlier call does not prevent it.
func (o *object) within(op string, f func() raw.Return) error {
	var r raw.Return
	if o.bound.timeout == 0 {
		r = f()
	} else {
		done := make(chan raw.Return, 1)
		go func() { done <- f() }()
		timer := time.NewTimer(o.bound.timeout)
		defer timer.Stop()
		select {
		case r = <-done:
		case <-timer.C:
			limited := o.with(bound{timeout: o.bound.timeout})
			return limited.exceeded(op)
		}
	}
	if r != raw.NVML_SUCCESS {
		return o.fail(op, r)
	}
	return nil
}

// Last shuts NVML down after the last call, whose caller does not wait for it.
func (l *library) Last(bool) { go l.shutdown() }

// shutdown undoes the initialization, if it was successful: NVML counts the users of the process.
func (l *library) shutdown() raw.Return {
	if !l.initialized.Load() {
		return raw.NVML_SUCCESS
	}
	return l.raw.Shutdown()
}

// closer is a thing that a library closes when it is closed.
type closer interface{ close() raw.Return }

// own makes a thing one that closes with the library. If the library is closed, it closes the thing, and reports false.
func (l *library) own(c closer) bool {
	l.mu.Lock()
	if l.sets == nil {
		l.sets = map[closer]struct{}{}
	}
	l.sets[c] = struct{}{}
	l.mu.Unlock()
	if l.refs.Closed() { // perhaps after closeSets has looked
		c.close()
		return false
	}
	return true
}

// disown is called when a thing is closed and freed.
func (l *library) disown(c closer) {
	l.mu.Lock()
	delete(l.sets, c)
	l.mu.Unlock()
}

func (l *library) closeSets() {
	l.mu.Lock()
	sets := make([]closer, 0, len(l.sets))
	for c := range l.sets {
		sets = append(sets, c)
	}
	l.mu.Unlock()
	for _, c := range sets {
		c.close()
	}
}

// Refused returns the error of a call after Close.
func (l *library) Refused(op string) error {
	return &Error{Op: op, Err: ErrClosed, Detail: "the Library was closed: open another one"}
}

// laneOf returns the lane of a GPU.
func (l *library) laneOf(gpu raw.Device) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lanes[gpu] == nil {
		l.lanes[gpu] = newLane()
	}
	return l.lanes[gpu]
}

// mostLookups is how many indices of GPUs have a lane of their own.
const mostLookups = 64

// lookup returns what makes a call that looks a GPU up. Such a call can last as long as one about the GPU.
func (o *object) lookup(index int) *object {
	if o == nil {
		return nil
	}
	l, found := o.lib, *o
	l.mu.Lock()
	defer l.mu.Unlock()
	i := index % mostLookups
	if l.lookups[i] == nil {
		l.lookups[i] = newLane()
	}
	found.lane = l.lookups[i]
	return &found
}

// WithTimeout returns the library with a limit for each call, also for those about the devices that the result finds:
// see [Device.WithTimeout]. 0 is no limit. Close of the result closes l, too.
func (l *Library) WithTimeout(limit time.Duration) *Library {
	if l.obj() == nil {
		return nil
	}
	return &Library{l.with(bound{l.bound.ctx, limit})}
}

// WithContext returns the library with calls that end with ctx: see [Device.WithContext]. Close of the result closes l,
// too.
func (l *Library) WithContext(ctx context.Context) *Library {
	if l.obj() == nil {
		return nil
	}
	return &Library{l.with(bound{ctx, l.bound.timeout})}
}

// Exceeded returns how many calls were not answered within their bound since the library was opened: see
// [Device.WithTimeout].
func (l *Library) Exceeded() uint64 {
	if l.obj() == nil {
		return 0
	}
	return l.lib.exceeded.Load()
}

// Has reports whether the library has a function of C, such as "nvmlDeviceGetTemperatureV".
func (l *Library) Has(function string) bool { return l.obj() != nil && l.lib.raw.Has(function) }
