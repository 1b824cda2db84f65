package simd_test

import (
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/ptx/vm/simd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// special are numbers at which results change: of 32 and of 64 bits, integers and floats, with NaNs of all kinds.
var special = []uint64{0, 1, 2, 31, 32, 33, 63, 64, 65, 1 << 31, 1<<31 - 1, 1<<32 - 1, 1 << 32, 1<<32 | 31,
	1 << 63, 1<<63 - 1,
	1<<64 - 1, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffc12345, 0x7f7fffff,
	0x00800000,
	0x007fffff, 0x80000001, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000,
	0x7ff8000000000000, 0x7ff0000000000001, 0xfff8123456789abc, 0x7fefffffffffffff, 0x0010000000000000,
	0x000fffffffffffff, 0x8000000000000001}

// column returns a column of numbers, of which many are special. The upper halves of numbers of 32 bits are any.
func column(r *rand.Rand) (c simd.Column) {
	for i := range c {
		switch c[i] = r.Uint64(); r.IntN(4) {
		case 0:
			c[i] = special[r.IntN(len(special))]
		case 1:
			c[i] = c[i]<<32 | special[r.IntN(len(special))]&(1<<32-1)
		case 2:
			c[i] = uint64(r.IntN(70))
		}
	}
	return c
}

// lanes returns lanes: often all.
func lanes(r *rand.Rand) uint32 {
	switch r.IntN(4) {
	case 0, 1:
		return vm.Full
	case 2:
		return 0xff << (8 * r.IntN(4))
	}
	return r.Uint32()
}

// sized returns the lower bits of a column, as many as the destination of an instruction has.
func sized(v isa.Variant, c simd.Column) simd.Column {
	t := v.T()
	for _, o := range v.Operands() {
		if o.Role == 'd' {
			t = v.Type(o)
		}
	}
	if n := len(t); t[n-2:] == "64" {
		return c
	} else if t[n-2:] == "16" {
		for i := range c {
			c[i] &= 1<<16 - 1
		}
		return c
	}
	for i := range c {
		c[i] &= 1<<32 - 1
	}
	return c
}

// TestFunctions compares each function of each level with that of package isa, also if the result is written to an
// operand.
func TestFunctions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, level := range simd.Levels() {
		functions := level.Functions()
		if len(functions) == 0 {
			t.Errorf("level %d has no functions", level)
		}
		for _, name := range slices.Sorted(maps.Keys(functions)) {
			v, _, ok := isa.Find(name)
			if !ok || v.String() != name {
				t.Errorf("%s: there is no such instruction: %v", name, v)
				continue
			}
			scalar := v.Make(v)
			for range 2000 {
				registers := []vm.Column{column(r), column(r), column(r), column(r)}
				o := &vm.Op{D: int32(r.IntN(4)), A: 1, B: 2, C: 3}
				active, got := lanes(r), slices.Clone(registers)
				left := functions[name](&got[o.D], &got[1], &got[2], &got[3], active)
				if left&^active != 0 {
					t.Fatalf("%s leaves %#x of the lanes %#x", name, left, active)
				}
				rest := &vm.Warp{R: got, Active: left}
				scalar(rest, o)
				want := &vm.Warp{R: slices.Clone(registers), Active: active}
				scalar(want, o)
				a, b := sized(v, got[o.D]), sized(v, want.R[o.D])
				for i := range a {
					if active>>i&1 == 0 {
						a[i], b[i] = got[o.D][i], registers[o.D][i]
					}
					if a[i] != b[i] {
						t.Fatalf("level %d: %s of %#x, %#x, %#x in lane %d of %#x is %#x, want %#x", level, name,
							registers[1][i],
							registers[2][i], registers[3][i], i, active, a[i], b[i])
					}
				}
				for i := range registers {
					if int32(i) != o.D && got[i] != registers[i] {
						t.Fatalf("level %d: %s changes an operand", level, name)
					}
				}
			}
		}
	}
	if simd.Available() != (len(simd.Levels()) > 0) {
		t.Errorf("available: %v, with the levels %v", simd.Available(), simd.Levels())
	}
}

// TestComparisons compares each comparison of each level with Go's.
func TestComparisons(t *testing.T) {
	compared := func(name string, a, b uint64) bool {
		comparison, typ, _ := strings.Cut(name, ".")
		less, equal, nan := a < b, a == b, false
		switch typ {
		case "b32", "u32":
			less, equal = uint32(a) < uint32(b), uint32(a) == uint32(b)
		case "s32":
			less, equal = int32(a) < int32(b), uint32(a) == uint32(b)
		case "s64":
			less = int64(a) < int64(b)
		case "f32", "f64":
			x, y := math.Float64frombits(a), math.Float64frombits(b)
			if typ == "f32" {
				x, y = float64(math.Float32frombits(uint32(a))), float64(math.Float32frombits(uint32(b)))
			}
			less, equal, nan = x < y, x == y, x != x || y != y
		}
		return map[string]bool{"eq": equal, "lt": less, "le": less || equal, "nan": nan}[comparison]
	}
	r := rand.New(rand.NewPCG(7, 8))
	for _, level := range simd.Levels() {
		for name, f := range level.Comparisons() {
			for range 2000 {
				a, b := column(r), column(r)
				for i := range a {
					if r.IntN(4) == 0 {
						a[i] = b[i]
					}
				}
				yes := f(&a, &b)
				for i := range a {
					if got := yes>>i&1 != 0; got != compared(name, a[i], b[i]) {
						t.Fatalf("level %d: %s of %#x and %#x in lane %d is %v", level, name, a[i], b[i], i, got)
					}
				}
			}
		}
	}
}

