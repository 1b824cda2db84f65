// Package subject has what the packages in the folder of cu share, each of which has one subject. It gets from an
// object or a value of cu to its state below cu, begins and ends calls on objects, and makes objects of cu for new
// states.
//
// The state of a nil pointer, and of an object that no call of cu has made, is nil.
package subject

import (
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/eventpool"
	"github.com/purecu/purecu/internal/eventuse"
	"github.com/purecu/purecu/internal/launch"
	"github.com/purecu/purecu/internal/loaded"
	"github.com/purecu/purecu/internal/memstate"
	"github.com/purecu/purecu/internal/wordop"
)

// Driver returns the state of a Driver.
func Driver(d *cu.Driver) *core.Driver {
	if d == nil {
		return nil
	}
	return core.Of(d)
}

// Device returns the state of a Device.
func Device(dev *cu.Device) *core.Device {
	if dev == nil {
		return nil
	}
	return core.Of(dev)
}

// DeviceOf returns the Device of a context.
func DeviceOf(c *core.Context) *cu.Device { return c.APIDevice.(*cu.Device) }

// EnterContext begins a call on a context. LeaveContext ends it.
func EnterContext(c *cu.Context, op string) (*core.Context, error) {
	if c == nil {
		return nil, drivercall.NilError(op, "context")
	}
	return core.Of(c).Begin(op)
}

// LeaveContext ends a call that EnterContext has begun.
func LeaveContext(c *cu.Context) {
	core.Of(c).EndCall()
	runtime.KeepAlive(c)
}

// Stream returns the state of a Stream.
func Stream(s *cu.Stream) *core.Stream {
	if s == nil {
		return nil
	}
	return core.Of(s)
}

// NewStream returns a Stream for a new state.
func NewStream(ctx *core.Context, sc *core.Stream) *cu.Stream {
	s := new(cu.Stream)
	core.AttachStream(s, core.RefOf(s), ctx, sc)
	return s
}

// Event returns the owner of an event, or nil if the event was not created yet.
func Event(e *cu.Event) *core.EventOwner {
	if e == nil {
		return nil
	}
	return core.CreatedOwner(core.EventRefOf(e))
}

// NewDeviceMem returns a DeviceMem for a new state.
func NewDeviceMem(ctx *core.Context, mc *memstate.Mem) *cu.DeviceMem {
	m := new(cu.DeviceMem)
	memstate.Attach(m, core.RefOf(m), ctx, mc)
	return m
}

// NewHostMem returns a HostMem for a new state.
func NewHostMem(ctx *core.Context, mc *memstate.Mem) *cu.HostMem {
	m := new(cu.HostMem)
	memstate.Attach(m, core.RefOf(m), ctx, mc)
	return m
}

// DeviceMem returns the state of a DeviceMem.
func DeviceMem(m *cu.DeviceMem) *memstate.Mem {
	if m == nil {
		return nil
	}
	return core.Of(m)
}

// HostMem returns the state of a HostMem.
func HostMem(m *cu.HostMem) *memstate.Mem {
	if m == nil {
		return nil
	}
	return core.Of(m)
}

// NewSpan returns a Span of memory.
func NewSpan(parts memstate.Span) cu.Span {
	var s cu.Span
	*memstate.SpanOf(&s) = parts
	return s
}

// RegionOf returns what memory refers to. m may be nil. It is as regionOf in package cu.
func RegionOf(m cu.Memory) memstate.Region {
	switch m := m.(type) {
	case nil:
		return memstate.Region{}
	case cu.Span:
		return memstate.SpanOf(&m).Region()
	case *cu.Span:
		if m == nil {
			return memstate.Region{}
		}
		return memstate.SpanOf(m).Region()
	case *cu.DeviceMem:
		return DeviceMem(m).Whole()
	case *cu.HostMem:
		return HostMem(m).Whole()
	}
	return memstate.Embedded()
}

// EnterStream begins a call on a stream. LeaveStream ends it.
func EnterStream(s *cu.Stream, op string) (*core.Stream, error) {
	sc := Stream(s)
	if sc == nil {
		return nil, drivercall.NilError(op, "stream")
	}
	return sc, sc.Begin(op)
}

// LeaveStream ends a call that EnterStream has begun.
func LeaveStream(s *cu.Stream) {
	core.Of(s).EndCall()
	runtime.KeepAlive(s)
}

// Function returns the kernel for a launch, or nil for nil.
func Function(f *cu.Function) *launch.Function {
	if f == nil {
		return nil
	}
	return core.ValueOf(f)
}

// NewFunction returns a Function for a kernel.
func NewFunction(fn launch.Function) *cu.Function {
	f := new(cu.Function)
	*core.ValueOf(f) = fn
	return f
}

// Module returns the state of a Module.
func Module(m *cu.Module) *loaded.Module {
	if m == nil || core.Of(m) == nil {
		return nil
	}
	return core.Of(m).Module
}

// NewModule returns a Module of a library for a new state.
func NewModule(of *loaded.ModuleUse) *cu.Module {
	m := new(cu.Module)
	core.SetState(core.RefOf(m), of, runtime.AddCleanup(m, (*loaded.Module).Abandoned, of.Module))
	return m
}

// JITOptions returns the options for the driver.
func JITOptions(opts []cu.JITOption) (raw []driver.JITOption) {
	for i := range opts {
		if o := core.ValueOf(&opts[i]); *o != (driver.JITOption{}) { // the zero option has no effect
			raw = append(raw, *o)
		}
	}
	return raw
}

// Arg returns the state of an argument.
func Arg(a *cu.Arg) *launch.Arg { return core.ValueOf(a) }

// LaunchAttributes returns the state of attributes, or nil for nil.
func LaunchAttributes(l *cu.LaunchAttributes) *launch.Attributes {
	if l == nil {
		return nil
	}
	return core.ValueOf(l)
}

// LaunchConfig returns the configuration of a launch, with 1 for a Y or Z of 0.
func LaunchConfig(cfg *cu.LaunchConfig) launch.Config {
	g, b := cfg.Grid, cfg.Block
	return launch.Config{Grid: launch.DimOf(g.X, g.Y, g.Z), Block: launch.DimOf(b.X, b.Y, b.Z),
		SharedMem: cfg.SharedMem, Flags: uint32(cfg.Flags), Attributes: LaunchAttributes(cfg.Attributes)}
}

// MemOp returns the state of an operation on a word.
func MemOp(o *cu.MemOp) *wordop.Op { return core.ValueOf(o) }

// EventUse returns what a call finds in an event. The caller calls Leave. It is as useOf in package cu.
func EventUse(op string, e cu.AnyEvent) (r eventuse.Use, err error) {
	switch e := e.(type) {
	case *cu.Event:
		if e != nil {
			return eventuse.Use{Owner: core.EventOwnerOf(core.EventRefOf(e))}, nil
		}
	case cu.Pooled:
		r.Slot, err = eventpool.Of(&e).Enter(op)
		return r, err
	case *cu.Pooled:
		if e != nil {
			r.Slot, err = eventpool.Of(e).Enter(op)
			return r, err
		}
	case nil:
	default:
		return r, eventuse.EmbeddedEventError(op)
	}
	return r, drivercall.NilError(op, "event")
}
