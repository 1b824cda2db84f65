// Command vecadd adds two slices on the GPU, with copies that wait, and with copies on a stream.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"log"

	"github.com/purecu/purecu/cu"
	_ "github.com/purecu/purecu/cusim/auto"
)

//go:embed add.ptx
var ptx []byte

func main() {
	const n = 1 << 20
	a, b, c, ones := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	for i := range a {
		a[i], b[i], ones[i] = float32(i), 2*float32(i), 1
	}
	gpu := must(must(must(cu.Open()).Device(0)).PrimaryContext())
	s, mod := must(gpu.NewStream(cu.StreamNonBlocking)), must(gpu.LoadModule(ptx))
	da, db, dc := must(cu.AllocFrom(gpu, a)), must(cu.AllocFrom(gpu, b)), must(cu.AllocFor[float32](gpu, n))
	pinned := must(cu.AllocHostFor[float32](gpu, n, cu.HostDefault))
	defer func() {
		check(errors.Join(pinned.Close(), da.Close(), db.Close(), dc.Close(), mod.Close(), s.Close(), gpu.Close()))
	}()
	add := must(mod.Function("add_f32"))
	sum := must(add.Prepare(cu.Grid1D(n, 256), cu.Ptr(dc), cu.Ptr(da), cu.Ptr(db), cu.U32(n)))

	check(errors.Join(sum.Launch(s), s.Synchronize(), cu.CopyTo(dc, c)))
	verify(c, 3, 0)
	fmt.Println("ok", c[n-1])

	check(cu.View(pinned, func(v []float32) error { copy(v, ones); return nil }))
	check(errors.Join(s.Copy(da, pinned), sum.Launch(s), s.Copy(pinned, dc), s.Synchronize()))
	check(cu.View(pinned, func(v []float32) error { copy(c, v); return nil }))
	verify(c, 2, 1)
	fmt.Println("async ok", c[3] == 7, c[3])
}

func verify(c []float32, factor, term float32) {
	for i, v := range c {
		if v != factor*float32(i)+term {
			log.Fatalf("c[%d] = %v", i, v)
		}
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
