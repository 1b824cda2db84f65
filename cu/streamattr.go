package cu

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/valuename"
)

// The names of the functions for attributes of streams.
const (
	setStreamOp  = "cuStreamSetAttribute"
	getStreamOp  = "cuStreamGetAttribute"
	copyStreamOp = "cuStreamCopyAttributes"
)

// SyncPolicy says how a thread waits in [Stream.Synchronize]. The values are CUDA's. It has no
// influence on [Stream.Wait].
type SyncPolicy int32

const (
	// SyncAuto lets the driver choose: CU_SYNC_POLICY_AUTO.
	SyncAuto SyncPolicy = driver.CU_SYNC_POLICY_AUTO
	// SyncSpin makes the thread spin: CU_SYNC_POLICY_SPIN.
	SyncSpin SyncPolicy = driver.CU_SYNC_POLICY_SPIN
	// SyncYield makes the thread spin, and yield to other threads: CU_SYNC_POLICY_YIELD.
	SyncYield SyncPolicy = driver.CU_SYNC_POLICY_YIELD
	// SyncBlocking makes the thread sleep: CU_SYNC_POLICY_BLOCKING_SYNC.
	SyncBlocking SyncPolicy = driver.CU_SYNC_POLICY_BLOCKING_SYNC
)

// SetPriority changes the priority of the stream's later work; the lowest number is the highest
// priority. A number outside of [Context.PriorityRange] becomes the nearest one inside
// (cuStreamSetAttribute with CU_LAUNCH_ATTRIBUTE_PRIORITY, CUDA 11.7).
//
// # Attributes of streams
//
// The attributes of a stream concern the launches that are enqueued later, and captured ones, unless
// a launch has attributes of its own: see [LaunchWith]. A stream of a pool shares its attributes with
// everyone who gets the stream. Setting and reading attributes is allowed during captures.
func (s *Stream) SetPriority(priority int) error {
	return s.setAttribute(words(driver.CU_LAUNCH_ATTRIBUTE_PRIORITY, uint32(valuename.Clamp32(priority))))
}

// SetSyncPolicy says how Synchronize waits for the stream
// (cuStreamSetAttribute with CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, CUDA 11.0).
func (s *Stream) SetSyncPolicy(p SyncPolicy) error {
	a := words(driver.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, uint32(p))
	if p < SyncAuto || p > SyncBlocking {
		a.err = drivercall.BadValue(setStreamOp, nil, fmt.Sprintf("there is no synchronization policy %d: see SyncPolicy", p))
	}
	return s.setAttribute(a)
}