// TestChoose compares the choice of lanes with a loop.
func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, level := range simd.Levels() {
		for range 2000 {
			d, a, b, yes, active := column(r), column(r), column(r), r.Uint32(), lanes(r)
			want := d
			for i := range want {
				switch {
				case active>>i&1 == 0:
				case yes>>i&1 != 0:
					want[i] = a[i]
				default:
					want[i] = b[i]
				}
			}
			if !level.Choose(&d, &a, &b, yes, active) || d != want {
				t.Fatalf("level %d: %#x, want %#x", level, d, want)
			}
		}
	}
}

// addresses returns addresses of numbers of n bytes as programs have them, of which now and then one is wrong.
func addresses(r *rand.Rand, base, size, n uint64) (a simd.Column) {
	first := base + uint64(r.IntN(int(size/n)-64))*n
	for i := range a {
		a[i] = first + uint64(i)*n
	}
	switch r.IntN(6) {
	case 0: // all numbers at one address
		a = simd.Column{}
		for i := range a {
			a[i] = first
		}
	case 1: // scattered
		for i := range a {
			a[i] = base + uint64(r.IntN(int(size/n)))*n
		}
	case 2: // rows
		for i := range a {
			a[i] = first + uint64(i%16)*n + uint64(i/16)*32*n
		}
	case 3: // with gaps
		for i := range a {
			a[i] = first + uint64(i)/4*n
		}
	}
	switch i := r.IntN(32); r.IntN(8) {
	case 0:
		a[i]++
	case 1:
		a[i] = base - n
	case 2:
		a[i] = base + size
	case 3:
		a[i] = base + size - n // the last one
	}
	return a
}

// TestMemory compares loads and stores of each level with loops.
func TestMemory(t *testing.T) {
	for _, level := range simd.Levels() {
		testMemory(t, level)
	}
}

func testMemory(t *testing.T, level simd.Level) {
	r := rand.New(rand.NewPCG(5, 6))
	const size, offset = 4096, 24
	refused, accessed := 0, 0
	for range 20_000 {
		n, base, mask := uint64(4), uint64(1<<40), uint64(1<<64-1)
		if r.IntN(2) == 0 {
			n = 8
		}
		if r.IntN(2) == 0 { // addresses have 32 bits
			base, mask = vm.SharedBegin, 1<<32-1
		}
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		a, v, active := addresses(r, base-offset, size, n), column(r), lanes(r)
		if mask != 1<<64-1 {
			for i := range a {
				a[i] |= r.Uint64() << 32
			}
		}
		want, stored, ok := v, slices.Clone(data), true
		for i := range want {
			at := (a[i] + offset - base) & mask
			if active>>i&1 == 0 {
				continue
			}
			if ok = ok && at <= size-n && at%n == 0; !ok {
				break
			}
			want[i] = 0
			for j := range n {
				want[i] |= uint64(data[at+j]) << (8 * j)
				stored[at+j] = byte(v[i] >> (8 * j))
			}
		}
		m := simd.Memory{Offset: offset, Base: base, Size: size, Bits: mask, Access: n, Data: unsafe.Pointer(&data[0])}
		load, store := level.Load32, level.Store32
		if n == 8 {
			load, store = level.Load64, level.Store64
		}
		loaded, before := v, slices.Clone(data)
		done := load(&loaded, &a, &m, active)
		if level != simd.AVX512 { // it need not do what others can do
			ok = ok && done
		}
		if done != ok || done && loaded != want || !done && loaded != v {
			t.Fatalf("level %d: loaded: %v, want %v:\n%#x\n%#x", level, done, ok, loaded, want)
		}
		if !ok {
			stored, refused = before, refused+1
		} else {
			accessed++
		}
		if done := store(&v, &a, &m, active); done != ok || !slices.Equal(data, stored) {
			t.Fatalf("level %d: stored: %v, want %v, %d lanes at %#x", level, done, ok, bits.OnesCount32(active), a)
		}
	}
	if refused == 0 || accessed < 2000 {
		t.Errorf("level %d: %d addresses were wrong, and %d right", level, refused, accessed)
	}
	// All lanes are active and have one address, so that no level refuses an access for another reason.
	for _, c := range []struct{ size, access, address uint64 }{
		{7, 8, 0},                 // the memory is smaller
		{16, 16, 8}, {16, 16, 16}, // half of a pair is outside
		{16, 16, 0}, // right
	} {
		var loaded, at simd.Column
		for i := range at {
			at[i] = c.address
		}
		m := &simd.Memory{Size: c.size, Bits: 1<<64 - 1, Access: c.access, Data: unsafe.Pointer(new([4]uint64))}
		want := c.address+c.access <= c.size
		if level.Load64(&loaded, &at, m, vm.Full) != want || level.Store64(&loaded, &at, m, vm.Full) != want {
			t.Errorf("level %d: %+v is accessed: %v, want %v", level, c, !want, want)
		}
	}
}
