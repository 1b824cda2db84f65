package races

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oracle knows the order of the work in the plainest way: as a graph that it searches.
type oracle struct {
	before [][]int // of each step, the steps that come directly before it
	uses   []Use   // of each step
	tails  map[Stream]int
	events map[uintptr]int
	host   []int // what the host knows
	raised map[uint64]int
}

// reaches reports whether step a comes before step b.
func (o *oracle) reaches(a, b int) bool {
	seen := map[int]bool{}
	var search func(int) bool
	search = func(s int) bool {
		if s == a {
			return true
		}
		if s < a || seen[s] { // the steps before a step have lower numbers
			return false
		}
		seen[s] = true
		return slices.ContainsFunc(o.before[s], search)
	}
	return search(b)
}

// add adds a step, and reports whether its use is a race with an earlier one.
func (o *oracle) add(u Use, before ...int) (n int, race bool) {
	n = len(o.before)
	o.before = append(o.before, slices.DeleteFunc(before, func(b int) bool { return b < 0 }))
	o.uses = append(o.uses, u)
	for m, v := range o.uses[:n] {
		overlap := u.Addr < v.Addr+v.Size && v.Addr < u.Addr+u.Size && u.OnHost == v.OnHost
		if overlap && (u.Write || v.Write) && !o.reaches(m, n) {
			race = true
		}
	}
	return n, race
}

func (o *oracle) tail(s Stream) int {
	if t, ok := o.tails[s]; ok {
		return t
	}
	return -1
}

// TestRandomPrograms compares the detector with the oracle: the first race of a random program is
// found when it occurs, and nothing is found before.
func TestRandomPrograms(t *testing.T) {
	found := 0
	for seed := range uint64(5_000) {
		if runProgram(t, seed) {
			found++
		}
		if t.Failed() {
			return
		}
	}
	if found < 1_000 || found > 4_500 {
		t.Errorf("%d of 5,000 programs have a race: the test is too easy", found)
	}
}

func runProgram(t *testing.T, seed uint64) (raced bool) {
	r := rand.New(rand.NewPCG(seed, 1))
	var found []Race
	d := New(func(x Race) { found = append(found, x) })
	o := &oracle{tails: map[Stream]int{}, events: map[uintptr]int{}, raised: map[uint64]int{}}
	streams := []Stream{{Context: 1, Handle: 0x10}, {Context: 1, Handle: 0x20}, {Context: 1, Handle: 0x30}}
	for _, s := range streams {
		d.NewStream(s, true, true)
	}
	d.NewTimeline(7, 0)
	value := uint64(0)
	use := func(write int) Use {
		return Use{Addr: 100 + r.Uint64N(12), Size: 1 + r.Uint64N(3), Write: r.IntN(3) < write, OnHost: r.IntN(4) == 0}
	}
	log := ""
	for range 25 {
		race := false
		s := streams[r.IntN(len(streams))]
		switch e := uintptr(1 + r.IntN(3)); r.IntN(9) {
		case 0, 1, 2:
			u := use(1)
			log += fmt.Sprintf("enqueue %v %v\n", s, u)
			d.Enqueue(s, "work", "", []Use{u})
			o.tails[s], race = o.add(u, append(slices.Clone(o.host), o.tail(s))...)
		case 3:
			log += fmt.Sprintf("record %v %d\n", s, e)
			d.Record(s, e, PlainEvent)
			o.tails[s], _ = o.add(Use{}, append(slices.Clone(o.host), o.tail(s))...)
			o.events[e] = o.tails[s]
		case 4, 5:
			log += fmt.Sprintf("wait %v %d\n", s, e)
			d.Wait(s, e, PlainEvent)
			if rec, ok := o.events[e]; ok {
				o.tails[s], _ = o.add(Use{}, append(slices.Clone(o.host), o.tail(s), rec)...)
			}
		case 6:
			log += fmt.Sprintf("done %d\n", e)
			d.EventDone(e, PlainEvent)
			if rec, ok := o.events[e]; ok {
				o.host = append(o.host, rec)
			}
		case 7:
			u := use(1)
			u.OnHost = true
			log += fmt.Sprintf("host %v\n", u)
			d.HostUse("use", u)
			var n int
			n, race = o.add(u, o.host...)
			o.host = append(o.host, n)
		case 8:
			if r.IntN(2) == 0 {
				value++
				log += fmt.Sprintf("signal %v %d\n", s, value)
				d.Signal(s, 7, value)
				// A wait for a value waits for the lowest value that is as high.
				o.tails[s], _ = o.add(Use{}, append(slices.Clone(o.host), o.tail(s))...)
				o.raised[value] = o.tails[s]
			} else if value > 0 {
				v := 1 + r.Uint64N(value)
				log += fmt.Sprintf("block %v %d\n", s, v)
				d.Block(s, 7, v)
				o.tails[s], _ = o.add(Use{}, append(slices.Clone(o.host), o.tail(s), o.raised[v])...)
			}
		}
		d.Report()
		if race != (len(found) > 0) {
			t.Errorf("seed %d: a race: %v, found %v, in\n%s", seed, race, found, log)
		}
		if race || t.Failed() {
			return race
		}
	}
	return false
}

