package main

import (
	"bytes"
	"math"
	"sync"
	"unsafe"

	"github.com/purecu/purecu/nvml/raw"
)

// nvmlLibrary is NVML with the interface that the C code needs.
//
// The words of a call are C's arguments. Those that are addresses become pointers and slices of Go here, and nowhere
// else. NVML's structs are plain memory, which Go and C lay out in the same way, and the memory is C's: it stays where
// it is, and the caller keeps it until the call returns. The software NVML keeps no address beyond the call, and stores
// no address of Go's memory there.
type nvmlLibrary struct {
	s        raw.Software
	copyText func(s string) uintptr // see library

	mu    sync.Mutex
	texts map[string]uintptr
}

// nvmlWords is the largest number of arguments of a call.
const nvmlWords = 8

func newNVML(s raw.Software, copyText func(string) uintptr) *nvmlLibrary {
	return &nvmlLibrary{s: s, copyText: copyText, texts: map[string]uintptr{}}
}

// result returns what C gets: NVML_ERROR_FUNCTION_NOT_FOUND for a function that the software NVML lacks.
func (l *nvmlLibrary) result(number uint32, a *[nvmlWords]uint64) raw.Return {
	if r := l.call(number, a); r >= 0 {
		return r
	}
	return raw.NVML_ERROR_FUNCTION_NOT_FOUND
}

// refuse returns the result of a call with an address that is NULL where a string has to be.
func (l *nvmlLibrary) refuse() raw.Return {
	var n uint32
	if r := l.s.UnitGetCount(&n); r == raw.NVML_ERROR_UNINITIALIZED {
		return r
	}
	return raw.NVML_ERROR_INVALID_ARGUMENT
}

// values returns the n values at an address, or nil for NULL.
func values[T any](word *uint64, n uint64) []T {
	p, n := pointer[T](word), uint64(uint32(n))
	if p == nil || n == 0 {
		return nil
	}
	return unsafe.Slice(p, n)
}

// valuesIn returns the values that n bytes have room for.
func valuesIn[T any](word *uint64, n uint64) []T {
	var size T
	return values[T](word, uint64(uint32(n))/uint64(unsafe.Sizeof(size)))
}

// chars is a buffer for a text. The software NVML gets one that is zero, and C's gets the text with a NUL, which may
// be missing if the buffer is too short.
type chars struct{ c, values []byte }

// mostChars is more than any text has.
const mostChars = 1 << 16

func newChars(word *uint64, n uint64) (t chars) {
	t.c = values[byte](word, min(uint64(uint32(n)), mostChars))
	if t.c != nil {
		t.values = make([]byte, len(t.c))
	}
	return t
}

// back sets C's buffer, if the call has succeeded.
func (t chars) back(r raw.Return) {
	if r == raw.NVML_SUCCESS {
		end := bytes.IndexByte(t.values, 0) + 1
		if end == 0 {
			end = len(t.values)
		}
		copy(t.c, t.values[:end])
	}
}

// counted returns an array of C's whose length is in the variable at the address count.
func counted[T any](word, count *uint64) []T {
	n := pointer[uint32](count)
	if n == nil {
		return nil
	}
	return values[T](word, uint64(*n))
}

// out is a variable that a call sets. The software NVML gets one of Go's that is zero, because it need not set zeros,
// and C's variable may have any value.
type out[T comparable] struct {
	c, value *T
	size     uintptr // that of C's variable
}

func newOut[T comparable](word *uint64) out[T] { return newShort[T](word, math.MaxInt) }

// newShort is newOut for a function whose struct is an older one, which ends after so many bytes.
func newShort[T comparable](word *uint64, size uintptr) (o out[T]) {
	o.size = min(size, unsafe.Sizeof(*o.value))
	if o.c = pointer[T](word); o.c != nil {
		o.value = new(T)
	}
	return o
}

// back sets C's variable, if the call has succeeded, or has set it nevertheless.
func (o out[T]) back(r raw.Return) {
	var zero T
	if o.c != nil && (r == raw.NVML_SUCCESS || *o.value != zero) {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(o.c)), o.size), unsafe.Slice((*byte)(unsafe.Pointer(o.value)), o.size))
	}
}

// versioned is a struct whose low 24 bits of its first member, the version, say how long the caller's is. That may be
// an older and shorter one, or a newer and longer one, than that of package raw. The software NVML gets a copy that is
// complete. The collector does not look for addresses in it: what C has not set may look like one.
type versioned[T any] struct {
	value *T
	c     []byte // C's, as far as both structs have it
}

func newVersioned[T any](word *uint64) versioned[T] {
	var v versioned[T]
	p := pointer[uint32](word)
	if p == nil {
		return v
	}
	size := uint64(unsafe.Sizeof(*v.value))
	memory := make([]uint64, (size+7)/8)
	v.value = (*T)(unsafe.Pointer(unsafe.SliceData(memory)))
	v.c = unsafe.Slice((*byte)(unsafe.Pointer(p)), max(min(uint64(*p&0xffffff), size), 4))
	copy(v.bytes(), v.c)
	return v
}

// bytes returns the memory of the copy.
func (v versioned[T]) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v.value)), unsafe.Sizeof(*v.value))
}

// back sets C's struct to the copy.
func (v versioned[T]) back() {
	if v.value != nil {
		copy(v.c, v.bytes())
	}
}

// openArray is an array whose length is no argument of the call: the caller knows how many values there are at most.
type openArray[T any] struct {
	c      *T
	values []T
}

// mostValues is more than all such arrays have.
const mostValues = 64

func newOpenArray[T any](word *uint64) (m openArray[T]) {
	if m.c = pointer[T](word); m.c != nil {
		m.values = make([]T, mostValues)
	}
	return m
}

// back sets C's array to as many values as there are, if the call has set any.
func (m openArray[T]) back(r raw.Return, count *uint64) {
	if n := pointer[uint32](count); r == raw.NVML_SUCCESS && m.c != nil && n != nil {
		copy(unsafe.Slice(m.c, min(*n, mostValues)), m.values)
	}
}

// gpmMetricsGet is nvmlGpmMetricsGet, which sets addresses of texts. C gets copies, which are never freed.
func (l *nvmlLibrary) gpmMetricsGet(a *[nvmlWords]uint64) raw.Return {
	c := pointer[raw.GpmMetricsGet](&a[0])
	if c == nil {
		return l.s.GpmMetricsGet(nil)
	}
	own := &raw.GpmMetricsGet{Version: c.Version, NumMetrics: c.NumMetrics, Sample1: c.Sample1, Sample2: c.Sample2}
	n := min(int(c.NumMetrics), len(c.Metrics))
	for i := range n {
		own.Metrics[i].MetricId = c.Metrics[i].MetricId
	}
	r := l.s.GpmMetricsGet(own)
	if r != raw.NVML_SUCCESS {
		return r
	}
	for i := range n {
		from, to := &own.Metrics[i], &c.Metrics[i]
		to.NvmlReturn, to.Value = from.NvmlReturn, from.Value
		info := (*[3]uintptr)(unsafe.Pointer(&to.MetricInfo))
		for j, text := range []*byte{from.MetricInfo.ShortName, from.MetricInfo.LongName, from.MetricInfo.Unit} {
			info[j] = l.textC(text)
		}
	}
	return r
}

// textC returns the address of a copy of a text for C, or 0 if there is none.
func (l *nvmlLibrary) textC(text *byte) uintptr {
	if text == nil {
		return 0
	}
	s := raw.Text(text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.texts[s] == 0 {
		l.texts[s] = l.copyText(s)
	}
	return l.texts[s]
}
