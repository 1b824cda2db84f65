package cu

import "testing"

// Copies of rectangles and boxes on a real GPU: see gpu_test.go.

// TestGPUCopy2D copies boxes in all directions, and compares the bytes with those of Go's copies.
func TestGPUCopy2D(t *testing.T) {
	gpu := gpuContext(t)
	s := must(gpu.NewStream(StreamNonBlocking))(t)
	defer s.Close()
	const width, height, depth = 33, 7, 3 // of the copies
	const columns, rows = 100, 10
	mem, pitch, err := gpu.AllocPitch(columns, rows*depth, 4)
	noErr(t, err)
	defer mem.Close()
	t.Logf("the pitch of rows of %d bytes is %d", columns, pitch)
	if pitch < columns || pitch*rows*depth != mem.Size() {
		t.Fatalf("the pitch is %d, the size %d", pitch, mem.Size())
	}
	odd := must(gpu.Alloc(width * height * depth))(t) // without gaps, which is no pitch of the driver's
	defer odd.Close()
	in, out := must(gpu.AllocHost(width*height*depth, 0))(t), must(gpu.AllocHost(width*height*depth, 0))(t)
	defer in.Close()
	defer out.Close()
	noErr(t, in.View(func(b []byte) error {
		for i := range b {
			b[i] = byte(i*7 + 1)
		}
		return nil
	}))
	box := Planes{Rows{mem, pitch}, rows}
	noErr(t, s.Memset(mem, 0))
	at := box
	at.Rows = box.Rows.At(5, 2)
	noErr(t, s.Copy3D(at, Planes{Rows: Rows{Mem: in}}, width, height, depth))
	noErr(t, s.Copy3D(Planes{Rows: Rows{Mem: odd}}, at, width, height, depth))
	noErr(t, s.Copy3D(Planes{Rows: Rows{Mem: out}}, Planes{Rows: Rows{Mem: odd}}, width, height, depth))
	noErr(t, s.Synchronize())
	want, got := make([]byte, in.Size()), make([]byte, in.Size())
	must(in.ReadAt(want, 0))(t)
	must(out.ReadAt(got, 0))(t)
	if string(got) != string(want) {
		t.Error("the box is wrong")
	}
	// One plane as a rectangle, at an odd address.
	noErr(t, s.Memset(out, 0))
	noErr(t, s.Copy2D(Rows{out, width}, at.Rows.At(1, 1), width-1, height-1))
	noErr(t, s.Memset2D(at.Rows, 0xaa, 3, height))
	noErr(t, s.Memset2D32(box.Rows.At(64, 0), 0x01020304, 2, rows))
	noErr(t, s.Synchronize())
	must(out.ReadAt(got, 0))(t)
	for y := range height - 1 {
		for x := range width - 1 {
			if got[y*width+x] != want[(y+1)*width+x+1] {
				t.Fatalf("row %d, column %d is %d", y, x, got[y*width+x])
			}
		}
	}
	all := make([]byte, mem.Size())
	noErr(t, mem.CopyTo(all))
	row := all[pitch*2:]
	if row[4] != 0 || row[5] != 0xaa || row[7] != 0xaa || row[8] != want[3] || row[64] != 4 || row[71] != 1 ||
		row[72] != 0 {
		t.Errorf("row 2: %v", row[:80])
	}
}
