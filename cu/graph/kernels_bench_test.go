package graph_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
	"github.com/purecu/purecu/internal/testrig/override"
)

// idleSet is a driver that does nothing to replace the work of a kernel node. But it reads some memory of
// its own for each node, because a GPU's driver takes room in the processor's caches.
type idleSet struct {
	Software driver.Software
	own      []byte
	each, at int
	sum      byte
}

func (d *idleSet) GraphExecKernelNodeSetParams(*driver.Thread, driver.GraphExec, driver.GraphNode,
	*driver.KernelNodeParams) driver.Result {
	if d.at+d.each > len(d.own) {
		d.at = 0
	}
	end := d.at + d.each
	for ; d.at < end; d.at += 64 {
		d.sum += d.own[d.at]
	}
	return driver.ResultSuccess
}

// BenchmarkSetAll measures what Set and SetAll themselves cost for a node: the difference
// to the table.
func BenchmarkSetAll(b *testing.B) {
	for _, c := range []struct {
		name  string
		nodes int
		each  int
	}{{"32 nodes", 32, 0}, {"64 nodes", 64, 0}, {"32 nodes, small caches", 32, 4 << 10}} {
		sim := &idleSet{Software: cusim.New().Software(), own: make([]byte, c.nodes*c.each), each: c.each}
		drv := Need(Open(WithSoftware(driver.Provide(override.Driver(sim)))))(b)
		gpu := Need(Need(drv.Device(0))(b).PrimaryContext())(b)
		mod, m := Need(gpu.LoadModule([]byte(SpinPTX)))(b), Need(gpu.Alloc(16))(b)
		add := Need(mod.Function("add"))(b)
		g := Need(graph.New(gpu))(b)
		updates := make([]graph.NodeUpdate, c.nodes)
		raws, params := make([]driver.GraphNode, c.nodes), make([]*driver.KernelNodeParams, c.nodes)
		results := make([]driver.Result, c.nodes)
		for i := range updates {
			u := graph.NodeUpdate{Work: &graph.Kernel{Function: add, Config: FourThreads, Args: []Arg{Ptr(m), U32(4), F32(1)}}}
			u.Node = Need(g.Add(u.Work))(b)
			updates[i], raws[i], params[i] = u, graph.RawNode(u.Node), new(driver.KernelNodeParams)
		}
		x := Need(g.Instantiate())(b)
		run := func(name string, f func() error) {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.nodes), "ns/node")
			})
		}
		run("table", func() error {
			at := driver.At{Context: driver.Context(gpu.Handle())}
			if res := core.Of(drv).Table().GraphExecKernelNodeSetParamsAll(at, graph.RawExec(x), raws, params, results); res != 0 {
				return res
			}
			return nil
		})
		run("SetAll", func() error { return x.SetAll(updates...) })
		run("Set", func() error {
			for i := range updates {
				u := &updates[i]
				if err := x.Set(u.Node, u.Work); err != nil {
					return err
				}
			}
			return nil
		})
		if err := errors.Join(x.Close(), g.Close(), m.Close(), mod.Close(), gpu.Close(), drv.Close()); err != nil {
			b.Error(err)
		}
	}
}
