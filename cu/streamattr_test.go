package cu_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/core"
)

// TestStreamAttributes sets, reads and copies attributes, also during a capture and on the default stream.
func TestStreamAttributes(t *testing.T) {
	r := newSoft(t)
	checkStreamAttributes(t, r.gpu)
	mem := need(r.gpu.Alloc(8))(t)
	for name, c := range map[string]struct {
		err  error
		is   error
		want string
	}{
		"policy": {r.s.SetSyncPolicy(0), ResultInvalidValue, "synchronization policy 0"},
		"domain": {r.s.SetMemSyncDomain(2), ResultInvalidValue, "domain 2"},
		"map": {r.s.SetMemSyncDomainMap(MemSyncDomainMap{Remote: 4}), ResultInvalidValue,
			"4 domains, from 0 to 3"},
		"ratio":       {r.s.SetAccessWindow(AccessWindow{Memory: mem, HitRatio: 2}), ResultInvalidValue, "HitRatio"},
		"nil":         {(*Stream)(nil).SetPriority(0), ErrNil, "stream"},
		"nil to copy": {r.s.CopyAttributes(nil), ErrNil, "stream"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	far := need(need(r.drv.Device(1))(t).PrimaryContext())(t)
	other := need(far.NewStream(StreamNonBlocking))(t)
	r.is(r.s.CopyAttributes(other), ErrDeviceMismatch)
	r.ok(errors.Join(other.Close(), far.Close(), mem.Close()))
	r.ok(r.s.Close())
	r.is(r.s.SetPriority(0), ErrClosed)
}

// TestGPUStreamAttributes is TestStreamAttributes on a GPU.
func TestGPUStreamAttributes(t *testing.T) { checkStreamAttributes(t, gpuContext(t)) }

func checkStreamAttributes(t *testing.T, gpu *Context) {
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, other := need(gpu.NewStream(StreamNonBlocking))(t), need(gpu.NewStream(StreamNonBlocking))(t)
	legacy := need(gpu.LegacyStream())(t)
	mem := need(gpu.Alloc(4096))(t)
	if _, set, err := s.SyncPolicy(); set || err != nil {
		t.Errorf("a policy is set, %v", err)
	}
	if m := need(s.MemSyncDomainMap())(t); m != (MemSyncDomainMap{0, 1}) {
		t.Errorf("the map is %v at first", m)
	}
	change := func(s *Stream) {
		ok(errors.Join(s.SetPriority(-2), s.SetSyncPolicy(SyncBlocking), s.SetMemSyncDomain(MemSyncDomainRemote),
			s.SetMemSyncDomainMap(MemSyncDomainMap{2, 3}),
			s.SetAccessWindow(AccessWindow{Memory: mem.Span(1024, 1024), HitRatio: 0.5, Hit: AccessPersisting,
				Miss: AccessStreaming})))
	}
	check := func(what string, s *Stream) {
		t.Helper()
		p, set, err := s.SyncPolicy()
		addr, size, w, err2 := s.AccessWindow()
		if err := errors.Join(err, err2); !set || p != SyncBlocking || err != nil ||
			addr != uintptr(core.Of(mem).Raw)+1024 || size != 1024 ||
			w != (AccessWindow{HitRatio: 0.5, Hit: AccessPersisting, Miss: AccessStreaming}) {
			t.Errorf("%s: policy %v, window of %d bytes at %#x, %v, %v", what, p, size, addr, w, err)
		}
		if p, d, m := need(s.Priority())(t), need(s.MemSyncDomain())(t), need(s.MemSyncDomainMap())(t); p != -2 ||
			d != MemSyncDomainRemote || m != (MemSyncDomainMap{2, 3}) {
			t.Errorf("%s: priority %d, domain %v, map %v", what, p, d, m)
		}
	}
	change(s)
	check("set", s)
	ok(other.CopyAttributes(s))
	check("copied", other)
	third := need(gpu.NewStream(StreamNonBlocking))(t)
	g := need(third.Capture(CaptureThreadLocal, func() error {
		change(third)
		check("captured", third)
		return third.CopyAttributes(s)
	}))(t)
	ok(legacy.SetSyncPolicy(SyncYield))
	if p, set, err := legacy.SyncPolicy(); p != SyncYield || !set || err != nil {
		t.Errorf("the default stream: %v, %v, %v", p, set, err)
	}
	ok(legacy.SetSyncPolicy(SyncAuto))
	ok(s.SetPriority(-100))
	if p := need(s.Priority())(t); p <= -100 {
		t.Errorf("priority %d", p)
	}
	ok(s.SetAccessWindow(AccessWindow{}))
	if _, size, _, err := s.AccessWindow(); size != 0 || err != nil {
		t.Errorf("a window of %d bytes, %v", size, err)
	}
	ok(gpu.ResetPersistingL2())
	ok(errors.Join(g.Close(), mem.Close(), s.Close(), other.Close(), third.Close()))
}
