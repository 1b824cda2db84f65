package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/nvml/raw"
)

// TestNumbers makes every call of an NVML that lacks all functions, and checks which one is missing.
func TestNumbers(t *testing.T) {
	source, err := os.ReadFile("znvml.go")
	if err != nil {
		t.Fatal(err)
	}
	l := newNVML(raw.Unimplemented{}, nil)
	cases := regexp.MustCompile(`case (\d+): // (\w+)`).FindAllStringSubmatch(string(source), -1)
	if len(cases) < 400 {
		t.Errorf("there are %d calls", len(cases))
	}
	for _, c := range cases {
		number, _ := strconv.Atoi(c[1])
		for _, address := range []uint64{0, addressOf(new([1 << 14]byte))} {
			var words [nvmlWords]uint64
			for i := range words {
				words[i] = address
			}
			r := l.call(uint32(number), &words)
			if name, _ := r.Missing(); name != c[2] && (address != 0 || r != raw.NVML_ERROR_INVALID_ARGUMENT) {
				t.Errorf("%s makes a call of %s: %v", c[2], name, r)
			}
			if r := l.result(uint32(number), &words); r != raw.NVML_ERROR_FUNCTION_NOT_FOUND && address != 0 {
				t.Errorf("%s returns %v to C", c[2], r)
			}
		}
	}
	if r := l.result(uint32(len(cases)+10), new([nvmlWords]uint64)); r != raw.NVML_ERROR_FUNCTION_NOT_FOUND {
		t.Errorf("a number that no function has: %v", r)
	}
}

// memory keeps what a word leads to where it is.
var memory []any

// addressOf returns the address of a variable as C passes it.
func addressOf[T any](p *T) uint64 {
	memory = append(memory, p)
	return uint64(uintptr(unsafe.Pointer(p)))
}

// poison is what C's memory has before a call that need not be told.
const poison = 0xab

// poisoned returns n bytes.
func poisoned(n int) []byte { return bytes.Repeat([]byte{poison}, n) }

