package testrig

import (
	"errors"
	"os"
	"testing"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/driver"
)

// HostKinds are the kinds of pools whose memory the host can access, by the name of their memory.
var HostKinds = map[string]memory.PoolKind{"host memory": memory.PoolPinned, "managed memory": memory.PoolManaged}

// GPUPool returns a pool, or skips the test.
func GPUPool(t testing.TB, gpu *cu.Context, o memory.PoolOptions) *memory.Pool {
	t.Helper()
	if n := Need(gpu.Device().Attribute(cu.DeviceAttributeMemoryPoolsSupported))(t); n == 0 {
		t.Skip("the device has no pools of memory")
	}
	p, err := memory.NewPool(gpu, o)
	if errors.Is(err, cu.ResultNotSupported) {
		t.Skip(err)
	}
	NoErr(t, err)
	t.Cleanup(func() { NoErr(t, p.Close()) })
	return p
}

// Reserve reserves addresses, which the end of the test frees.
func Reserve(r *Soft, size uint64) *memory.Virtual {
	r.T.Helper()
	m := Need(memory.Reserve(r.GPU, size))(r.T)
	r.T.Cleanup(func() { m.Close() })
	return m
}

// NewGreen returns a green context of at least eight multiprocessors.
func NewGreen(r *Soft) *green.Context {
	r.T.Helper()
	parts, _, err := Need(green.DeviceSMs(r.GPU.Device()))(r.T).Split(8)
	r.OK(err)
	g := Need(green.New(r.GPU, parts[0]))(r.T)
	r.T.Cleanup(func() { g.Close() })
	return g
}

// ExportedFile returns a file of memory that the driver imports like that of another API, and the memory's size.
func ExportedFile(t testing.TB, gpu *cu.Context) (*os.File, uint64) {
	t.Helper()
	p, err := memory.NewPhysical(gpu, 1, memory.PhysicalOptions{Shareable: true})
	if errors.Is(err, cu.ResultNotSupported) { // on Windows
		t.Skip(err)
	}
	NoErr(t, err)
	defer p.Close()
	f := Need(p.Export())(t)
	t.Cleanup(func() { f.Close() })
	return f, p.Size()
}

// OpaqueFD returns the handle of a file.
func OpaqueFD(f *os.File) interop.MemHandle {
	return interop.MemHandle{Type: interop.MemOpaqueFD, Handle: f.Fd()}
}

// AnyIPCHandle returns a handle of which every byte differs.
func AnyIPCHandle() (h cu.IPCEventHandle) {
	for i := range h {
		h[i] = byte(0xc0 + i)
	}
	return h
}

// WindowsSemaphores is a driver that imports handles of Windows.
type WindowsSemaphores struct {
	driver.Software
	Got *[]driver.ExternalSemaphoreHandleDesc
}

// ImportExternalSemaphore notes what it gets.
func (d WindowsSemaphores) ImportExternalSemaphore(_ *driver.Thread,
	desc driver.ExternalSemaphoreHandleDesc) (driver.ExternalSemaphore, driver.Result) {
	*d.Got = append(*d.Got, desc)
	return driver.ExternalSemaphore(len(*d.Got)), driver.ResultSuccess
}

// DestroyExternalSemaphore does nothing.
func (d WindowsSemaphores) DestroyExternalSemaphore(*driver.Thread, driver.ExternalSemaphore) driver.Result {
	return driver.ResultSuccess
}
