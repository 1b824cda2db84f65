package cu_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
)

// TestGPUPeers needs two GPUs.
func TestGPUPeers(t *testing.T) {
	gpu := gpuContext(t)
	devs := need(gpu.Device().Driver().Devices())(t)
	if len(devs) < 2 {
		t.Skip("there is only one GPU")
	}
	far := need(devs[1].PrimaryContext())(t)
	defer far.Close()
	s, other := need(gpu.NewStream(StreamNonBlocking))(t), need(far.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	defer other.Close()
	a, b, back := need(gpu.Alloc(64))(t), need(far.Alloc(64))(t), need(gpu.AllocHost(64, HostPortable))(t)
	defer a.Close()
	defer b.Close()
	defer back.Close()
	for _, err := range []error{s.Memset(a, 7), s.Copy(b, a), other.WaitStream(s), other.Copy(back, b), other.Synchronize()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 64)
	need(back.ReadAt(got, 0))(t)
	if !bytes.Equal(got, bytes.Repeat([]byte{7}, 64)) {
		t.Errorf("what came back is %v", got)
	}
	if !need(devs[0].CanAccessPeer(devs[1]))(t) {
		t.Skip("the first device cannot access the second one's memory")
	}
	m := need(gpu.LoadModule([]byte(spinPTX)))(t)
	defer m.Close()
	add := need(m.Function("add"))(t)
	uses := func(mem Memory) error {
		return add.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 16}}, Ptr(mem), U32(16), F32(0))
	}
	launch := func() error { return uses(b) }
	if err := launch(); !errors.Is(err, ErrDeviceMismatch) {
		t.Errorf("without access: %v", err)
	}
	// Copies need no access. Access between contexts does not include memory of pools and virtual memory.
	p := need(memory.NewPool(far, memory.PoolOptions{}))(t)
	pooled := need(p.Alloc(other, 64))(t)
	virtual := need(memory.Reserve(far, 64))(t)
	noErr(t, errors.Join(virtual.Grow(64), other.Memset(pooled, 5), other.Memset(virtual.Span(0, 64), 5)))
	noErr(t, errors.Join(s.WaitStream(other), gpu.EnablePeerAccess(far)))
	for name, m := range map[string]struct {
		mem   Memory
		allow func() error
	}{
		"memory.Pool":    {pooled, func() error { return p.SetAccess(devs[0], true) }},
		"memory.Virtual": {virtual.Span(0, 64), func() error { return virtual.SetAccess(devs[0], memory.AccessReadWrite) }},
	} {
		noErr(t, errors.Join(s.Copy(a, m.mem), s.Synchronize(), a.CopyTo(got)))
		if !bytes.Equal(got, bytes.Repeat([]byte{5}, 64)) {
			t.Errorf("%s: the copy is %v", name, got)
		}
		if err := uses(m.mem); !errors.Is(err, ErrDeviceMismatch) || !strings.Contains(err.Error(), name+".SetAccess") {
			t.Errorf("%s without access: %v", name, err)
		}
		noErr(t, errors.Join(m.allow(), uses(m.mem)))
	}
	noErr(t, errors.Join(s.Synchronize(), gpu.DisablePeerAccess(far), pooled.Close(), virtual.Close(), p.Close()))
	for _, err := range []error{gpu.EnablePeerAccess(far), gpu.EnablePeerAccess(far), launch(), s.Synchronize(),
		gpu.DisablePeerAccess(far), gpu.DisablePeerAccess(far)} {
		if err != nil {
			t.Error(err)
		}
	}
}
