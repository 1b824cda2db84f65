//go:build !windows

package cutest_test

import (
	"errors"
	"github.com/purecu/purecu/cu/graph"
	"os"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/cutest"
)

// external returns a semaphore of another API, which the test plays, and an import of it.
func (p *scene) external(timeline bool) (*cusim.ExternalSemaphore, *interop.Semaphore) {
	x := get[*cusim.ExternalSemaphore](p)(p.sim.NewExternalSemaphore(timeline))
	h := interop.SemaphoreHandle{Type: interop.SemaphoreFD}
	if timeline {
		h.Type = interop.SemaphoreTimelineFD
	}
	f, err := x.File()
	p.do(err)
	h.Handle = f.Fd()
	s := get[*interop.Semaphore](p)(interop.ImportSemaphore(p.gpu, h))
	p.do(f.Close())
	p.Cleanup(func() { s.Close(); x.Close() })
	return x, s
}

// raceTest is an element of raceTests.
type raceTest = struct {
	name string
	run  func(*scene)
	deps int
}

func init() {
	if os.Getenv(cutest.Environment) != "" {
		return // a test cannot play the other API
	}
	raceTests = append(raceTests,
		raceTest{"timeline semaphore", func(p *scene) {
			_, s := p.external(true)
			p.fill(p.a)
			p.do(interop.Signal(p.a, s.At(3)))
			p.order(func() error { return interop.Wait(p.b, s.At(2)) })
			p.read(p.b)
		}, 1},
		raceTest{"two values of a timeline semaphore", func(p *scene) {
			_, s := p.external(true)
			p.do(interop.Signal(p.a, s.At(1)))
			p.do(interop.Wait(p.b, s.At(1)))
			p.fill(p.a)
			p.do(interop.Signal(p.a, s.At(2)))
			p.order(func() error { return interop.Wait(p.b, s.At(2)) })
			p.read(p.b)
		}, 1},
		raceTest{"timeline semaphore that is signalled after the wait", func(p *scene) {
			_, s := p.external(true)
			p.order(func() error { return interop.Wait(p.b, s.At(5)) })
			p.do(p.b.Copy(p.m.Span(0, 8), p.m.Span(8, 8)))
			p.do(p.a.Memset(p.m, 1)) // before the copy
			p.do(interop.Signal(p.a, s.At(4), s.At(6)))
		}, 1},
		raceTest{"binary semaphore, there and back", func(p *scene) {
			_, s := p.external(false)
			for range 2 {
				p.fill(p.a)
				p.do(interop.Signal(p.a, s.At(0)))
				p.order(func() error { return interop.Wait(p.b, s.At(0)) })
				p.read(p.b)
				p.do(p.a.WaitStream(p.b))
			}
		}, 2},
		raceTest{"semaphores of nodes", func(p *scene) {
			_, s := p.external(true)
			g := p.graph()
			fill := get[graph.Node](p)(g.Add(&graph.Memset{Dst: p.m, Value: 1}))
			get[graph.Node](p)(g.Add(&graph.ExternalSignal{Ops: []cu.ExternalOp{s.At(1)}}, fill))
			other := p.graph()
			var after []graph.Node
			p.order(func() error {
				n, err := other.Add(&graph.ExternalWait{Ops: []cu.ExternalOp{s.At(1)}})
				after = append(after, n)
				return err
			})
			get[graph.Node](p)(other.Add(&graph.Copy{Dst: p.n, Src: p.m}, after...))
			x, y := p.exec(g), p.exec(other)
			p.do(errors.Join(x.Launch(p.a), y.Launch(p.b)))
		}, 1},
		raceTest{"semaphore in a captured graph", func(p *scene) {
			_, s := p.external(true)
			g := get[*graph.Graph](p)(graph.Capture(p.a, graph.CaptureRelaxed, func() error {
				return errors.Join(p.a.Memset(p.m, 1), interop.Signal(p.a, s.At(1)))
			}))
			p.do(p.exec(g).Launch(p.a))
			p.order(func() error { return interop.Wait(p.b, s.At(1)) })
			p.read(p.b)
		}, 1})

	// The other API may have waited for anything that was signalled before it signals something.
	orderedPrograms["a semaphore that the other API signals"] = func(p *scene) {
		x, s := p.external(true)
		y, there := p.external(true)
		p.fill(p.a)
		p.do(interop.Signal(p.a, there.At(1)))
		p.do(y.Wait(bg, 1))
		x.Signal(1)
		p.do(interop.Wait(p.b, s.At(1)))
		p.read(p.b)
		p.do(p.b.Synchronize())
		p.fill(p.a)
	}
	orderedPrograms["a semaphore that the other API signals, and one that it will signal"] = func(p *scene) {
		x, s := p.external(true)
		y, there := p.external(true)
		p.do(interop.Wait(p.b, s.At(1)))
		p.read(p.b)
		p.fill(p.a)
		p.do(interop.Signal(p.a, there.At(1)))
		p.do(interop.Wait(p.a, there.At(2))) // not now
		p.do(y.Wait(bg, 1))
		x.Signal(1)
		p.do(p.b.Synchronize())
		y.Signal(2)
	}
	orderedPrograms["a semaphore that the other API signals after the wait"] = func(p *scene) {
		x, s := p.external(false)
		y, there := p.external(false)
		p.do(interop.Wait(p.b, s.At(0)))
		p.read(p.b)
		p.fill(p.a)
		p.do(interop.Signal(p.a, there.At(0)))
		p.do(y.Wait(bg, 0))
		x.Signal(0)
		p.do(p.b.Synchronize())
	}
	orderedPrograms["a semaphore that is set back"] = func(p *scene) {
		_, s := p.external(true)
		for range 2 {
			p.do(interop.Signal(p.a, s.At(0)))
			p.do(p.b.WaitStream(p.a))
			p.do(interop.Wait(p.b, s.At(1)))
			p.read(p.b)
			p.fill(p.a)
			p.do(interop.Signal(p.a, s.At(1)))
			p.do(p.a.WaitStream(p.b))
		}
	}
	orderedPrograms["a value that a semaphore always has"] = func(p *scene) {
		_, s := p.external(true)
		p.do(interop.Wait(p.b, s.At(0)))
		p.read(p.b)
	}
	orderedPrograms["a semaphore of which many waits are ended by the other API"] = func(p *scene) {
		x, s := p.external(true)
		x.Signal(1000)
		for i := range uint64(200) {
			p.do(interop.Wait(p.b, s.At(i+1)))
			p.read(p.b)
		}
	}
}
