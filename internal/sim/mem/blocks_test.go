package mem

import "testing"

// piece is a block for tests, and its region.
type piece struct{ Region }

func (p *piece) Range() (addr, size uint64) { return p.Base, p.Size }

// pieces returns blocks of 50 bytes, and a function that returns the one that begins at an address, or nil.
func pieces(at ...uint64) (s *Blocks[*piece], of func(addr uint64) *piece) {
	s = &Blocks[*piece]{}
	made := map[uint64]*piece{}
	for _, addr := range at {
		made[addr] = &piece{Region{Base: addr, Size: 50}}
		s.Add(made[addr])
	}
	return s, func(addr uint64) *piece { return made[addr] }
}

// TestBlocks finds blocks by addresses in them, around them and between them.
func TestBlocks(t *testing.T) {
	s, of := pieces(300, 100, 200)
	for addr, want := range map[uint64]uint64{
		0: 0, 99: 0, 100: 100, 149: 100, 150: 0, 199: 0, 200: 200, 249: 200, 250: 0, 300: 300, 349: 300, 350: 0,
	} {
		if got := s.At(addr); got != of(want) {
			t.Errorf("at %d is %+v, want the block at %d", addr, got, want)
		}
	}
	for _, tt := range []struct {
		addr, n uint64
		want    bool
	}{
		{0, 100, false}, {0, 101, true}, {120, 5, true}, {150, 50, false}, {150, 51, true}, {149, 1, true},
		{0, 1000, true}, {350, 1000, false},
	} {
		if got := s.Taken(tt.addr, tt.n); got != tt.want {
			t.Errorf("%d bytes at %d: taken is %v", tt.n, tt.addr, got)
		}
	}
	s.Forget(of(200))
	s.Forget(of(200))
	if s.At(220) != nil || len(s.All()) != 2 || s.At(320) != of(300) {
		t.Errorf("after a removal there are %d", len(s.All()))
	}
}

// TestCovered covers a block by two others. Kernels find the old one until it is forgotten, also in the list of
// regions.
func TestCovered(t *testing.T) {
	s, of := pieces(100, 200)
	old := of(100)
	s.Cover(old)
	s.Cover(old)
	fresh := &piece{Region{Base: 100, Size: 20}}
	rest := &piece{Region{Base: 150, Size: 50}}
	s.Add(fresh)
	s.Add(rest)
	seen := func(p *piece) (Region, bool) { return p.Region, p != rest }
	look := func(what string, addr uint64, want *piece, inList uint64) {
		t.Helper()
		if got := s.ForKernels(addr); got != want {
			t.Errorf("%s: a kernel finds %+v at %d", what, got, addr)
		}
		if s.Region(addr) != nil {
			t.Errorf("%s: there is still a list", what)
		}
		s.Missed(seen)
		if r := s.Region(addr); (r == nil) != (inList == 0) || r != nil && r.Size != inList {
			t.Errorf("%s: the list has %+v at %d", what, r, addr)
		}
		s.Changed()
	}
	if s.At(110) != fresh || s.Covered() != 1 {
		t.Errorf("%d blocks are covered", s.Covered())
	}
	look("covered", 110, old, 50)
	look("not seen", 160, rest, 0)
	s.Forget(old)
	look("forgotten", 110, fresh, 20)
	if all := s.ForgetAll(func(p *piece) bool { return p.Base < 200 }); len(all) != 2 || len(s.All()) != 1 {
		t.Errorf("%d blocks were forgotten, and %d are left", len(all), len(s.All()))
	}
}
