package texture

import (
	"math"
	"testing"
)

// TestWeights compares the weights of a cube's texels with those of an H200.
func TestWeights(t *testing.T) {
	for weights, want := range map[[3]int64][8]int64{
		{243, 56, 115}:  {5, 105, 2, 29, 5, 85, 1, 24},
		{8, 53, 53}:     {156, 5, 41, 1, 40, 2, 11, 0},
		{180, 164, 255}: {0, 0, 0, 1, 27, 64, 49, 115},
		{255, 128, 0}:   {1, 127, 0, 128}, // of two nearest weights, the one that it takes depends on the part
	} {
		var s taps
		for d := range weights {
			s.axes[d].weight = weights[d]
		}
		if got := s.weights(); got != want {
			t.Errorf("%v: %v, want %v", weights, got, want)
		}
	}
}

// TestFilter compares sums of two texels with those of an H200.
func TestFilter(t *testing.T) {
	for _, c := range []struct {
		format Format
		texels [2]uint32
		weight int64 // of the second
		want   float32
	}{
		{U8, [2]uint32{95, 146}, 169, 33068. / 65535},
		{U16, [2]uint32{58816, 35799}, 34, 55759. / 65535},
		{S16, [2]uint32{20835, 16388}, 169, 17899. / 32767},
		{F16, [2]uint32{0xc838, 0x2ccd}, 252, -0.05828857421875},
	} {
		o := &Object{Format: c.format, Channels: 1, Sampler: Sampler{Linear: true},
			Layout: Layout{Size: [3]uint32{2, 1, 1}, Dims: 1}}
		memory := func(addr, n uint64) (texel [16]byte, there bool) {
			o.put(&texel, 0, c.texels[addr/n])
			return texel, true
		}
		at := [3]uint32{math.Float32bits(0.5 + float32(c.weight)/256)}
		v, there := o.Read(memory, at, Sample{})
		if got := math.Float32frombits(v[0]); !there || got != c.want {
			t.Errorf("%d %v: %v, want %v", c.format, c.texels, got, c.want)
		}
	}
}

// TestNormalized checks that a normalized coordinate is cut off before it is multiplied, as on an H200.
func TestNormalized(t *testing.T) {
	o := &Object{Format: U8, Channels: 1, Sampler: Sampler{Normalized: true, Integer: true, Modes: [3]Mode{Mirror}},
		Layout: Layout{Size: [3]uint32{7, 1, 1}, Dims: 1}}
	memory := func(addr, n uint64) (texel [16]byte, there bool) { return [16]byte{byte(addr)}, true }
	for x, want := range map[float32]uint32{1. / 7: 0, -1. / 7: 1, 8. / 7: 6, 1: 6, 1e30: 0} {
		if v, _ := o.Read(memory, [3]uint32{math.Float32bits(x)}, Sample{}); v[0] != want {
			t.Errorf("%v is texel %d, want %d", x, v[0], want)
		}
	}
}
