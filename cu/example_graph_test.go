package cu_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/purecu/purecu/cu"
)

// Work is captured once, and then launched as often as need be, with one call.
func ExampleStream_Capture() {
	g, err := s.Capture(cu.CaptureGlobal, func() error {
		if err := s.Memset(x, 1); err != nil {
			return err
		}
		return s.Copy(host, x)
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	exec, err := g.Instantiate()
	if err != nil {
		log.Fatal(err)
	}
	defer exec.Close()
	for range 3 {
		if err := exec.Launch(s); err != nil {
			log.Fatal(err)
		}
	}
	if err := s.Synchronize(); err != nil {
		log.Fatal(err)
	}
	b := make([]byte, 4)
	if _, err := host.ReadAt(b, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b)
}

// Other streams join by waiting for the captured one, which has to wait for them in
// the end.
func ExampleStream_Capture_fork() {
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	g, err := s.Capture(cu.CaptureThreadLocal, func() error {
		return errors.Join(s.Memset(x, 0), other.WaitStream(s), spin.Launch(other, cfg, cu.U64(1000)),
			spin.Launch(s, cfg, cu.U64(1000)), s.WaitStream(other))
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	if err := g.WriteDOT(os.Stdout); err != nil { // for: dot -Tsvg
		log.Fatal(err)
	}
}

func ExampleStream_CaptureInfo() {
	info, err := s.CaptureInfo()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Status)
}

// A graph that is built node by node. Its events tell how long its parts take.
func ExampleGraph() {
	g, err := gpu.NewGraph()
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	var events [2]*cu.Event
	for i := range events {
		if events[i], err = gpu.NewEvent(cu.EventDefault); err != nil {
			log.Fatal(err)
		}
		defer events[i].Close()
	}
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	begin, err := g.Add(&cu.RecordNode{Event: events[0]})
	if err != nil {
		log.Fatal(err)
	}
	set, err := g.Add(&cu.MemsetNode{Dst: x, Value: 0}, begin)
	if err != nil {
		log.Fatal(err)
	}
	kernel, err := g.Add(&cu.KernelNode{Kernel: spin, Config: cfg, Args: []cu.Arg{cu.U64(1e6)}}, begin) // beside the memset
	if err != nil {
		log.Fatal(err)
	}
	if _, err := g.Add(&cu.RecordNode{Event: events[1]}, set, kernel); err != nil {
		log.Fatal(err)
	}

	exec, err := g.Instantiate()
	if err != nil {
		log.Fatal(err)
	}
	defer exec.Close()
	if err := exec.Launch(s); err != nil {
		log.Fatal(err)
	}
	d, err := cu.Elapsed(ctx, events[0], events[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a millisecond, at least:", d >= 1e6)
}

// One executable graph runs with other arguments each time.
func ExampleGraphExec_Set() {
	g, err := gpu.NewGraph()
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	kernel, err := g.Add(&cu.KernelNode{Kernel: spin, Config: cfg, Args: []cu.Arg{cu.U64(1000)}})
	if err != nil {
		log.Fatal(err)
	}
	set, err := g.Add(&cu.MemsetNode{Dst: x, Value: 0}, kernel)
	if err != nil {
		log.Fatal(err)
	}
	exec, err := g.Instantiate()
	if err != nil {
		log.Fatal(err)
	}
	defer exec.Close()
	for i := range 3 {
		if err := exec.Set(kernel, &cu.KernelNode{Kernel: spin, Config: cfg, Args: []cu.Arg{cu.U64(uint64(i) * 1000)}}); err != nil {
			log.Fatal(err)
		}
		if err := exec.SetEnabled(set, i == 0); err != nil {
			log.Fatal(err)
		}
		if err := exec.Launch(s); err != nil {
			log.Fatal(err)
		}
	}
	enabled, err := exec.Enabled(set)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the memory is set:", enabled)
}

// The arguments of all kernels of an executable graph are replaced at once.
func ExampleGraphExec_SetAll() {
	g, err := gpu.NewGraph()
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	one := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 1}}
	updates := make([]cu.NodeUpdate, 8)
	for i := range updates {
		work := &cu.KernelNode{Kernel: spin, Config: one, Args: []cu.Arg{cu.U64(1000)}}
		n, err := g.Add(work)
		if err != nil {
			log.Fatal(err)
		}
		updates[i] = cu.NodeUpdate{Node: n, Work: work}
	}
	exec, err := g.Instantiate()
	if err != nil {
		log.Fatal(err)
	}
	defer exec.Close()
	for i := range updates {
		updates[i].Work.(*cu.KernelNode).Args = []cu.Arg{cu.U64(uint64(i) * 100)}
	}
	if err := exec.SetAll(updates...); err != nil {
		log.Fatal(err) // it says which updates failed
	}
	if err := exec.Launch(s); err != nil {
		log.Fatal(err)
	}
	fmt.Println("kernels with new arguments:", len(updates))
}

// Part of a graph is captured, and other nodes come after it.
func ExampleGraph_Capture() {
	g, err := gpu.NewGraph()
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	last, err := g.Capture(s, cu.CaptureRelaxed, func() error {
		return s.Memset(x, 0)
	})
	if err != nil {
		log.Fatal(err)
	}
	end, err := g.Add(&cu.EmptyNode{}, last...)
	if err != nil {
		log.Fatal(err)
	}
	before, err := end.Dependencies()
	if err != nil {
		log.Fatal(err)
	}
	typ, err := before[0].Type()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(typ)
}

// What changes from one time to the next is captured anew, and taken over, which is
// much cheaper than to instantiate it.
func ExampleGraphExec_Update() {
	capture := func(value byte) *cu.Graph {
		g, err := s.Capture(cu.CaptureGlobal, func() error { return s.Memset(x, value) })
		if err != nil {
			log.Fatal(err)
		}
		return g
	}
	first := capture(1)
	defer first.Close()
	exec, err := first.Instantiate()
	if err != nil {
		log.Fatal(err)
	}
	defer exec.Close()
	for value := range byte(3) {
		g := capture(value)
		err := exec.Update(g)
		var refused *cu.GraphUpdateError
		if errors.As(err, &refused) {
			log.Fatal("instantiate it: ", refused) // other nodes, for example
		}
		if err := errors.Join(err, g.Close(), exec.Launch(s)); err != nil {
			log.Fatal(err)
		}
	}
	b := make([]byte, 2)
	if err := errors.Join(s.Synchronize(), x.CopyTo(b)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b)
}

// An event that is external marks points of the graph whenever it runs, not just in
// the capture.
func ExampleEventFlags_external() {
	done, err := gpu.NewEvent(cu.EventExternal)
	if err != nil {
		log.Fatal(err)
	}
	defer done.Close()
	g, err := s.Capture(cu.CaptureGlobal, func() error {
		return errors.Join(s.Memset(x, 0), done.Record(s))
	})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	exec, err := g.Instantiate()
	if err != nil {
		log.Fatal(err)
	}
	defer exec.Close()
	if err := errors.Join(exec.Launch(s), done.Wait(ctx)); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the graph has run")
}
