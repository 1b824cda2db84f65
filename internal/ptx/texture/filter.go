package texture

import "math"

// This file has the arithmetic of the filter, which was found from what an H200 computes: tests/softlib compares it.

// tap is a texel and its weight, of 256.
type tap struct {
	texel  [16]byte
	weight int64
}

// weights returns the weights of the eight texels: the whole is divided along z, what each part has along x, and then
// along y. The second part is rounded to the nearest; of two, the larger one if it is of a second part, too.
func (t *taps) weights() (list [8]int64) {
	split := func(n int64, d, part int) [2]int64 {
		second := (n*t.axes[d].weight + one/2 - 1 + int64(part)) >> fraction
		return [2]int64{n - second, second}
	}
	for z, nz := range split(one, 2, 1) {
		for x, nx := range split(nz, 0, 1) {
			for y, ny := range split(nx, 1, x) {
				list[z<<2|y<<1|x] = ny
			}
		}
	}
	return list
}

// filter returns the weighted sum of a channel.
func (o *Object) filter(list *[8]tap, c int) uint32 {
	if o.srgb(c) {
		return o.filterFloats(list, c)
	}
	sum := int64(0)
	for i := range list {
		if list[i].weight != 0 {
			sum += list[i].weight * o.integer(o.get(&list[i].texel, c))
		}
	}
	switch o.Format {
	case U8, U16:
		return math.Float32bits(float32(float64((sum+one/2)>>fraction) / 65535))
	case S8:
		// An H200 computes with fewer bits: a result may be lower there, by 1/32767.
		sum = int64(math.Floor(float64(sum)*32767/127 + one/2))
		return math.Float32bits(max(float32(float64(sum>>fraction)/32767), -1))
	case S16:
		return math.Float32bits(max(float32(float64((sum+one/2)>>fraction)/32767), -1))
	}
	return o.filterFloats(list, c)
}

// integer returns a channel as the filter adds it: with 16 bits, if it has no sign.
func (o *Object) integer(bits uint32) int64 {
	switch o.Format {
	case U8:
		return int64(bits) * 257
	case U16:
		return int64(bits)
	case S8:
		return int64(int8(bits))
	case S16:
		return int64(int16(bits))
	}
	return 0
}

// filterFloats is filter for floats. The texels with the same z are aligned to the largest of them, with four more bits
// than they have, and are cut off there.
func (o *Object) filterFloats(list *[8]tap, c int) uint32 {
	bits := 23
	if o.Format != F32 {
		bits = 10
	}
	total := 0.0
	for half := range 2 {
		sum, exponent := int64(0), math.MinInt
		var values [4]float64
		for i := range values {
			t := &list[half<<2|i]
			if t.weight == 0 {
				continue
			}
			v := float64(math.Float32frombits(o.channel(o.get(&t.texel, c), c)))
			switch {
			case math.IsNaN(v) || math.IsInf(v, 0):
				return o.notFinite(list, c)
			case math.Abs(v) >= 0x1p-126: // smaller ones are taken as zero
				_, e := math.Frexp(v)
				values[i], exponent = v, max(exponent, e-1)
			}
		}
		for i, v := range values {
			if v != 0 {
				sum += list[half<<2|i].weight * int64(math.Ldexp(v, bits+4-exponent))
			}
		}
		if sum != 0 {
			total += math.Ldexp(float64(sum), exponent-bits-4-fraction)
		}
	}
	if math.Abs(total) < 0x1p-126 {
		return 0
	}
	if bits == 10 && math.Abs(total) < 0x1p-14 {
		return math.Float32bits(float32(math.Round(total*0x1p24) * 0x1p-24))
	}
	cut := uint64(1) << (52 - bits) // round to the nearest, away from zero if there are two
	return math.Float32bits(float32(math.Float64frombits((math.Float64bits(total) + cut/2) &^ (cut - 1))))
}

// notFinite returns the sum of texels of which one is infinite or no number.
func (o *Object) notFinite(list *[8]tap, c int) uint32 {
	sum := 0.0
	for i := range list {
		if t := &list[i]; t.weight != 0 {
			sum += float64(t.weight) * float64(math.Float32frombits(o.channel(o.get(&t.texel, c), c)))
		}
	}
	if math.IsNaN(sum) {
		return 0x7fffffff
	}
	return math.Float32bits(float32(sum))
}
