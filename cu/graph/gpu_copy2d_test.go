package graph_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	. "github.com/purecu/purecu/internal/testrig"
)

// planesBench is what the tests of nodes with rectangles use: device memory of 8 rows of 16 bytes, which
// have the numbers from 0 to 127, and memory with as many zeros.
type planesBench struct {
	testing.TB
	gpu      *Context
	s        *Stream
	src, dst *DeviceMem
	in       []byte
}

func newPlanesBench(t testing.TB) *planesBench {
	b := &planesBench{TB: t, gpu: GPUContext(t), in: make([]byte, 128)}
	for i := range b.in {
		b.in[i] = byte(i)
	}
	b.s = Need(b.gpu.NewStream(StreamNonBlocking))(t)
	b.src, b.dst = Need(AllocFrom(b.gpu, b.in))(t), Need(AllocFrom(b.gpu, make([]byte, 128)))(t)
	t.Cleanup(func() { b.ok(errors.Join(b.src.Close(), b.dst.Close(), b.s.Close())) })
	return b
}

func (b *planesBench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Error(err)
	}
}

// rows are the rows of a piece of memory, from a byte and a row on.
func (b *planesBench) rows(m Memory, x, y uint64) Rows { return Rows{Mem: m, Pitch: 16}.At(x, y) }

// is launches a graph, after clearing the memory, and compares the bytes that are not 0: those of each row of
// the image that begins at a place.
func (b *planesBench) is(what string, x *graph.Exec, want map[int][]byte) {
	b.Helper()
	all, got := make([]byte, 128), make([]byte, 128)
	for at, row := range want {
		copy(all[at:], row)
	}
	b.ok(errors.Join(b.s.Memset(b.dst, 0), x.Launch(b.s), b.s.Synchronize(), b.dst.CopyTo(got)))
	if !bytes.Equal(got, all) {
		b.Errorf("%s:\ngot  %d\nwant %d", what, got, all)
	}
}

// TestGPUGraphCopy2D builds a graph of nodes with rectangles and boxes, and changes each of them in the graph, and
// the sets in the executable graph.
func TestGPUGraphCopy2D(t *testing.T) {
	b := newPlanesBench(t)
	host := Need(b.gpu.AllocHost(12, 0))(t)
	g := Need(graph.New(b.gpu))(t)
	// Two planes of two rows of three bytes go to the host, and two rows of them from there.
	box := Planes{Rows: b.rows(b.src, 1, 1), Height: 3} // bytes 17, 33, 65, 81
	down := Need(g.Add(CopyBoxOf(Planes{Rows: Rows{Mem: host}}, box, 3, 2, 2)))(t)
	up := Need(g.Add(CopyRect(b.rows(b.dst, 4, 0), Rows{Mem: host.Span(6, 6)}, 3, 2), down))(t)
	bytes1 := Need(g.Add(SetRect(b.rows(b.dst, 1, 2), 0xaa, 1, 3, 2)))(t)
	words := Need(g.Add(SetRect(b.rows(b.dst, 8, 2), 0x0201, 2, 1, 2)))(t)
	longs := Need(g.Add(SetRect(b.rows(b.dst, 12, 2), 0x06050403, 4, 1, 2)))(t)
	x := Need(g.Instantiate())(t)
	t.Cleanup(func() { b.ok(errors.Join(x.Close(), g.Close(), host.Close())) })
	set := []byte{0xaa, 0xaa, 0xaa}
	want := map[int][]byte{
		4: {65, 66, 67}, 20: {81, 82, 83}, 33: set, 49: set, 40: {1, 2}, 56: {1, 2}, 44: {3, 4, 5, 6}, 60: {3, 4, 5, 6},
	}
	b.is("as it was added", x, want)

	// Other memory and other values, with the same rows.
	b.ok(x.Set(bytes1, SetRect(b.rows(b.dst, 2, 4), 0xbb, 1, 3, 2)))
	b.ok(x.Set(words, SetRect(b.rows(b.dst, 10, 2), 0x0807, 2, 1, 2)))
	b.ok(x.Set(longs, SetRect(b.rows(b.dst, 12, 0), 0x0c0b0a09, 4, 1, 2)))
	set = []byte{0xbb, 0xbb, 0xbb}
	b.is("changed", x, map[int][]byte{
		4: {65, 66, 67}, 20: {81, 82, 83}, 66: set, 82: set, 42: {7, 8}, 58: {7, 8}, 12: {9, 10, 11, 12},
		28: {9, 10, 11, 12},
	})

	// What an executable graph cannot change says so, and changes nothing.
	for what, err := range map[string]error{
		"more rows":       x.Set(bytes1, SetRect(b.rows(b.dst, 2, 4), 0xcc, 1, 3, 3)),
		"longer rows":     x.Set(bytes1, SetRect(b.rows(b.dst, 2, 4), 0xcc, 1, 4, 2)),
		"one row":         x.Set(bytes1, &graph.Memset{Dst: b.dst.Span(0, 4), Value: 0xcc}),
		"another pitch":   x.Set(bytes1, SetRect(Rows{Mem: b.dst, Pitch: 32}, 0xcc, 1, 3, 2)),
		"words":           x.Set(bytes1, SetRect(b.rows(b.dst, 2, 4), 0xcc, 2, 3, 2)),
		"a copy of a row": x.Set(up, &graph.Copy{Dst: b.dst.Span(0, 4), Src: host.Span(0, 4)}),
	} {
		if !errors.Is(err, ResultInvalidValue) {
			t.Errorf("%s: %v", what, err)
			continue
		}
		t.Logf("%s: %v", what, err)
	}
	b.is("after what was refused", x, map[int][]byte{
		4: {65, 66, 67}, 20: {81, 82, 83}, 66: set, 82: set, 42: {7, 8}, 58: {7, 8}, 12: {9, 10, 11, 12},
		28: {9, 10, 11, 12},
	})

	// The graph has not changed, and can change in every way.
	y := Need(g.Instantiate())(t)
	b.is("the graph", y, want)
	b.ok(y.Close())
	b.ok(errors.Join(
		down.Set(&graph.Copy{Dst: host, Src: b.src.Span(0, 12)}),
		up.Set(CopyBoxOf(Planes{Rows: Rows{Mem: b.dst, Pitch: 32}, Height: 2}, Planes{Rows: Rows{Mem: host}}, 2, 1, 2)),
		bytes1.Set(SetRect(b.rows(b.dst, 8, 4), 0x01010101, 4, 2, 3)),
		words.Set(&graph.Memset{Dst: b.dst.Span(5, 1), Value: 9}),
		longs.Set(SetRect(b.rows(b.dst, 3, 7), 4, 1, 1, 1)),
	))
	want = map[int][]byte{0: {0, 1}, 64: {2, 3}, 5: {9}, 115: {4}}
	for _, row := range []int{72, 88, 104} {
		want[row] = bytes.Repeat([]byte{1}, 8)
	}
	y = Need(g.Instantiate())(t)
	b.is("the changed graph", y, want)
	b.ok(y.Close())
	b.ok(up.Set(CopyRect(b.rows(b.dst, 0, 0), Rows{Mem: host}, 6, 1)))
	b.ok(errors.Join(down.Set(CopyRect(Rows{Mem: host}, b.rows(b.src, 0, 1), 6, 2)),
		words.Set(SetRect(b.rows(b.dst, 14, 0), 1, 2, 1, 1))))
	want[0], want[64] = []byte{16, 17, 18, 19, 20, 21}, nil
	delete(want, 5)
	want[14] = []byte{1, 0}
	y = Need(g.Instantiate())(t)
	b.is("changed again", y, want)
	b.ok(y.Close())
}

