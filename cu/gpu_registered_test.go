package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
)

// TestGPURegisterHost registers memory of Go's heap on a real GPU: see gpu_test.go.
func TestGPURegisterHost(t *testing.T) {
	gpu := gpuContext(t)
	s := need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	mod := need(gpu.LoadModule([]byte(spinPTX)))(t)
	defer mod.Close()
	b := pages(1 << 16)
	h := need(gpu.RegisterHost(b, HostPortable|HostDeviceMap))(t)
	noErr(t, View(h, func(v []float32) error { v[31] = 41; return nil }))
	add := need(mod.Function("add"))(t)
	noErr(t, add.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 32}}, Ptr(h), U32(32), F32(1)))
	m := need(gpu.Alloc(h.Size()))(t)
	defer m.Close()
	noErr(t, s.Copy(m, h))
	noErr(t, s.Synchronize())
	v := make([]float32, 32)
	noErr(t, CopyTo(m, v))
	if v[31] != 42 || v[0] != 1 {
		t.Errorf("the values are %v", v)
	}
	_, err := gpu.RegisterHost(b, 0)
	t.Logf("a second registration: %v", err)
	if !errors.Is(err, ResultHostMemoryAlreadyRegistered) {
		t.Error(err)
	}
	noErr(t, h.Close())
	h = need(gpu.RegisterHost(b[64:1000], 0))(t) // not of whole pages
	noErr(t, s.Memset(h, 7))
	noErr(t, s.Synchronize())
	noErr(t, h.Close())
	if b[63] == 7 || b[64] != 7 || b[999] != 7 || b[1000] == 7 {
		t.Error("the wrong bytes were set")
	}
}