// TestPending enqueues work behind things that come later.
func TestPending(t *testing.T) {
	a, b := Stream{Context: 1, Handle: 0x10}, Stream{Context: 1, Handle: 0x20}
	write := []Use{{Addr: 8, Size: 8, Write: true}}
	for _, tt := range []struct {
		name  string
		run   func(d *Detector)
		races int
	}{
		{"a block before its signal", func(d *Detector) {
			d.Block(b, 7, 1)
			d.Enqueue(b, "second", "", write)
			d.Enqueue(a, "first", "", write)
			d.Signal(a, 7, 1)
		}, 0},
		{"a block for another signal", func(d *Detector) {
			d.Block(b, 7, 1)
			d.Enqueue(b, "second", "", write)
			d.Signal(a, 7, 1)
			d.Enqueue(a, "first", "", write)
		}, 1},
		{"a chain of blocks", func(d *Detector) {
			d.Block(b, 7, 1)
			d.Signal(b, 8, 1)
			d.Block(a, 8, 1)
			d.Record(a, 1, PlainEvent)
			d.Wait(Stream{Context: 1, Handle: 0x30}, 1, PlainEvent)
			d.Enqueue(Stream{Context: 1, Handle: 0x30}, "last", "", write)
			d.Enqueue(Stream{Context: 1, Handle: 0x40}, "first", "", write)
			d.Signal(Stream{Context: 1, Handle: 0x40}, 7, 1)
		}, 0},
		{"a host function", func(d *Detector) {
			f := d.NewHostFunc()
			d.EnqueueHostFunc(a, f)
			d.Enqueue(a, "copy", "", []Use{{Addr: 8, Size: 8, OnHost: true}})
			d.HostFuncBegins(f)
			d.HostUse("write", Use{Addr: 8, Size: 8, OnHost: true, Write: true})
			d.HostFuncEnds(f)
		}, 0},
		{"a host function that the driver refuses", func(d *Detector) {
			f := d.NewHostFunc()
			d.EnqueueHostFunc(a, f)
			d.HostFuncDropped(f)
			d.Enqueue(a, "first", "", write)
			d.Enqueue(b, "second", "", write)
		}, 1},
		{"the host waits for what is pending", func(d *Detector) {
			d.Block(a, 7, 1)
			d.Enqueue(a, "copy", "", []Use{{Addr: 8, Size: 8, OnHost: true, Write: true}})
			d.StreamDone(a) // another goroutine saw it before the signal was observed
			d.HostSignal(7, 1)
			d.HostUse("read", Use{Addr: 8, Size: 8, OnHost: true})
		}, 0},
		{"a refused launch after one that was not", func(d *Detector) {
			d.BeginCapture(a, 0, nil)
			d.Enqueue(a, "first", "", write)
			d.EndCapture(a, 0x30)
			d.Instantiate(0x50, 0x30)
			d.Launch(a, 0x50)
			d.BeginCapture(b, 0, nil)
			d.Launch(b, 0x50) // no stream that is being captured can launch a graph
			d.LaunchFailed(0x50)
			d.EndCapture(b, 0x60)
			d.Enqueue(b, "second", "", write)
		}, 1},
		{"values around the end of the circle", func(d *Detector) {
			d.NewTimeline(7, 1<<64-2)
			d.Enqueue(a, "first", "", write)
			d.Signal(a, 7, 1)
			d.Block(b, 7, 1<<64-1)
			d.Enqueue(b, "second", "", write)
		}, 0},
	} {
		n := 0
		d := New(func(Race) { n++ })
		for _, s := range []Stream{a, b, {Context: 1, Handle: 0x30}, {Context: 1, Handle: 0x40}} {
			d.NewStream(s, true, true)
		}
		d.NewTimeline(7, 0)
		d.NewTimeline(8, 0)
		if tt.run(d); true {
			d.Stop()
		}
		if n != tt.races {
			t.Errorf("%s: %d races, want %d", tt.name, n, tt.races)
		}
	}
}

