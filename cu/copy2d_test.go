package cu_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/internal/memstate"
	. "github.com/purecu/purecu/internal/testrig"
)

func TestCopy2D(t *testing.T) {
	r := NewSoft(t)
	src, dst := r.Image(), Need(AllocFrom(r.GPU, make([]byte, 64)))(t)
	defer dst.Close()
	// 3 rows of 4 bytes at column 2 of row 1 become rows of 10 bytes, at column 1 of row 2.
	NoErr(t, r.S.Copy2D(Rows{dst, 10}.At(1, 2), Rows{src, 16}.At(2, 1), 4, 3))
	want := make([]byte, 64)
	for y := range 3 {
		for x := range 4 {
			want[10*(y+2)+x+1] = byte(16*(y+1) + x + 2)
		}
	}
	if got := r.Bytes(dst); string(got) != string(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	// To the host and back, without gaps there.
	host := Need(r.GPU.AllocHost(12, 0))(t)
	defer host.Close()
	NoErr(t, r.S.Copy2D(Rows{Mem: host}, Rows{src, 16}.At(2, 1), 4, 3))
	NoErr(t, r.S.Copy2D(Rows{src, 16}.At(12, 5), Rows{Mem: host}, 4, 3))
	got := r.Bytes(src)
	if got[5*16+12] != 18 || got[7*16+15] != 3*16+5 || got[5*16+11] != 5*16+11 {
		t.Errorf("got %v", got)
	}
	NoErr(t, r.S.Copy2D(Rows{Mem: dst}, Rows{Mem: src}, 0, 4))
	NoErr(t, r.S.Memset2D(Rows{dst, 16}.At(3, 1), 0xee, 2, 3))
	NoErr(t, r.S.Memset2D32(Rows{dst, 16}.At(8, 0), 0x01020304, 2, 2))
	got = r.Bytes(dst)
	if got[19] != 0xee || got[52] != 0xee || got[18] == 0xee || got[8] != 4 || got[31] != 1 || got[32] == 4 {
		t.Errorf("after the memsets: %v", got)
	}
}

func TestCopy3D(t *testing.T) {
	r := NewSoft(t)
	src := r.Image() // 4 planes of 2 rows
	dst := Need(AllocFrom(r.GPU, make([]byte, 12)))(t)
	defer dst.Close()
	NoErr(t, r.S.Copy3D(Planes{Rows: Rows{Mem: dst}}, Planes{Rows{src.Span(34, 94), 16}, 2}, 3, 2, 2))
	want := []byte{34, 35, 36, 50, 51, 52, 66, 67, 68, 82, 83, 84}
	if got := r.Bytes(dst); string(got) != string(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestAllocPitch(t *testing.T) {
	r := NewSoft(t)
	m, pitch, err := r.GPU.AllocPitch(100, 3, 4)
	NoErr(t, err)
	defer m.Close()
	if pitch < 100 || m.Size() != 3*pitch {
		t.Errorf("%d bytes, a pitch of %d", m.Size(), pitch)
	}
	NoErr(t, r.S.Memset2D(Rows{m, pitch}, 1, 100, 3))
	for _, c := range []struct {
		width, height uint64
		element       int
		want          error
	}{
		{0, 1, 4, ResultInvalidValue}, {1, 0, 4, ResultInvalidValue}, {1, 1, 5, ResultInvalidValue},
		{1 << 20, 1 << 40, 4, ResultOutOfMemory}, {1 << 20, 1 << 44, 4, ResultInvalidValue},
	} {
		if _, _, err := r.GPU.AllocPitch(c.width, c.height, c.element); !errors.Is(err, c.want) {
			t.Errorf("%d × %d, elements of %d: %v", c.width, c.height, c.element, err)
		}
	}
}

// TestCopy2DMistakes checks that wrong boxes are refused before the driver sees them.
func TestCopy2DMistakes(t *testing.T) {
	r := NewSoft(t)
	m := r.Image()
	host := Need(r.GPU.AllocHost(64, 0))(t)
	defer host.Close()
	full := Rows{m, 16}
	for name, err := range map[string]error{
		"one row too many":     r.S.Memset2D(full, 1, 16, 9),
		"a row too long":       r.S.Memset2D(full, 1, 17, 2),
		"past the end":         r.S.Memset2D(full.At(1, 7), 1, 16, 1),
		"outside":              r.S.Memset2D(full.At(0, 9), 1, 1, 1),
		"far outside":          r.S.Memset2D(full.At(0, math.MaxUint64), 1, 1, 1),
		"a row without pitch":  r.S.Memset2D(Rows{Mem: m}.At(0, 1), 1, 1, 1),
		"no whole words":       r.S.Memset2D32(full.At(1, 0), 1, 1, 1),
		"too many words":       r.S.Memset2D32(full, 1, 5, 1),
		"overflow":             r.S.Memset2D(Rows{m, 1 << 62}, 1, 1, 9),
		"words overflow":       r.S.Memset2D32(full, 1, 1<<62, 1),
		"two hosts":            r.S.Copy2D(Rows{Mem: host}, Rows{Mem: host}, 1, 1),
		"planes overlap":       r.S.Copy3D(Planes{full, 1}, Planes{full, 2}, 1, 2, 2),
		"a plane too low":      r.S.Copy3D(Planes{full, 2}, Planes{full, 1}, 1, 2, 1),
		"too many planes":      r.S.Copy3D(Planes{full, 2}, Planes{full, 2}, 16, 2, 5),
		"the source too small": r.S.Copy2D(full, Rows{m.Span(0, 8), 8}, 8, 2),
	} {
		if !errors.Is(err, ResultInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.S.Memset2D(Rows{}, 1, 1, 1); !errors.Is(err, ErrNil) {
		t.Errorf("no memory: %v", err)
	}
	for name, none := range map[string]Memory{"a nil Span": (*Span)(nil), "an embedded nil": struct{ Memory }{}} {
		if err := r.S.Memset2D((Rows{none, 16}).At(1, 1), 1, 1, 1); err == nil {
			t.Errorf("%s is set", name)
		}
	}
	odd := make([]byte, 65)
	if memstate.HostAddress(odd)%4 == 0 {
		odd = odd[1:]
	}
	reg := Need(r.GPU.RegisterHost(odd[:64], HostDeviceMap))(t)
	defer reg.Close()
	for name, err := range map[string]error{"Memset2D32": r.S.Memset2D32(Rows{reg, 16}, 1, 1, 1),
		"Memset32": r.S.Memset32(reg, 1)} {
		if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "must be multiples of 4") {
			t.Errorf("%s at an odd address: %v", name, err)
		}
	}
	if err := (*Stream)(nil).Copy2D(full, full, 1, 1); !errors.Is(err, ErrNil) {
		t.Errorf("no stream: %v", err)
	}
}