// SyncPolicy returns how Synchronize waits for the stream. set is false if the policy was never set:
// then the flags of the context say it (cuStreamGetAttribute, CUDA 11.0).
func (s *Stream) SyncPolicy() (p SyncPolicy, set bool, err error) {
	v, err := s.attribute(driver.CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
	if p = SyncPolicy(binary.LittleEndian.Uint32(v[:])); err != nil || p < SyncAuto || p > SyncBlocking {
		return 0, false, err // an H200 says -1 at first
	}
	return p, true, nil
}

// SetMemSyncDomain chooses the logical domain of fences in the stream's later launches
// (cuStreamSetAttribute with CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, CUDA 12.0).
func (s *Stream) SetMemSyncDomain(d MemSyncDomain) error {
	a := words(driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, uint32(d))
	a.err = d.check(setStreamOp)
	return s.setAttribute(a)
}

// MemSyncDomain returns what SetMemSyncDomain has set, at first MemSyncDomainDefault
// (cuStreamGetAttribute, CUDA 12.0).
func (s *Stream) MemSyncDomain() (MemSyncDomain, error) {
	v, err := s.attribute(driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
	return MemSyncDomain(binary.LittleEndian.Uint32(v[:])), err
}

// SetMemSyncDomainMap says which domain of the device stands for each logical domain, for the
// stream's later launches (cuStreamSetAttribute with CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, CUDA
// 12.0).
func (s *Stream) SetMemSyncDomainMap(m MemSyncDomainMap) error {
	return s.setAttribute(words(driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, m.word()))
}

// MemSyncDomainMap returns what SetMemSyncDomainMap has set, at first 0 for the default domain and 1
// for the remote one (cuStreamGetAttribute, CUDA 12.0).
func (s *Stream) MemSyncDomainMap() (MemSyncDomainMap, error) {
	v, err := s.attribute(driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP)
	return MemSyncDomainMap{Default: v[0], Remote: v[1]}, err
}

// SetAccessWindow says how the L2 cache treats the accesses of the stream's later launches to a part
// of the memory; the zero AccessWindow ends that. [Context.ResetPersistingL2] and
// LimitPersistingL2CacheSize belong to it (cuStreamSetAttribute with
// CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, CUDA 11.0).
func (s *Stream) SetAccessWindow(w AccessWindow) error {
	defer runtime.KeepAlive(w.Memory)
	return s.setAttribute(w.attribute(setStreamOp))
}

// setAttribute sets an attribute of the stream.
func (s *Stream) setAttribute(a LaunchAttribute) error {
	sc, err := s.enter(setStreamOp)
	if err != nil {
		return err
	}
	defer s.leave()
	if a.err != nil {
		return drivercall.About(sc, a.err)
	}
	sc.EnterGate()
	res := sc.Ctx.Drv.Table().StreamSetAttribute(sc.InContext(), sc.Raw, a.id, a.value)
	sc.LeaveGate()
	if res == driver.ResultSuccess {
		return nil
	}
	e := sc.Ctx.CallError(setStreamOp, uintptr(sc.Raw), res)
	if e.Err == nil && res == driver.ResultInvalidValue {
		e.Detail = drivercall.JoinText(e.Detail, deviceOf(sc.Ctx).refusedAttribute(a.id))
	}
	return e
}

// refusedAttribute says which limit of the device the value of an attribute may exceed.
func (dev *Device) refusedAttribute(id int32) string {
	switch id {
	case driver.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		if n, err := dev.Attribute(DeviceAttributeMaxAccessPolicyWindowSize); err == nil {
			return fmt.Sprintf("a window can have %d bytes: use a Span of the memory", n)
		}
	case driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		if n, err := dev.Attribute(DeviceAttributeMemSyncDomainCount); err == nil {
			return fmt.Sprintf("the device has %d domains, from 0 to %d", n, n-1)
		}
	}
	return ""
}

// attribute returns an attribute of the stream.
func (s *Stream) attribute(id int32) (v driver.LaunchAttributeValue, err error) {
	sc, err := s.enter(getStreamOp)
	if err != nil {
		return v, err
	}
	defer s.leave()
	sc.EnterGate()
	v, res := sc.Ctx.Drv.Table().StreamGetAttribute(sc.InContext(), sc.Raw, id)
	sc.LeaveGate()
	if res != driver.ResultSuccess {
		return driver.LaunchAttributeValue{}, sc.Ctx.CallError(getStreamOp, uintptr(sc.Raw), res)
	}
	return v, nil
}

// CopyAttributes gives the stream all attributes of another stream of the same context, also its
// priority (cuStreamCopyAttributes, CUDA 11.0).
func (s *Stream) CopyAttributes(from *Stream) error {
	sc, err := s.enter(copyStreamOp)
	if err != nil {
		return err
	}
	defer s.leave()
	fc, err := from.enter(copyStreamOp)
	if err != nil {
		return drivercall.About(sc, err)
	}
	defer from.leave()
	if fc.Ctx != sc.Ctx {
		return core.MixedError(copyStreamOp, sc, core.InRole("other stream", fc))
	}
	if fc.At.Thread != sc.At.Thread && fc.At.Thread != nil && sc.At.Thread != nil {
		return fc.CheckThread(copyStreamOp)
	}
	at := sc.InContext()
	if at.Thread == nil {
		at.Thread = fc.At.Thread
	}
	sc.EnterGate()
	res := sc.Ctx.Drv.Table().StreamCopyAttributes(at, sc.Raw, fc.Raw)
	sc.LeaveGate()
	if res != driver.ResultSuccess {
		return sc.Ctx.CallError(copyStreamOp, uintptr(sc.Raw), res)
	}
	return nil
}

// ResetPersistingL2 makes all data in the L2 cache that [AccessPersisting] keeps there normal again
// (cuCtxResetPersistingL2Cache, CUDA 11.0). It takes effect at some time, and concerns all streams.
func (c *Context) ResetPersistingL2() error {
	const op = "cuCtxResetPersistingL2Cache"
	cc, err := c.enter(op)
	if err != nil {
		return err
	}
	defer c.leave()
	res := cc.Drv.Table().CtxResetPersistingL2Cache(driver.At{Context: cc.Raw})
	if res != driver.ResultSuccess {
		return cc.CallError(op, uintptr(cc.Raw), res)
	}
	return nil
}

// AccessWindow returns the part of the device's memory that a window of the stream covers, as an
// address and a size in bytes, and its properties. The size is 0 without a window
// (cuStreamGetAttribute, CUDA 11.0).
func (s *Stream) AccessWindow() (addr uintptr, size uint64, w AccessWindow, err error) {
	v, err := s.attribute(driver.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(v[4*i:]) }
	w = AccessWindow{HitRatio: math.Float32frombits(word(4)), Hit: AccessProperty(word(5)),
		Miss: AccessProperty(word(6))}
	return uintptr(binary.LittleEndian.Uint64(v[:])), binary.LittleEndian.Uint64(v[8:]), w, err
}