// TestOtherKinds checks the reports that are no unordered uses.
func TestOtherKinds(t *testing.T) {
	s := Stream{Context: 1, Handle: 0x10}
	number := []Use{{Addr: 0x108, Address: true, As: "argument 1"}}
	for _, tt := range []struct {
		run  func(d *Detector)
		want string
	}{
		{func(d *Detector) {
			d.Allocated("device memory", 0x100, 16, false)
			d.Freed(0x100, false)
			d.Enqueue(s, "cuLaunchKernel", "kernel k", number)
		}, "use after free: cuLaunchKernel of kernel k on stream 1 gets 0x108 as argument 1, an address in device memory " +
			"that was freed before"},
		{func(d *Detector) {
			d.Allocated("device memory", 0x100, 16, false)
			d.Enqueue(s, "cuLaunchKernel", "kernel k", number)
			d.Allocated("device memory", 0x100, 16, false)
		}, "race: new memory is at the address 0x108 that cuLaunchKernel of kernel k on stream 1 has as argument 1, " +
			"and this work may still run"},
		{func(d *Detector) {
			d.Allocated("device memory", 0x100, 16, false)
			d.Enqueue(s, "cuLaunchKernel", "kernel k", number)
			d.ContextDone(1)
			d.Allocated("device memory", 0x100, 16, false)
		}, ""},
		{func(d *Detector) { d.Enqueue(s, "cuLaunchKernel", "kernel k", number) }, ""}, // a number
	} {
		var got []string
		d := New(func(r Race) { got = append(got, r.Summary()) })
		d.NewStream(s, true, true)
		tt.run(d)
		d.Stop()
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

// TestOpened opens memory that handles name. Openings count: after the last one, other memory may be there.
func TestOpened(t *testing.T) {
	a, b := Stream{Context: 1, Handle: 0x10}, Stream{Context: 1, Handle: 0x20}
	write := func(d *Detector, s Stream, addr uint64) {
		d.Enqueue(s, "work", "", []Use{{Addr: addr, Size: 8, Write: true}})
	}
	number := []Use{{Addr: 0x104, Address: true, As: "argument 1"}}
	for _, tt := range []struct {
		name string
		run  func(d *Detector)
		want int
	}{
		{"one address", func(d *Detector) {
			d.Opened("memory", 0x100, 16, 7)
			write(d, a, 0x100)
			d.Opened("memory", 0x100, 16, 7)
			write(d, b, 0x104)
		}, 1},
		{"one address, after the end of one opening", func(d *Detector) {
			d.Opened("memory", 0x100, 16, 7)
			d.Opened("memory", 0x100, 16, 7)
			write(d, a, 0x100)
			d.Freed(0x100, false)
			d.Opened("memory", 0x100, 16, 7)
			write(d, b, 0x104)
			d.Freed(0x100, false)
			d.Enqueue(b, "cuLaunchKernel", "kernel k", number) // it is not freed
		}, 1},
		{"other memory at the address", func(d *Detector) {
			d.Opened("memory", 0x100, 16, 7)
			write(d, a, 0x100)
			d.Freed(0x100, false)
			d.Opened("memory", 0x100, 16, 8)
			write(d, b, 0x100)
		}, 0},
		{"other memory whose end was not seen", func(d *Detector) {
			d.Opened("memory", 0x100, 16, 7)
			write(d, a, 0x100)
			d.Opened("memory", 0x100, 16, 8)
			write(d, b, 0x100)
		}, 0},
		{"after memory of another kind", func(d *Detector) {
			d.Allocated("device memory", 0x100, 16, false)
			write(d, a, 0x100)
			d.Freed(0x100, false)
			d.Opened("memory", 0x100, 16, 7)
			write(d, b, 0x100)
			d.Enqueue(b, "cuLaunchKernel", "kernel k", number)
		}, 0},
		{"after the end", func(d *Detector) {
			d.Opened("memory", 0x100, 16, 7)
			d.Opened("memory", 0x100, 16, 7)
			d.Freed(0x100, false)
			d.Freed(0x100, false)
			d.Enqueue(b, "cuLaunchKernel", "kernel k", number)
		}, 1},
		{"two addresses", func(d *Detector) {
			d.Opened("memory", 0x100, 16, 7)
			write(d, a, 0x100)
			d.Opened("memory", 0x200, 16, 7)
			write(d, b, 0x208) // other bytes
			write(d, b, 0x200)
		}, 1},
		{"two addresses, after the end of one", func(d *Detector) {
			d.Opened("memory", 0x100, 16, 7)
			write(d, a, 0x100)
			d.Freed(0x100, false)
			d.Opened("memory", 0x200, 16, 7)
			write(d, b, 0x200)
		}, 0},
		{"other memory at the address, and the first at another one", func(d *Detector) {
			d.Opened("memory", 0x100, 16, 7)
			d.Opened("memory", 0x100, 16, 8) // the end of the first was not seen
			write(d, a, 0x100)
			d.Opened("memory", 0x200, 16, 7)
			write(d, b, 0x200)
		}, 0},
		{"memory of another kind at one of two addresses", func(d *Detector) {
			d.Opened("memory", 0x100, 16, 7)
			d.Opened("memory", 0x200, 16, 7)
			d.Allocated("device memory", 0x100, 16, false)
			write(d, a, 0x100)
			write(d, b, 0x200)
		}, 0},
		{"two addresses, after an opening whose size was not known", func(d *Detector) {
			d.Opened("memory", 0x100, 0, 7)
			d.Freed(0x100, false)
			d.Opened("memory", 0x200, 16, 7)
			write(d, a, 0x200)
			d.Opened("memory", 0x300, 16, 7)
			write(d, b, 0x300)
		}, 1},
	} {
		n := 0
		d := New(func(Race) { n++ })
		d.NewStream(a, true, true)
		d.NewStream(b, true, true)
		tt.run(d)
		d.Stop()
		if n != tt.want {
			t.Errorf("%s: %d races, want %d", tt.name, n, tt.want)
		}
	}
}

// TestReusedHandles creates objects whose handles other objects had before.
func TestReusedHandles(t *testing.T) {
	a, b := Stream{Context: 1, Handle: 0x10}, Stream{Context: 1, Handle: 0x20}
	write := []Use{{Addr: 8, Size: 8, Write: true}}
	for name, between := range map[string]func(d *Detector){
		"event": func(d *Detector) {
			d.Record(a, 5, PlainEvent)
			d.EventDestroyed(5)
			d.Wait(b, 5, PlainEvent) // it was never recorded
		},
		"stream": func(d *Detector) {
			d.StreamDestroyed(b)
			d.NewStream(b, true, true)
		},
		"stream without notice": func(d *Detector) {
			d.Record(a, 5, PlainEvent)
			d.Wait(b, 5, PlainEvent)
			d.NewStream(b, true, true)
		},
		"graph": func(d *Detector) {
			d.NewGraph(0x30, 0)
			d.AddNode(0x30, 0x40, nil, NodeWork{Event: 6, Waits: true})
			d.Record(a, 6, PlainEvent)
			d.NewGraph(0x30, 0)
			d.Instantiate(0x50, 0x30)
			d.Launch(b, 0x50)
		},
		"executable graph": func(d *Detector) {
			d.NewGraph(0x30, 0)
			d.Instantiate(0x50, 0x30)
			d.Launch(a, 0x50)
			d.ExecDestroyed(0x50)
			d.Instantiate(0x50, 0x30)
			d.Launch(b, 0x50) // launches of one executable graph would be in order
		},
		"timeline": func(d *Detector) {
			d.NewTimeline(7, 0)
			d.Signal(a, 7, 1)
			d.NewTimeline(7, 1)
			d.Block(b, 7, 1)
		},
	} {
		n := 0
		d := New(func(Race) { n++ })
		d.NewStream(a, true, true)
		d.NewStream(b, true, true)
		d.Enqueue(a, "first", "", write)
		between(d)
		d.Enqueue(b, "second", "", write)
		if d.Stop(); n != 1 {
			t.Errorf("%s: %d races, want 1", name, n)
		}
	}
}

// TestBounded checks that what the detector keeps does not grow with the work.
func TestBounded(t *testing.T) {
	d := New(func(r Race) { t.Errorf("%v", r) })
	var handle uintptr = 0x1000
	for i := range 5_000 {
		handle += 0x10
		s := Stream{Context: 1, Handle: handle}
		d.NewStream(s, i%2 == 0, true)
		d.Allocated("device memory", 0x100, 64, false)
		d.Enqueue(s, "work", "", []Use{{Addr: 0x100 + uint64(i%32), Size: 32, Write: true}})
		f := d.NewHostFunc()
		d.EnqueueHostFunc(s, f)
		d.StreamNeeded(s)
		d.HostFuncBegins(f)
		d.HostFuncEnds(f)
		d.Record(s, handle, PlainEvent)
		d.EventDone(handle, PlainEvent)
		d.EventDestroyed(handle)
		d.StreamDestroyed(s)
		d.NewGraph(0x50, 0)
		d.AddNode(0x50, 0x60, nil, NodeWork{})
		d.Instantiate(0x70, 0x50)
		d.Launch(Stream{Context: 1, Handle: Legacy}, 0x70)
		d.StreamDone(Stream{Context: 1, Handle: Legacy})
		d.ExecDestroyed(0x70)
		d.Report()
	}
	if n := len(d.host); n > 64 {
		t.Errorf("%d lanes", n)
	}
	n := len(d.memory.segments[0]) + len(d.memory.allocations[0])
	if n += len(d.streams) + len(d.events) + len(d.hostFuncs); n > 32 {
		t.Errorf("%d entries", n)
	}
}

// TestConcurrentUse uses a detector from several goroutines, for the race detector of Go.
func TestConcurrentUse(t *testing.T) {
	d := New(func(Race) {})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			s := Stream{Context: 1, Handle: uintptr(0x10 * (i + 1))}
			for k := range 200 {
				d.Enqueue(s, "work", "", []Use{{Addr: 8, Size: 8, Write: true}})
				d.Record(s, uintptr(i), PlainEvent)
				d.Wait(s, uintptr(k%4), PlainEvent)
				d.EventDone(uintptr(k%4), PlainEvent)
				d.Report()
			}
		})
	}
	wg.Wait()
}
