package cu_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/memory"
	. "github.com/purecu/purecu/internal/testrig"
)

// Copies of rectangles and boxes on a real GPU: see gpu_test.go.

// TestGPUCopy2D copies boxes in all directions, and compares the bytes with those of Go's copies.
func TestGPUCopy2D(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	const width, height, depth = 33, 7, 3 // of the copies
	const columns, rows = 100, 10
	mem, pitch, err := gpu.AllocPitch(columns, rows*depth, 4)
	NoErr(t, err)
	defer mem.Close()
	t.Logf("the pitch of rows of %d bytes is %d", columns, pitch)
	if pitch < columns || pitch*rows*depth != mem.Size() {
		t.Fatalf("the pitch is %d, the size %d", pitch, mem.Size())
	}
	odd := Need(gpu.Alloc(width * height * depth))(t) // without gaps, which is no pitch of the driver's
	defer odd.Close()
	in, out := Need(gpu.AllocHost(width*height*depth, 0))(t), Need(gpu.AllocHost(width*height*depth, 0))(t)
	defer in.Close()
	defer out.Close()
	NoErr(t, in.View(func(b []byte) error {
		for i := range b {
			b[i] = byte(i*7 + 1)
		}
		return nil
	}))
	box := Planes{Rows{mem, pitch}, rows}
	NoErr(t, s.Memset(mem, 0))
	at := box
	at.Rows = box.Rows.At(5, 2)
	NoErr(t, s.Copy3D(at, Planes{Rows: Rows{Mem: in}}, width, height, depth))
	NoErr(t, s.Copy3D(Planes{Rows: Rows{Mem: odd}}, at, width, height, depth))
	NoErr(t, s.Copy3D(Planes{Rows: Rows{Mem: out}}, Planes{Rows: Rows{Mem: odd}}, width, height, depth))
	NoErr(t, s.Synchronize())
	want, got := make([]byte, in.Size()), make([]byte, in.Size())
	Need(in.ReadAt(want, 0))(t)
	Need(out.ReadAt(got, 0))(t)
	if string(got) != string(want) {
		t.Error("the box is wrong")
	}
	// One plane as a rectangle, at an odd address.
	NoErr(t, s.Memset(out, 0))
	NoErr(t, s.Copy2D(Rows{out, width}, at.Rows.At(1, 1), width-1, height-1))
	NoErr(t, s.Memset2D(at.Rows, 0xaa, 3, height))
	NoErr(t, s.Memset2D32(box.Rows.At(64, 0), 0x01020304, 2, rows))
	NoErr(t, s.Synchronize())
	Need(out.ReadAt(got, 0))(t)
	for y := range height - 1 {
		for x := range width - 1 {
			if got[y*width+x] != want[(y+1)*width+x+1] {
				t.Fatalf("row %d, column %d is %d", y, x, got[y*width+x])
			}
		}
	}
	all := make([]byte, mem.Size())
	NoErr(t, mem.CopyTo(all))
	row := all[pitch*2:]
	if row[4] != 0 || row[5] != 0xaa || row[7] != 0xaa || row[8] != want[3] || row[64] != 4 || row[71] != 1 ||
		row[72] != 0 {
		t.Errorf("row 2: %v", row[:80])
	}
}

// TestGPUMemset16 sets words of 16 bits by calls, in a capture, and by nodes of graphs.
func TestGPUMemset16(t *testing.T) {
	gpu := GPUContext(t)
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	const pitch = 16
	m := Need(gpu.Alloc(4 * pitch))(t)
	defer m.Close()
	NoErr(t, s.Memset(m, 0xff))
	NoErr(t, s.Memset16(m.Span(2, 4), 0x0201))
	NoErr(t, s.Memset16(m.Span(2, 0), 7)) // nothing
	NoErr(t, s.Memset2D16(Rows{m, pitch}.At(6, 1), 0x0403, 2, 2))
	captured := Need(graph.Capture(s, graph.CaptureRelaxed, func() error { return s.Memset16(m.Span(10, 2), 0x0605) }))(t)
	defer captured.Close()
	g := Need(graph.New(gpu))(t)
	defer g.Close()
	set := Need(g.Add(&graph.Memset{Dst: m.Span(12, 2), Value: 0x0807, ElementSize: 2}))(t)
	x := Need(g.Instantiate())(t)
	defer x.Close()
	y := Need(captured.Instantiate())(t)
	defer y.Close()
	NoErr(t, x.Launch(s))
	NoErr(t, y.Launch(s))
	NoErr(t, x.Set(set, &graph.Memset{Dst: m.Span(14, 2), Value: 0x0a09, ElementSize: 2}))
	NoErr(t, x.Launch(s))
	managed, err := memory.AllocManaged(gpu, pitch, memory.AttachGlobal)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	NoErr(t, err)
	defer managed.Close()
	if err := x.Set(set, &graph.Memset{Dst: managed.Span(0, 14), Value: 0x0201, ElementSize: 2}); !errors.Is(err, ResultInvalidValue) ||
		!strings.Contains(err.Error(), "mix up") {
		t.Errorf("a node for 7 words of managed memory: %v", err)
	}
	for _, value := range []uint16{0x0101, 0x0201} {
		n := map[uint16]uint64{0x0101: 14, 0x0201: 16}[value]
		NoErr(t, x.Set(set, &graph.Memset{Dst: managed.Span(0, n), Value: uint32(value), ElementSize: 2}))
		for range 2 { // drivers set the words of the first launch right
			NoErr(t, s.Memset(managed, 0))
			NoErr(t, x.Launch(s))
			NoErr(t, s.Synchronize())
			NoErr(t, View(managed, func(got []byte) error {
				if want := bytes.Repeat([]byte{1, byte(value >> 8)}, int(n/2)); !bytes.Equal(got[:n], want) {
					t.Errorf("managed memory: %d, not %d", got[:n], want)
				}
				return nil
			}))
		}
	}
	NoErr(t, set.Set(&graph.Memset{Dst: m.Span(48, 2), Value: 0x0c0b, ElementSize: 2}))
	z := Need(g.Instantiate())(t)
	defer z.Close()
	NoErr(t, z.Launch(s))
	NoErr(t, s.Synchronize())
	got := make([]byte, m.Size())
	NoErr(t, m.CopyTo(got))
	want := bytes.Repeat([]byte{0xff}, 4*pitch)
	for at, b := range map[int][]byte{
		2: {1, 2, 1, 2}, 10: {5, 6, 7, 8, 9, 10}, 22: {3, 4, 3, 4}, 38: {3, 4, 3, 4}, 48: {11, 12},
	} {
		copy(want[at:], b)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got  %d\nwant %d", got, want)
	}
	for name, err := range map[string]error{
		"an odd address": s.Memset16(m.Span(1, 2), 0),
		"an odd size":    s.Memset16(m.Span(0, 3), 0),
		"an odd pitch":   s.Memset2D16(Rows{m, 15}, 0, 2, 2),
		"odd rows":       s.Memset2D16(Rows{m, pitch}.At(1, 0), 0, 2, 2),
		"an odd node":    set.Set(&graph.Memset{Dst: m.Span(0, 3), Value: 0, ElementSize: 2}),
	} {
		if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "must be multiples of 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
