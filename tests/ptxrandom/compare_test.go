package ptxrandom

import (
	"encoding/binary"
	"hash/fnv"
	"math"
)

// outcome is what a program has computed on a driver: memory from scratch on.
type outcome []byte

// word returns what a thread has stored in a slot.
func (o outcome) word(slot, thread int) uint64 {
	return binary.LittleEndian.Uint64(o[results-scratch+slot*rowSize+thread*8:])
}

// sizeOfOutcome returns how much of the memory a program changes.
func (p *program) sizeOfOutcome() int {
	return results - scratch + (len(p.slots)+9)*rowSize
}

// difference is a place at which the results of two drivers differ.
type difference struct {
	Seed         uint64
	Item         int // -1 for the memory
	Slot, Thread int
	Form, Shape  string
	Text         string
	Operands     string
	GPU, Sim     uint64
	Threads      int // how many differ
	Count        int // of programs
	Why          string
}

// elements returns the numbers in a word, for a type of elements.
func elements(w uint64, typ string, size int) (list []float64, nans int) {
	one := func(v float64) {
		if v != v {
			nans++
		}
		list = append(list, v)
	}
	switch typ {
	case "f64":
		one(math.Float64frombits(w))
	case "f32":
		for i := 0; i < size; i += 32 {
			one(float64(math.Float32frombits(uint32(w >> i))))
		}
	case "f16":
		for i := 0; i < size; i += 16 {
			one(half(uint16(w >> i)))
		}
	case "bf16":
		for i := 0; i < size; i += 16 {
			one(float64(math.Float32frombits(uint32(w>>i) << 16)))
		}
	}
	return list, nans
}

// half returns the value of a number of 16 bits.
func half(h uint16) float64 {
	e, m := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(m, -24)
	switch {
	case e == 31 && m != 0:
		return math.NaN()
	case e == 31:
		v = math.Inf(1)
	case e > 0:
		v = math.Ldexp(1024+m, e-25)
	}
	if h>>15 != 0 {
		return -v
	}
	return v
}

// accepts reports whether two results of an approximate slot are close enough, and how far they are
// from each other as a part of what is allowed.
func (s *slot) accepts(a, b uint64) (ok bool, share float64) {
	if a == b {
		return true, 0
	}
	x, _ := elements(a, s.elem, s.size)
	y, _ := elements(b, s.elem, s.size)
	ok = true
	for i := range x {
		switch {
		case x[i] == y[i], x[i] != x[i] && y[i] != y[i]:
			continue
		case math.IsInf(x[i], 0) || math.IsInf(y[i], 0) || x[i] != x[i] || y[i] != y[i]:
			return false, math.Inf(1)
		}
		allowed := math.Max(math.Abs(x[i]), math.Abs(y[i]))*s.rel + s.abs
		share = max(share, math.Abs(x[i]-y[i])/allowed)
		ok = ok && share <= 1
	}
	return ok, share
}

// ulps returns how many numbers of its type lie between two results of an approximate slot, of finite
// numbers with the same sign that are not subnormal.
func (s *slot) ulps(a, b uint64) float64 {
	size := map[string]int{"f16": 16, "f32": 32, "f64": 64}[s.elem]
	least := map[string]uint64{"f16": 1 << 10, "f32": 1 << 23, "f64": 1 << 52}[s.elem]
	x, nans := elements(a, s.elem, s.size)
	y, others := elements(b, s.elem, s.size)
	if size != s.size || nans+others > 0 || math.IsInf(x[0], 0) || math.IsInf(y[0], 0) || (a^b)>>(size-1)&1 != 0 {
		return 0
	}
	a, b = a<<(65-size)>>(65-size), b<<(65-size)>>(65-size)
	if min(a, b) < least {
		return 0
	}
	return float64(max(a, b) - min(a, b))
}

// compare returns the first place at which two outcomes of a program differ, or nil. worst gets the
// largest differences of approximate results, as parts of what is allowed.
func (p *program) compare(gpu, sim outcome, worst map[string]float64) *difference {
	var first *difference
	note := func(item, slot, thread int, a, b uint64) {
		if first == nil {
			first = &difference{Seed: p.seed, Item: item, Slot: slot, Thread: thread, GPU: a, Sim: b}
		}
		if first.Slot == slot {
			first.Threads++
		}
	}
	for i := 0; i < len(p.slots); i++ {
		s := &p.slots[i]
		for t := range threads {
			a, b := gpu.word(i, t), sim.word(i, t)
			switch s.class {
			case exact:
				if a != b {
					note(s.item, i, t, a, b)
				}
			case either:
				if a != b && a != sim.word(i+1, t) {
					note(s.item, i, t, a, b)
				}
			case approximate:
				ok, share := s.accepts(a, b)
				if worst != nil {
					worst[s.row] = max(worst[s.row], share)
					if d := s.ulps(a, b); d > worst[s.row+" (ulp)"] {
						worst[s.row+" (ulp)"] = d
					}
				}
				if !ok {
					note(s.item, i, t, a, b)
				}
			}
		}
	}
	if first != nil {
		return first
	}
	for at := 0; at < results-scratch; at += 8 {
		if a, b := binary.LittleEndian.Uint64(gpu[at:]), binary.LittleEndian.Uint64(sim[at:]); a != b {
			note(-1, -1-at/8, at/64, a, b)
		}
	}
	for i := len(p.slots); i < len(p.slots)+9 && p.need["shared"]; i++ {
		for t := range threads {
			if a, b := gpu.word(i, t), sim.word(i, t); a != b {
				note(-1, i, t, a, b)
			}
		}
	}
	return first
}

// hash returns a number for the exact results.
func (p *program) hash(o outcome) uint32 {
	h := fnv.New32a()
	h.Write(o[:results-scratch])
	for i := range len(p.slots) + 9 {
		if i < len(p.slots) && p.slots[i].class != exact || i >= len(p.slots) && !p.need["shared"] {
			continue
		}
		h.Write(o[results-scratch+i*rowSize:][:rowSize])
	}
	return h.Sum32()
}
