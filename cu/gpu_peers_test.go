package cu_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPUPeers needs two GPUs.
func TestGPUPeers(t *testing.T) {
	gpu := GPUContext(t)
	devs := Need(gpu.Device().Driver().Devices())(t)
	if len(devs) < 2 {
		t.Skip("there is only one GPU")
	}
	far := Need(devs[1].PrimaryContext())(t)
	defer far.Close()
	s, other := Need(gpu.NewStream(StreamNonBlocking))(t), Need(far.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	defer other.Close()
	a, b, back := Need(gpu.Alloc(64))(t), Need(far.Alloc(64))(t), Need(gpu.AllocHost(64, HostPortable))(t)
	defer a.Close()
	defer b.Close()
	defer back.Close()
	for _, err := range []error{s.Memset(a, 7), s.Copy(b, a), other.WaitStream(s), other.Copy(back, b), other.Synchronize()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 64)
	Need(back.ReadAt(got, 0))(t)
	if !bytes.Equal(got, bytes.Repeat([]byte{7}, 64)) {
		t.Errorf("what came back is %v", got)
	}
	if !Need(devs[0].CanAccessPeer(devs[1]))(t) {
		t.Skip("the first device cannot access the second one's memory")
	}
	m := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer m.Close()
	add := Need(m.Function("add"))(t)
	uses := func(mem Memory) error {
		return add.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 16}}, Ptr(mem), U32(16), F32(0))
	}
	launch := func() error { return uses(b) }
	if err := launch(); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("without access: %v", err)
	}
	// Copies need no access. Access between contexts does not include memory of pools and virtual memory.
	p := Need(memory.NewPool(far, memory.PoolOptions{}))(t)
	pooled := Need(p.Alloc(other, 64))(t)
	virtual := Need(memory.Reserve(far, 64))(t)
	NoErr(t, errors.Join(virtual.Grow(64), other.Memset(pooled, 5), other.Memset(virtual.Span(0, 64), 5)))
	NoErr(t, errors.Join(s.WaitStream(other), gpu.EnablePeerAccess(far)))
	for name, m := range map[string]struct {
		mem   Memory
		allow func() error
	}{
		"memory.Pool":    {pooled, func() error { return p.SetAccess(devs[0], true) }},
		"memory.Virtual": {virtual.Span(0, 64), func() error { return virtual.SetAccess(devs[0], memory.AccessReadWrite) }},
	} {
		NoErr(t, errors.Join(s.Copy(a, m.mem), s.Synchronize(), a.CopyTo(got)))
		if !bytes.Equal(got, bytes.Repeat([]byte{5}, 64)) {
			t.Errorf("%s: the copy is %v", name, got)
		}
		if err := uses(m.mem); !errors.Is(err, ErrDeviceMismatch) || !strings.Contains(err.Error(), name+".SetAccess") {
			t.Errorf("%s without access: %v", name, err)
		}
		NoErr(t, errors.Join(m.allow(), uses(m.mem)))
	}
	NoErr(t, errors.Join(s.Synchronize(), gpu.DisablePeerAccess(far), pooled.Close(), virtual.Close(), p.Close()))
	for _, err := range []error{gpu.EnablePeerAccess(far), gpu.EnablePeerAccess(far), launch(), s.Synchronize(),
		gpu.DisablePeerAccess(far), gpu.DisablePeerAccess(far)} {
		if err != nil {
			t.Error(err)
		}
	}
}
