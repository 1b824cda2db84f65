package cu_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestStreamAttributes sets, reads and copies attributes, also during a capture and on the default stream.
func TestStreamAttributes(t *testing.T) {
	r := NewSoft(t)
	checkStreamAttributes(t, r.GPU)
	mem := Need(r.GPU.Alloc(8))(t)
	for name, c := range map[string]struct {
		err  error
		is   error
		want string
	}{
		"policy": {r.S.SetSyncPolicy(0), ResultInvalidValue, "synchronization policy 0"},
		"domain": {r.S.SetMemSyncDomain(2), ResultInvalidValue, "domain 2"},
		"map": {r.S.SetMemSyncDomainMap(MemSyncDomainMap{Remote: 4}), ResultInvalidValue,
			"4 domains, from 0 to 3"},
		"ratio":       {r.S.SetAccessWindow(AccessWindow{Memory: mem, HitRatio: 2}), ResultInvalidValue, "HitRatio"},
		"nil":         {(*Stream)(nil).SetPriority(0), ErrNil, "stream"},
		"nil to copy": {r.S.CopyAttributes(nil), ErrNil, "stream"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	far := Need(Need(r.Drv.Device(1))(t).PrimaryContext())(t)
	other := Need(far.NewStream(StreamNonBlocking))(t)
	r.Is(r.S.CopyAttributes(other), ErrDeviceMismatch)
	r.OK(errors.Join(other.Close(), far.Close(), mem.Close()))
	r.OK(r.S.Close())
	r.Is(r.S.SetPriority(0), ErrClosed)
}

// TestGPUStreamAttributes is TestStreamAttributes on a GPU.
func TestGPUStreamAttributes(t *testing.T) { checkStreamAttributes(t, GPUContext(t)) }

func checkStreamAttributes(t *testing.T, gpu *Context) {
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, other := Need(gpu.NewStream(StreamNonBlocking))(t), Need(gpu.NewStream(StreamNonBlocking))(t)
	legacy := Need(gpu.LegacyStream())(t)
	mem := Need(gpu.Alloc(4096))(t)
	if _, set, err := s.SyncPolicy(); set || err != nil {
		t.Errorf("a policy is set, %v", err)
	}
	if m := Need(s.MemSyncDomainMap())(t); m != (MemSyncDomainMap{0, 1}) {
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
		if p, d, m := Need(s.Priority())(t), Need(s.MemSyncDomain())(t), Need(s.MemSyncDomainMap())(t); p != -2 ||
			d != MemSyncDomainRemote || m != (MemSyncDomainMap{2, 3}) {
			t.Errorf("%s: priority %d, domain %v, map %v", what, p, d, m)
		}
	}
	change(s)
	check("set", s)
	ok(other.CopyAttributes(s))
	check("copied", other)
	third := Need(gpu.NewStream(StreamNonBlocking))(t)
	g := Need(graph.Capture(third, graph.CaptureThreadLocal, func() error {
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
	if p := Need(s.Priority())(t); p <= -100 {
		t.Errorf("priority %d", p)
	}
	ok(s.SetAccessWindow(AccessWindow{}))
	if _, size, _, err := s.AccessWindow(); size != 0 || err != nil {
		t.Errorf("a window of %d bytes, %v", size, err)
	}
	ok(gpu.ResetPersistingL2())
	ok(errors.Join(g.Close(), mem.Close(), s.Close(), other.Close(), third.Close()))
}
