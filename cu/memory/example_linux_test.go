package memory_test

import (
	"errors"
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
)

// One process shares memory; another one, in Go, C or Python, opens it by the handle.
func ExampleIPCHandle() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()

	mem := must(cu.AllocFrom(gpu, []float32{1, 2, 3}))
	defer mem.Close() // after the other process has closed it
	text := must(must(memory.IPCHandleOf(mem)).MarshalText())

	// The other process receives the text:
	open := func(gpu *cu.Context, text []byte) ([]float32, error) {
		var h memory.IPCHandle
		if err := h.UnmarshalText(text); err != nil {
			return nil, err
		}
		mem, err := memory.OpenIPC(gpu, h)
		if err != nil {
			return nil, err
		}
		defer mem.Close()
		values := make([]float32, mem.Size()/4)
		return values, cu.CopyTo(mem, values)
	}

	_, err := open(gpu, text) // here it is the same process
	fmt.Println(len(text), errors.Is(err, cu.ErrSameProcess))
	// Output:
	// 128 true
}
