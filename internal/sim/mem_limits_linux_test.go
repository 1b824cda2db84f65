package sim

import (
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/sim/mem"
)

// limitEnv is set in the processes that TestAddressLimits starts: to the resource and its limit.
const limitEnv = "PURECU_TEST_LIMIT"

// TestAddressLimits uses memory in processes with limits for their addresses, until there is no more. Calls then return
// a result; Go's runtime would end the process.
func TestAddressLimits(t *testing.T) {
	if v := os.Getenv(limitEnv); v != "" {
		var resource int
		var limit uint64
		if _, err := fmt.Sscan(v, &resource, &limit); err != nil {
			t.Fatal(err)
		}
		underLimit(t, resource, limit)
		return
	}
	if raceEnabled {
		t.Skip("the race detector needs more addresses")
	}
	for resource, limit := range map[int]uint64{syscall.RLIMIT_AS: 5 << 29, syscall.RLIMIT_DATA: 1 << 30} {
		c := osexec.Command(os.Args[0], "-test.run=^TestAddressLimits$", "-test.v")
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", limitEnv, resource, limit))
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("resource %d, %d bytes: %v\n%s", resource, limit, err, out)
		}
	}
}

func underLimit(t *testing.T, resource int, limit uint64) {
	l := syscall.Rlimit{Cur: limit, Max: limit}
	if err := syscall.Setrlimit(resource, &l); err != nil {
		t.Fatal(err)
	}
	const full = driver.ResultOutOfMemory
	r := newLab(t)
	s := r.newStream()
	store, res := r.ModuleGetFunction(r.th, r.load(storeText), "store")
	r.must(res)
	const size = mostFree / 10 * 8
	p, res := r.MemAlloc(r.th, size)
	r.must(res)
	r.must(r.MemcpyHtoD(r.th, p+size-4, []byte("abcd")))
	r.must(r.MemsetD8Async(r.th, p+5<<30, 'x', 100, s))
	r.must(r.launchOn(s, store, 1, params(p+7<<30, uint32('y'))))
	r.must(r.StreamSynchronize(r.th, s))
	if got := r.read(p+size-8, 8) + r.read(p+5<<30-1, 2) + r.read(p+7<<30, 4); got != "\x00\x00\x00\x00abcd\x00xy\x00\x00\x00" {
		t.Errorf("the memory has %q", got)
	}
	_, res = r.MemAllocManaged(r.th, 8<<30, driver.CU_MEM_ATTACH_GLOBAL)
	r.want("managed memory", full, res) // has addresses of the process
	m, res := r.MemAllocManaged(r.th, 64<<20, driver.CU_MEM_ATTACH_GLOBAL)
	r.must(res)
	r.must(r.MemsetD8(r.th, m, 1, 64<<20))

	// All that is left, in several ways.
	const part = 64 << 20
	fill := func(what string, write func(off driver.DevicePtr) driver.Result) {
		t.Helper()
		n := 0
		for off := driver.DevicePtr(0); ; off += part {
			if res := write(off); res != ok {
				r.want(what, full, res)
				break
			}
			if n++; n > int(limit/part) {
				t.Fatalf("%s: the limit has no effect", what)
			}
		}
		t.Logf("%s: %d times", what, n)
		r.must(r.StreamSynchronize(r.th, s))
	}
	fill("a set", func(off driver.DevicePtr) driver.Result { return r.MemsetD8Async(r.th, p+off, 1, part, s) })
	fill("a copy", func(off driver.DevicePtr) driver.Result { return r.MemcpyDtoDAsync(r.th, p+10<<30+off, m, part, s) })
	var list []driver.DevicePtr
	for range 2 { // what is freed can be used again
		for _, q := range list {
			r.must(r.MemFree(r.th, q))
		}
		before := len(list)
		list = nil
		fill("small memory", func(driver.DevicePtr) driver.Result {
			for range part / mem.Whole {
				q, res := r.MemAlloc(r.th, mem.Whole)
				r.must(res)
				list = append(list, q)
				if res := r.MemsetD8(r.th, q, 1, mem.Whole); res != ok {
					return res
				}
			}
			return ok
		})
		if len(list) < before/10*9 {
			t.Errorf("after %d pieces of small memory were freed, there are %d", before, len(list))
		}
	}
	fill("pinned memory", func(driver.DevicePtr) driver.Result {
		q, res := r.MemHostAlloc(r.th, part, 0)
		if res == ok {
			t.Cleanup(func() { r.MemFreeHost(r.th, q) })
		}
		return res
	})
	if got := r.read(p, 1) + r.read(p+size-4, 4); got != "\x01abcd" {
		t.Errorf("in the end the memory has %q", got)
	}
	for _, q := range append(list, p, m) {
		r.must(r.MemFree(r.th, q))
	}
}

// TestManyMappings frees every second of many pieces of memory. Each piece that is left could be a mapping, and Go's
// runtime ends a process that has too many. So pieces are parts of mappings, or calls return a result.
func TestManyMappings(t *testing.T) {
	for size, most := range map[uint64]int{mem.MostStale: 200, mem.MostStale + 1: 400} {
		r := newLab(t)
		before := mappingsNow(t)
		var list []driver.DevicePtr
		for i := range 600 {
			p, res := r.MemAlloc(r.th, size)
			r.must(res)
			list = append(list, p)
			r.must(r.MemsetD8(r.th, p, 1, 1))
			if i%2 == 1 {
				r.must(r.MemFree(r.th, list[i-1]))
			}
		}
		if n := mappingsNow(t) - before; n > most {
			t.Errorf("600 pieces of %d bytes, of which 300 are freed, have %d mappings", size, n)
		}
		r.space.budget.Mappings.Add(mem.MostMappings())
		p, res := r.MemAlloc(r.th, 64<<20)
		r.must(res)
		r.want("one mapping too many", driver.ResultOutOfMemory, r.MemsetD8(r.th, p, 1, 1))
		_, res = r.MemHostAlloc(r.th, 64<<20, 0)
		r.want("pinned memory", driver.ResultOutOfMemory, res)
		r.space.budget.Mappings.Add(-mem.MostMappings())
		r.must(r.MemsetD8(r.th, p, 1, 1))
		r.must(r.MemFree(r.th, p))
		for i := 1; i < len(list); i += 2 {
			r.must(r.MemFree(r.th, list[i]))
		}
	}
}

// mappingsNow returns how many mappings the process has.
func mappingsNow(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}
