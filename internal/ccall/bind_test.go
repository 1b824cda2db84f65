//go:build linux || windows

package ccall

import (
	"fmt"
	"strings"
	"testing"
)

// status is the error for a status of C.
type status int32

func (s status) Error() string { return fmt.Sprint("status ", int32(s)) }

// bound binds a variable to a function of testdata/abi.c.
func bound[F any](t *testing.T, name string) (f F) {
	t.Helper()
	if err := Bind(cfunc(t, name), &f, func(s int32) error { return status(s) }); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestBind calls functions whose prototypes have all types.
func TestBind(t *testing.T) {
	type handle uint64
	words := bound[func(a int, b int8, c int16, d int32, e int64, f uint, g uint8, h uint16, i uint32, j uint64,
		k uintptr,
		l handle, m, n int32) (uintptr, error)](t, "words14")
	r, err := words(-1, -2, -3, -4, -5, 6, 7, 8, 9, 10, 11, 12, -13, 1<<31-1)
	if err != nil {
		t.Fatal(err)
	}
	minus := func(v uint64) uint64 { return -v }
	checkSeen(t, r, []uint64{minus(1), minus(2), minus(3), minus(4), minus(5), 6, 7, 8, 9, 10, 11, 12, minus(13),
		1<<31 - 1})

	stop := collect()
	defer stop()
	length, lengths, text := bound[func(string) (int, error)](t, "length"),
		bound[func([]string, *uint64) error](t, "lengths"), bound[func(int32) (string, error)](t, "text")
	sum := bound[func([]byte, int, *struct {
		N   int32
		Sum uint64
	}) error](t, "sum")
	out4 := bound[func(*uint32, uint32) (int32, error)](t, "out4") // the upper half of the result is not zero
	together(t, 16, func(int) error {
		for range rounds(300) {
			if n, err := length("héllo"); n != 6 || err != nil {
				return fmt.Errorf("length: %d, %v", n, err)
			}
			var n uint64
			if err := lengths([]string{"ab", "", strings.Repeat("x", 5000)}, &n); n != 5002 || err != nil {
				return fmt.Errorf("lengths: %d, %v", n, err)
			}
			if err := lengths(nil, &n); n != 0 || err != nil {
				return fmt.Errorf("lengths of NULL: %d, %v", n, err)
			}
			for i, want := range []string{"", "a text"} {
				if s, err := text(int32(i)); s != want || err != nil {
					return fmt.Errorf("text: %q, %v", s, err)
				}
			}
			var out struct {
				N   int32
				Sum uint64
			}
			if err := sum([]byte{1, 2, 3}, 3, &out); out.N != 3 || out.Sum != 6 || err != nil {
				return fmt.Errorf("sum: %+v, %v", out, err)
			}
			if err := sum(make([]byte, 4), 4, &out); err != status(7) {
				return fmt.Errorf("the status: %v", err)
			}
			var v uint32
			if r, err := out4(&v, 7); r != 0 || v != 7 || err != nil {
				return fmt.Errorf("out4: %d, %d, %v", r, v, err)
			}
		}
		return nil
	})
}

// TestBindErrors checks what Bind refuses, and that strings with a NUL are refused before the call.
func TestBindErrors(t *testing.T) {
	fn := cfunc(t, "words0")
	type node struct{ Next *node }
	for _, tt := range []struct {
		to   any
		want string
	}{
		{nil, "a pointer to a function variable is needed, and this is a <nil>"},
		{new(int), "this is a *int"},
		{func() error { return nil }, "this is a func() error"},
		{(*func() error)(nil), "this is a *func() error"},
		{new(func(float64) error), "parameter 0 is a float64"},
		{new(func(int, bool) error), "parameter 1 is a bool"},
		{new(func(**int) error), "parameter 0 is a **int"},
		{new(func(*node) error), "parameter 0 is a *ccall.node"},
		{new(func([][]byte) error), "parameter 0 is a [][]uint8"},
		{new(func([2]int) error), "parameter 0 is a [2]int"},
		{new(func(func()) error), "parameter 0 is a func()"},
		{new(func(...int) error), "variadic"},
		{new(func(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o int) error), "15 parameters, of at most 14"},
		{new(func()), "the results of func() must be error"},
		{new(func() int32), "must be error"},
		{new(func() (float64, error)), "must be error"},
		{new(func() (int, int, error)), "must be error"},
	} {
		if err := Bind(fn, tt.to, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Bind(%T): %v, want %s", tt.to, err, tt.want)
		}
	}
	if _, err := bound[func(string) (int, error)](t, "length")("a\x00b"); err == nil ||
		!strings.Contains(err.Error(), `"a\x00b"`) {
		t.Errorf("a string with a NUL: %v", err)
	}
	if err := bound[func([]string, *uint64) error](t, "lengths")([]string{"a\x00b"}, new(uint64)); err == nil {
		t.Error("strings with a NUL were passed")
	}
}
