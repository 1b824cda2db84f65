package memory_test

import (
	"encoding"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

var (
	_ encoding.BinaryMarshaler   = memory.IPCHandle{}
	_ encoding.BinaryAppender    = memory.IPCHandle{}
	_ encoding.BinaryUnmarshaler = new(memory.IPCHandle)
	_ encoding.TextMarshaler     = memory.IPCHandle{}
	_ encoding.TextAppender      = memory.IPCHandle{}
	_ encoding.TextUnmarshaler   = new(memory.IPCHandle)
)

// TestIPCMemHandle sends a handle through what takes one. It shares the code of IPCEventHandle, whose
// tests are more.
func TestIPCMemHandle(t *testing.T) {
	h := memory.IPCHandle(AnyIPCHandle())
	text := Need(json.Marshal(map[memory.IPCHandle]memory.IPCHandle{h: h}))(t)
	var got map[memory.IPCHandle]memory.IPCHandle
	NoErr(t, json.Unmarshal(text, &got))
	if got[h] != h || h.IsZero() {
		t.Errorf("it comes back as %v", got)
	}
	var b memory.IPCHandle
	NoErr(t, b.UnmarshalBinary(Need(h.MarshalBinary())(t)))
	if b != h || b.String() != h.String() {
		t.Errorf("it comes back as %v", b)
	}
	for what, err := range map[string]error{
		"cu: memory.IPCHandle.AppendText: nil object; the handle is zero, and names no memory: pass one that memory.IPCHandleOf has returned": func() error {
			_, err := memory.IPCHandle{}.MarshalText()
			return err
		}(),
		"cu: memory.IPCHandle.UnmarshalBinary: invalid argument; there are 1 bytes, and a handle has 64: pass the result of MarshalBinary": b.UnmarshalBinary([]byte{1}),
		"cu: memory.IPCHandle.UnmarshalText: nil object; the handle is nil: check the error of the call that should have made it":          (*memory.IPCHandle)(nil).UnmarshalText(text),
	} {
		if err == nil || err.Error() != what {
			t.Errorf("%v; want %s", err, what)
		}
	}
	if b != h {
		t.Errorf("an error has changed it to %v", b)
	}
}

// TestIPCMemMistakes asks for handles of memory that has none, and opens handles of no memory. Each
// error says what to do.
func TestIPCMemMistakes(t *testing.T) {
	r := NewSoft(t)
	pooled := Need(r.S.Alloc(64))(t)
	closed := Need(r.GPU.Alloc(64))(t)
	NoErr(t, closed.Close())
	virtual := Need(memory.Reserve(r.GPU, 2<<20))(t)
	NoErr(t, virtual.Grow(2<<20))
	mod := Need(r.GPU.LoadModule([]byte(".version 7.0\n.target sm_70\n.address_size 64\n.global .u32 v;\n")))(t)
	variable := Need(mod.Global("v"))(t)
	get := func(m *DeviceMem) error { _, err := memory.IPCHandleOf(m); return err }
	open := func(c *Context, h memory.IPCHandle) error { _, err := memory.OpenIPC(c, h); return err }
	for _, tt := range []struct {
		name string
		err  error
		is   error
		want string
	}{
		{"nil", get(nil), ErrNil, "cu: cuIpcGetMemHandle: nil object; the device memory is nil: check the error of the call that should have made it"},
		{"closed", get(closed), ErrClosed, ""},
		{"pool", get(pooled), drivercall.ErrInvalid, "invalid argument; the memory is of a pool: use memory.PoolHandleOf for memory of a shareable pool, or Context.Alloc"},
		{"virtual", get(virtual.Mem()), drivercall.ErrInvalid, "invalid argument; the memory is virtual: use memory.Physical.Export, or Context.Alloc"},
		{"variable", get(variable), drivercall.ErrInvalid, "invalid argument; the memory is a variable of a module: copy it to memory of Context.Alloc"},
		{"open, nil", open(nil, memory.IPCHandle{1}), ErrNil, ""},
		{"open, zero", open(r.GPU, memory.IPCHandle{}), ErrNil, "nil object; the handle is zero, and names no memory: pass one that memory.IPCHandleOf has returned"},
		{"open, no handle", open(r.GPU, memory.IPCHandle{1}), ResultInvalidValue, ""},
	} {
		if !errors.Is(tt.err, tt.is) || tt.want != "" && !strings.HasSuffix(tt.err.Error(), tt.want) {
			t.Errorf("%s: %v; want %s", tt.name, tt.err, tt.want)
		}
	}
	NoErr(t, errors.Join(pooled.Close(), virtual.Close(), variable.Close(), mod.Close()))
}

// opening is a driver that seems to open the memory of another process, and counts the closes.
type opening struct {
	Software driver.Software
	closes   *int
	unknown  *bool // it does not know the memory
}

func (d opening) IpcOpenMemHandle(th *driver.Thread, _ driver.IPCMemHandle, _ uint32) (driver.DevicePtr,
	driver.Result) {
	return d.Software.MemAlloc(th, 64)
}

func (d opening) IpcCloseMemHandle(th *driver.Thread, p driver.DevicePtr) driver.Result {
	*d.closes++
	return d.Software.MemFree(th, p)
}

func (d opening) MemGetAddressRange(th *driver.Thread, p driver.DevicePtr) (driver.DevicePtr, uint64, driver.Result) {
	if *d.unknown {
		return 0, 0, driver.ResultNotFound
	}
	return d.Software.MemGetAddressRange(th, p)
}

// TestIPCMemClosed closes and abandons memory of another process while a stream uses it. It is closed by a
// call that may wait, and serves no allocation.
func TestIPCMemClosed(t *testing.T) {
	sim, closes, unknown := cusim.New(), 0, false
	opens := override.Driver(opening{sim.Software(), &closes, &unknown})
	drv := Need(OpenNeverWait(WithSoftware(driver.Provide(opens))))(t)
	gpu := Need(Need(drv.Device(0))(t).PrimaryContext())(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	pending := func() bool { return core.Of(gpu).Context.Deferred.Pending() }
	m := Need(memory.OpenIPC(gpu, memory.IPCHandle{1}))(t)
	NoErr(t, s.Memset(m, 1))
	NoErr(t, m.Close()) // waits for the stream
	if closes != 1 || m.Size() != 64 {
		t.Errorf("it was closed %d times", closes)
	}

	sim.Hold(s.Handle())
	func() {
		m := Need(memory.OpenIPC(gpu, memory.IPCHandle{1}))(t)
		NoErr(t, s.Memset(m, 1))
	}()
	if !Eventually(pending) {
		t.Fatal("abandoned memory is not deferred")
	}
	other := Need(gpu.Alloc(64))(t) // none of the other process
	if closes != 1 || !pending() {
		t.Errorf("it was closed %d times while the stream uses it", closes)
	}
	sim.Release(s.Handle())
	NoErr(t, other.Close()) // this closes it, too
	if closes != 2 {
		t.Errorf("it was closed %d times", closes)
	}

	unknown = true // nobody knows why
	if _, err := memory.OpenIPC(gpu, memory.IPCHandle{1}); !errors.Is(err, ResultNotFound) {
		t.Errorf("memory of unknown size: %v", err)
	}
	if closes != 2 {
		t.Error("a call that must not wait has closed the memory")
	}
	NoErr(t, gpu.Synchronize())
	if closes != 3 {
		t.Errorf("it was closed %d times", closes)
	}
	NoErr(t, errors.Join(s.Close(), gpu.Close(), drv.Close()))
	sim.Check(t)
}
