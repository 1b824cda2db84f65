package slab

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// registrar is a software driver that registers memory.
type registrar struct {
	driver.Unimplemented
	mu         sync.Mutex
	registered map[driver.HostPtr]bool
	// register and pointer are the results of the next calls of the two functions.
	register, pointer []driver.Result
	calls             int // of MemHostRegister
}

func newRegistrar() (*registrar, *driver.Table) {
	r := &registrar{registered: make(map[driver.HostPtr]bool)}
	return r, driver.NewSoftware(r)
}

func next(list *[]driver.Result) (r driver.Result) {
	if len(*list) > 0 {
		r, *list = (*list)[0], (*list)[1:]
	}
	return r
}

func (r *registrar) MemHostRegister(_ *driver.Thread, p driver.HostPtr, _ uint64, _ uint32) driver.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	if res := next(&r.register); res != driver.ResultSuccess {
		return res
	}
	if r.registered[p] {
		return driver.ResultHostMemoryAlreadyRegistered
	}
	r.registered[p] = true
	return driver.ResultSuccess
}

func (r *registrar) MemHostGetDevicePointer(_ *driver.Thread, p driver.HostPtr,
	_ uint32) (driver.DevicePtr, driver.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if res := next(&r.pointer); res != driver.ResultSuccess {
		return 0, res
	}
	return driver.DevicePtr(p) + 1<<60, driver.ResultSuccess
}

// in is a context, identified by a number, that registers memory with table.
func in(key int, table *driver.Table) Context[int] {
	return Context[int]{Place: Place[int]{Key: key}, Table: (*driver.TableState)(table)}
}

