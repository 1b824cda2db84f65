package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	. "github.com/purecu/purecu/internal/testrig"
)

// TestGPURegisterHost registers memory of Go's heap on a real GPU: see gpu_test.go.
func TestGPURegisterHost(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	mod := Need(gpu.LoadModule([]byte(SpinPTX)))(t)
	defer mod.Close()
	b := pages(1 << 16)
	h := Need(gpu.RegisterHost(b, HostPortable|HostDeviceMap))(t)
	NoErr(t, View(h, func(v []float32) error { v[31] = 41; return nil }))
	add := Need(mod.Function("add"))(t)
	NoErr(t, add.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}, Ptr(h), U32(32), F32(1)))
	m := Need(gpu.Alloc(h.Size()))(t)
	defer m.Close()
	NoErr(t, s.Copy(m, h))
	NoErr(t, s.Synchronize())
	v := make([]float32, 32)
	NoErr(t, CopyTo(m, v))
	if v[31] != 42 || v[0] != 1 {
		t.Errorf("the values are %v", v)
	}
	_, err := gpu.RegisterHost(b, 0)
	t.Logf("a second registration: %v", err)
	if !errors.Is(err, ResultHostMemoryAlreadyRegistered) {
		t.Error(err)
	}
	NoErr(t, h.Close())
	h = Need(gpu.RegisterHost(b[64:1000], 0))(t) // not of whole pages
	NoErr(t, s.Memset(h, 7))
	NoErr(t, s.Synchronize())
	NoErr(t, h.Close())
	if b[63] == 7 || b[64] != 7 || b[999] != 7 || b[1000] == 7 {
		t.Error("the wrong bytes were set")
	}
}