// TestGPUGraphCopy2DParams asks nodes with rectangles what they do: added ones, and captured ones.
func TestGPUGraphCopy2DParams(t *testing.T) {
	b := newPlanesBench(t)
	dst, src := b.rows(b.dst, 1, 2), b.rows(b.src, 3, 1)
	g := Need(graph.New(b.gpu))(t)
	t.Cleanup(func() { b.ok(g.Close()) })
	flat := Need(g.Add(CopyRect(dst, src, 5, 3)))(t)
	box := Need(g.Add(CopyBoxOf(Planes{Rows: dst, Height: 3}, Planes{Rows: src, Height: 4}, 5, 2, 2)))(t)
	set := Need(g.Add(SetRect(b.rows(b.dst, 2, 2), 7, 2, 3, 4)))(t)
	to, from := b.dst.Handle()+33, b.src.Handle()+19
	want := &graph.Copy{DstAddr: to, SrcAddr: from, Box: &graph.Box{Width: 5, Height: 3, Depth: 1, DstPitch: 16, DstHeight: 3, SrcPitch: 16, SrcHeight: 3}}
	// The heights mean nothing, as there is one plane.
	heights := cmpopts.IgnoreFields(graph.Box{}, "DstHeight", "SrcHeight")
	if diff := cmp.Diff(want, Need(WorkOf[*graph.Copy](flat))(t), heights); diff != "" {
		t.Errorf("a rectangle (-want +got):\n%s", diff)
	}
	want.Box = &graph.Box{Width: 5, Height: 2, Depth: 2, DstPitch: 16, DstHeight: 3, SrcPitch: 16, SrcHeight: 4}
	if diff := cmp.Diff(want, Need(WorkOf[*graph.Copy](box))(t)); diff != "" {
		t.Errorf("a box (-want +got):\n%s", diff)
	}
	fill := &graph.Memset{Addr: b.dst.Handle() + 34, Value: 7, ElementSize: 2, Rect: &graph.Rect{Width: 3, Height: 4, Pitch: 16}}
	if diff := cmp.Diff(fill, Need(WorkOf[*graph.Memset](set))(t)); diff != "" {
		t.Errorf("a memset (-want +got):\n%s", diff)
	}

	captured := Need(graph.Capture(b.s, graph.CaptureRelaxed, func() error {
		return errors.Join(b.s.Copy2D(dst, src, 5, 3), b.s.Memset2D16(b.rows(b.dst, 2, 2), 7, 3, 4))
	}))(t)
	t.Cleanup(func() { b.ok(captured.Close()) })
	for _, n := range Need(captured.Nodes())(t) {
		switch typ := Need(n.Type())(t); typ {
		case graph.NodeTypeMemcpy:
			p := Need(WorkOf[*graph.Copy](n))(t)
			t.Logf("captured: %+v", p)
			if p.DstAddr != to || p.SrcAddr != from || p.Box.Width*p.Box.Height*p.Box.Depth != 15 {
				t.Errorf("the captured copy is %+v", p)
			}
		case graph.NodeTypeMemset:
			p := Need(WorkOf[*graph.Memset](n))(t)
			t.Logf("captured: %+v", p)
			if p.Addr != fill.Addr || uint64(p.ElementSize)*p.Rect.Width*p.Rect.Height != 24 {
				t.Errorf("the captured memset is %+v", p)
			}
		default:
			t.Errorf("a node is a %v", typ)
		}
	}
}