// TestCells takes all cells of a slab, and one more.
func TestCells(t *testing.T) {
	_, table := newRegistrar()
	var pool Pool[int]
	var k Cells
	grow := func() Cell {
		t.Helper()
		x, err := k.Grow(func(size int) (*Slab, error) {
			s, f := pool.New(size, in(1, table))
			if f != nil {
				t.Fatal(f.Op, f.Result, f.Err)
			}
			return s, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	seen := make(map[driver.DevicePtr]bool)
	use := func(x Cell) {
		t.Helper()
		if seen[x.Raw()] || x.Raw()%CellSize != 0 {
			t.Fatalf("a cell is at %#x; given twice: %v", x.Raw(), seen[x.Raw()])
		}
		seen[x.Raw()] = true
		for i := range CellWords {
			x.Word(i).Store(uint64(x.Raw()) + uint64(i))
		}
	}
	if _, ok := k.Take(); ok {
		t.Error("there is a cell without a slab")
	}
	sizes := []int{minSize, minSize, 2 * minSize, 4 * minSize, 8 * minSize, maxSize, maxSize}
	all := 0
	var cells []Cell
	for _, size := range sizes {
		x := grow()
		cells, all = append(cells, x), all+size/CellSize
		use(x)
		for x, ok := k.Take(); ok; x, ok = k.Take() {
			cells = append(cells, x)
			use(x)
		}
		if n, free := k.Count(); n != all || free != 0 || len(seen) != all {
			t.Fatalf("%d cells, of which %d are free; want %d", n, free, all)
		}
	}
	for _, x := range cells {
		for i := range CellWords {
			if v := x.Word(i).Load(); v != uint64(x.Raw())+uint64(i) {
				t.Fatalf("word %d at %#x is %#x: cells overlap", i, x.Raw(), v)
			}
		}
	}
	k.Put(cells[0])
	x := grow() // needs no slab
	if x.Clear(); x != cells[0] || x.Word(0).Load()|x.Word(CellWords-1).Load() != 0 {
		t.Errorf("the cell at %#x is %#x", x.Raw(), x.Word(0).Load())
	}
	left := k.Detach()
	if n, free := k.Count(); len(left) != len(sizes) || n != 0 || free != 0 || pool.Mapped() != len(sizes) {
		t.Errorf("%d slabs left %d cells, of which %d are free; %d are mapped", len(left), n, free, pool.Mapped())
	}
	pool.Drop(len(left))
	if n := pool.Mapped(); n != 0 {
		t.Errorf("%d slabs are mapped", n)
	}
}

// TestGrowTogether has many callers need a slab at once, after a call that failed.
func TestGrowTogether(t *testing.T) {
	r, table := newRegistrar()
	var pool Pool[int]
	var k Cells
	errFirst := errors.New("the first fails")
	if _, err := k.Grow(func(int) (*Slab, error) { return nil, errFirst }); err != errFirst {
		t.Error(err)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := k.Grow(func(size int) (*Slab, error) {
				s, _ := pool.New(size, in(1, table))
				return s, nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n, free := k.Count(); r.calls != 1 || n-free != 20 {
		t.Errorf("%d slabs were registered; %d cells are in use", r.calls, n-free)
	}
}

// TestAddresses uses a cell in other contexts.
func TestAddresses(t *testing.T) {
	r, table := newRegistrar()
	var pool Pool[int]
	var k Cells
	x, _ := k.Grow(func(size int) (*Slab, error) {
		s, _ := pool.New(size, in(1, table))
		return s, nil
	})
	y, _ := k.Take()
	if _, known := x.Address("other"); known {
		t.Error("an address is known that nobody has asked for")
	}
	r.pointer = []driver.Result{driver.ResultUnknown}
	if p, res := x.Map("other", table, driver.At{}); p != 0 || res != driver.ResultUnknown {
		t.Errorf("an address that the driver does not tell: %#x, %v", p, res)
	}
	if p, res := y.Map("other", table, driver.At{}); p != y.Raw() || res != driver.ResultSuccess {
		t.Errorf("address %#x, %v; want %#x", p, res, y.Raw())
	}
	if p, known := x.Address("other"); p != x.Raw() || !known {
		t.Errorf("address %#x, known: %v; want %#x", p, known, x.Raw())
	}
	k.Forget("another")
	if _, known := x.Address("other"); !known {
		t.Error("the address in another context was forgotten")
	}
	k.Forget("other")
	if _, known := x.Address("other"); known {
		t.Error("the address is known in a context that is gone")
	}
}

// TestLeft leaves slabs in a context that goes on, in one that does not, and in none.
func TestLeft(t *testing.T) {
	var p Pool[int]
	left := func(key int) driver.HostPtr {
		t.Helper()
		m, err := newMemory(1, false)
		if err != nil {
			t.Fatal(err)
		}
		p.count(1)
		p.Put([]*Slab{{memory: m}}, Place[int]{Key: key})
		return m.Addr()
	}
	const none, mine, other = 0, 1, 2
	a, b, c := left(mine), left(none), left(other)
	for i, want := range []struct {
		take func() (freeSlab[int], bool)
		addr driver.HostPtr
		in   int
	}{
		{func() (freeSlab[int], bool) { return p.take(3) }, 0, none},
		{func() (freeSlab[int], bool) { return p.take(other) }, c, other},
		{func() (freeSlab[int], bool) { return p.take(other) }, 0, none},
		{p.takeOldest, a, mine},
		{func() (freeSlab[int], bool) { return p.take(none) }, b, none},
		{p.takeOldest, 0, none},
	} {
		switch f, ok := want.take(); {
		case !ok && want.addr == 0:
		case !ok || f.Addr() != want.addr || f.in.Key != want.in:
			t.Errorf("%d: slab %v, want %#x of %v", i, f.in, want.addr, want.in)
		}
	}
	if n := p.Mapped(); n != 3 {
		t.Errorf("%d mappings", n)
	}
}

// TestRegister gets slabs that are registered, were registered, or cannot be.
func TestRegister(t *testing.T) {
	const failed, already = driver.ResultOutOfMemory, driver.ResultHostMemoryAlreadyRegistered
	const register, address = "cuMemHostRegister", "cuMemHostGetDevicePointer"
	type results []driver.Result
	for name, c := range map[string]struct {
		leftIn            []int // where slabs were left
		unregistered      bool  // whether these slabs are not registered any more
		register, pointer results
		op                string // of the failure
		mapped, free      int    // slabs afterwards
	}{
		"the first":                         {mapped: 1},
		"no memory":                         {register: results{failed}, op: register, mapped: 1, free: 1},
		"no address":                        {pointer: results{failed}, op: address, mapped: 1, free: 1},
		"registered since earlier":          {leftIn: []int{1}, mapped: 1},
		"registered, without an address":    {leftIn: []int{1}, pointer: results{failed}, op: address, mapped: 1, free: 1},
		"registered in another context":     {leftIn: []int{2}, mapped: 2, free: 1},
		"of a context that ended":           {leftIn: []int{2}, unregistered: true, mapped: 1},
		"registered nowhere":                {leftIn: []int{0}, unregistered: true, mapped: 1},
		"registered, but nobody knows that": {leftIn: []int{0}, mapped: 2, free: 1},
		"one of several":                    {leftIn: []int{2, 0, 1}, mapped: 3, free: 2},
		"an error of an old slab":           {leftIn: []int{0}, register: results{failed}, op: register, mapped: 1, free: 1},
		"nothing is as it was noted":        {leftIn: []int{0}, register: results{already, already}, mapped: 2, free: 1},
	} {
		r, table := newRegistrar()
		var p Pool[int]
		var left []*Slab
		for range c.leftIn {
			s, f := p.New(minSize, in(100, table))
			if f != nil {
				t.Fatal(name, f)
			}
			left = append(left, s)
		}
		for i, s := range left {
			if c.unregistered {
				delete(r.registered, s.Addr())
			}
			p.Put([]*Slab{s}, Place[int]{Key: c.leftIn[i]})
		}
		r.register, r.pointer = c.register, c.pointer
		s, f := p.New(minSize, in(1, table))
		switch {
		case (f != nil) != (c.op != ""), f != nil && (f.Op != c.op || f.Result != failed):
			t.Errorf("%s: failure %+v, want %q", name, f, c.op)
		case f == nil && (s.Raw() != driver.DevicePtr(s.Addr())+1<<60 || !r.registered[s.Addr()]):
			t.Errorf("%s: the slab is at %#x", name, s.Raw())
		}
		if len(p.free) != c.free || p.Mapped() != c.mapped {
			t.Errorf("%s: %d slabs, of which %d are free; want %d and %d", name, p.Mapped(), len(p.free), c.mapped, c.free)
		}
	}
}

// TestUnmap gives memory back that is mapped: when nothing refers to it.
func TestUnmap(t *testing.T) {
	now := func() (n int, known bool) {
		maps, err := os.ReadFile("/proc/self/maps")
		return bytes.Count(maps, []byte("\n")), err == nil
	}
	before, known := now()
	if !known {
		t.Skip("the operating system does not tell what is mapped")
	}
	var p Pool[int]
	const many = 200
	for i := range many {
		m, err := newMemory(minSize, false)
		if err != nil {
			t.Fatal(err)
		}
		p.count(1)
		p.Put([]*Slab{{memory: m}}, Place[int]{Key: i % 2})
	}
	if n, _ := now(); n < before+many/2 { // Go's heap may have some less now
		t.Skip("the operating system does not tell what is mapped")
	}
	s := p.free[0].mapping
	p.Unmap(func(_ driver.HostPtr, in Place[int]) bool { return in.Key == 0 })
	if n := p.Mapped(); n != many/2 || len(p.free) != many/2 {
		t.Errorf("%d slabs are mapped, and %d are free, want %d", n, len(p.free), many/2)
	}
	p.Unmap(func(driver.HostPtr, Place[int]) bool { return true })
	deadline := time.Now().Add(10 * time.Second)
	n, _ := now()
	for ; n >= before+many/2 && time.Now().Before(deadline); n, _ = now() {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if n >= before+many/2 || p.Mapped() != 0 {
		t.Errorf("%d mappings became %d; %d slabs are mapped", before, n, p.Mapped())
	}
	s.mem[0] = 1 // is there still
	runtime.KeepAlive(s)
}
