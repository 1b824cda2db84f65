package cu_test

import (
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
)

// A tensor of other code, as a DLTensor or __cuda_array_interface__ describes it, becomes memory: parts
// of it are slices of float32, and the whole is rows with a pitch.
func ExampleContext_WrapMem() {
	drv := must(cu.Open(cu.WithSoftware(cusim.New())))
	defer drv.Close()
	gpu := must(must(drv.Device(0)).PrimaryContext())
	defer gpu.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()
	theirs := must(cu.AllocFrom(gpu, []float32{1, 2, 3, -1, 4, 5, 6, -1})) // stands for the other code's
	defer theirs.Close()

	t := struct {
		data           uint64
		shape, strides [2]uint64 // strides are in elements, as in a DLTensor
	}{theirs.Handle(), [2]uint64{2, 3}, [2]uint64{4, 1}}

	const size = 4 // of a float32
	rows, columns, pitch := t.shape[0], t.shape[1], size*t.strides[0]
	mem := must(gpu.WrapMem(t.data, (rows-1)*pitch+columns*size))
	defer mem.Close() // frees nothing
	host := must(cu.AllocHostFor[float32](gpu, int(rows*columns), cu.HostDefault))
	defer host.Close()

	second := cu.SpanOf[float32](mem, int(t.strides[0]), int(columns)) // the second row
	check(s.Memset(second.Span(0, size), 0))                           // its first element
	check(s.Copy2D(cu.Rows{Mem: host}, cu.Rows{Mem: mem, Pitch: pitch}, size*columns, rows))
	check(s.Synchronize())
	check(cu.View(host, func(v []float32) error { fmt.Println(v); return nil }))
	// Output: [1 2 3 0 5 6]
}