// want checks that memory has the given bytes, and nothing new behind them.
func want(t *testing.T, what string, memory, begin []byte) {
	t.Helper()
	all := append(bytes.Clone(begin), poisoned(len(memory)-len(begin))...)
	if diff := cmp.Diff(all, memory); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestVersioned passes structs that are shorter and longer than that of package raw.
func TestVersioned(t *testing.T) {
	type both struct{ Version, A, B uint32 }
	const whole = 12
	for _, tt := range []struct{ size, have int }{
		{0, 4}, {3, 4}, {8, 8}, {whole, whole}, {whole + 8, whole}, {0xffffff, whole},
	} {
		c := poisoned(32)
		version := (*uint32)(unsafe.Pointer(&c[0]))
		*version = 2<<24 | uint32(tt.size)
		given := *version
		word := addressOf(&c[0])
		v := newVersioned[both](&word)
		if v.value.Version != given || tt.have == whole && v.value.B != 0xabababab || tt.have < whole && v.value.B != 0 {
			t.Errorf("%d bytes: the software NVML gets %+v", tt.size, *v.value)
		}
		*v.value = both{given, 0x01010101, 0x02020202}
		v.back()
		want(t, strconv.Itoa(tt.size), c[4:], []byte{1, 1, 1, 1, 2, 2, 2, 2}[:tt.have-4])
	}
	var null uint64
	v := newVersioned[both](&null)
	v.back()
	if v.value != nil {
		t.Error("NULL became an address")
	}
}

// TestOut checks what calls set of C's variables.
func TestOut(t *testing.T) {
	c := poisoned(16)
	word := addressOf(&c[0])
	failed := newOut[uint32](&word)
	failed.back(raw.NVML_ERROR_UNKNOWN)
	want(t, "a call that fails", c, nil)
	o := newOut[uint32](&word)
	o.back(raw.NVML_SUCCESS)
	want(t, "zero", c, []byte{0, 0, 0, 0})
	*o.value = 0x03030303
	o.back(raw.NVML_ERROR_INSUFFICIENT_SIZE)
	want(t, "a call that fails, and sets something", c, []byte{3, 3, 3, 3})
	short := newShort[uint32](&word, 3)
	*short.value = 0x04040404
	short.back(raw.NVML_SUCCESS)
	want(t, "an older function", c, []byte{4, 4, 4, 3})
	var null uint64
	newOut[uint32](&null).back(raw.NVML_SUCCESS)
}

// TestChars checks the ends of texts.
func TestChars(t *testing.T) {
	for _, tt := range []struct {
		room uint64
		want string
	}{{8, "abc\x00"}, {4, "abc\x00"}, {3, "abc"}, {0, ""}, {1<<32 + 8, "abc\x00"}} {
		c := poisoned(16)
		word := addressOf(&c[0])
		text := newChars(&word, tt.room)
		copy(text.values, "abc")
		text.back(raw.NVML_ERROR_UNKNOWN)
		want(t, "a call that fails", c, nil)
		text.back(raw.NVML_SUCCESS)
		want(t, strconv.FormatUint(tt.room, 10), c, []byte(tt.want))
	}
}

// TestArrays checks slices and what is set of them.
func TestArrays(t *testing.T) {
	c := make([]uint32, 8)
	word, n := addressOf(&c[0]), uint32(3)
	count, null := addressOf(&n), uint64(0)
	for _, tt := range []struct{ got, want int }{
		{len(values[uint32](&word, 5)), 5},
		{len(values[uint32](&word, 0)), 0},
		{len(values[uint32](&null, 5)), 0},
		{len(valuesIn[uint32](&word, 11)), 2},
		{len(counted[uint32](&word, &count)), 3},
		{len(counted[uint32](&null, &count)), 0},
		{len(counted[uint32](&word, &null)), 0},
		{len(newOpenArray[uint32](&null).values), 0},
	} {
		if tt.got != tt.want {
			t.Errorf("a slice has %d values, want %d", tt.got, tt.want)
		}
	}
	m := newOpenArray[uint32](&word)
	for i := range m.values {
		m.values[i] = 7
	}
	m.back(raw.NVML_ERROR_UNKNOWN, &count)
	m.back(raw.NVML_SUCCESS, &null)
	if c[0] != 0 {
		t.Error("a call that fails sets an array")
	}
	m.back(raw.NVML_SUCCESS, &count)
	if diff := cmp.Diff([]uint32{7, 7, 7, 0, 0, 0, 0, 0}, c); diff != "" {
		t.Errorf("an array (-want +got):\n%s", diff)
	}
}

// metrics is an NVML with texts of Go.
type metrics struct{ raw.Unimplemented }

func (metrics) GpmMetricsGet(g *raw.GpmMetricsGet) raw.Return {
	if g == nil || g.NumMetrics > 2 {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	for i := range g.NumMetrics {
		m := &g.Metrics[i]
		m.Value, m.MetricInfo.Unit = float64(m.MetricId), unsafe.SliceData([]byte("%\x00"))
	}
	return raw.NVML_SUCCESS
}

// TestMetrics checks that C gets addresses of C's texts.
func TestMetrics(t *testing.T) {
	copies := 0
	l := newNVML(metrics{}, func(string) uintptr { copies++; return 0x1000 })
	var words [nvmlWords]uint64
	if r := l.gpmMetricsGet(&words); r != raw.NVML_ERROR_INVALID_ARGUMENT {
		t.Errorf("with NULL: %v", r)
	}
	c := make([]uint64, unsafe.Sizeof(raw.GpmMetricsGet{})/8)
	g := (*raw.GpmMetricsGet)(unsafe.Pointer(&c[0]))
	g.NumMetrics, g.Metrics[0].MetricId, g.Metrics[1].MetricId = 2, 5, 6
	words[0] = addressOf(&c[0])
	if r := l.gpmMetricsGet(&words); r != raw.NVML_SUCCESS || g.Metrics[1].Value != 6 || copies != 1 {
		t.Errorf("%v, a value of %v, %d copies of texts", r, g.Metrics[1].Value, copies)
	}
	units := (*[3]uintptr)(unsafe.Pointer(&g.Metrics[0].MetricInfo))
	if diff := cmp.Diff([3]uintptr{0, 0, 0x1000}, *units); diff != "" {
		t.Errorf("the texts (-want +got):\n%s", diff)
	}
	g.NumMetrics = 3
	if r := l.gpmMetricsGet(&words); r != raw.NVML_ERROR_INVALID_ARGUMENT || g.Metrics[1].Value != 6 {
		t.Errorf("a call that fails: %v, and a value is set to %v", r, g.Metrics[1].Value)
	}
}
