//go:build linux || windows

package ccall

import (
	"fmt"
	"strings"
	"testing"
)

// TestInvokeWords passes integers of every type that Invoke accepts, in all 14 positions.
func TestInvokeWords(t *testing.T) {
	args := []any{uintptr(1 << 63), -2, int32(-3), uint64(4 << 60), 5, 6, 7, int32(8), 9, 10, 11, -12, uintptr(13), int32(-14)}
	minus := func(v uint64) uint64 { return -v }
	want := []uint64{1 << 63, minus(2), 0xfffffffd, 4 << 60, 5, 6, 7, 8, 9, 10, 11, minus(12), 13, 0xfffffff2}
	r, err := Invoke(cfunc(t, "words14"), Setup, args...)
	if err != nil {
		t.Fatal(err)
	}
	checkSeen(t, r, want)

	r, err = Invoke(cfunc(t, "words0"), Setup)
	if err != nil {
		t.Fatal(err)
	}
	checkSeen(t, r, []uint64{})
}

// TestInvokePointers passes strings that C reads and variables that C writes.
func TestInvokePointers(t *testing.T) {
	stop := collect()
	defer stop()
	out8, out4, length := cfunc(t, "out8"), cfunc(t, "out4"), cfunc(t, "length")
	together(t, 16, func(int) error {
		for range rounds(1000) {
			var p uintptr
			var q uint64
			var d int32
			if r, err := Invoke(out8, Setup, &p, uintptr(1<<63|1)); int32(r) != 0 || err != nil || p != 1<<63|1 {
				return fmt.Errorf("*uintptr: %#x, result %d, %v", p, int32(r), err)
			}
			if r, err := Invoke(out8, Setup, &q, uint64(1<<62|1)); int32(r) != 0 || err != nil || q != 1<<62|1 {
				return fmt.Errorf("*uint64: %#x, result %d, %v", q, int32(r), err)
			}
			if r, err := Invoke(out4, Setup, &d, int32(-7)); int32(r) != 0 || err != nil || d != -7 {
				return fmt.Errorf("*int32: %d, result %d, %v", d, int32(r), err)
			}
			for _, s := range []string{"", "cuInit", strings.Repeat("x", 5000)} {
				if r, err := Invoke(length, Setup, s); int(r) != len(s) || err != nil {
					return fmt.Errorf("string of %d bytes: C found %d, %v", len(s), r, err)
				}
			}
		}
		return nil
	})
}

func TestInvokeErrors(t *testing.T) {
	fn := cfunc(t, "words0")
	for _, test := range []struct {
		name string
		args []any
		want string
	}{
		{"too many", make([]any, 15), "15 arguments"},
		{"type", []any{1, "x", 2.5}, "argument 2 is a float64"},
		{"nil", []any{nil}, "argument 0 is a <nil>"},
		{"NUL", []any{1, "a\x00b"}, `argument 1, "a\x00b"`},
	} {
		r, err := Invoke(fn, Setup, test.args...)
		if r != 0 || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %#x, %v; want an error with %q in it", test.name, r, err, test.want)
		}
	}
}
