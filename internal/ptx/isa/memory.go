package isa

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/purecu/purecu/internal/ptx/vm"
)

const (
	memoryTypes = "t=b8|b16|b32|b64|u8|s8|u16|s16|u32|s32|u64|s64|f32|f64"
	evictions   = "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"
	priorities  = "L2::evict_first|L2::evict_unchanged"
	ahead       = "l2?=L2::64B|L2::128B|L2::256B "
	caches      = "cop?=ca|cg|cs|lu|cv|wb|wt l1?=" + evictions + " " + ahead
	scopes      = "scope=cta|cluster|gpu|sys "
	spaces      = "space?=global|shared|shared::cta|shared::cluster|const|local|param|param::entry|param::func "
)

// memoryRows are the instructions that access memory. The translation replaces the state space of a
// parameter of a function by local memory.
func memoryRows() []*Instruction {
	ld, st := func(v Variant) vm.Func { return loadOf(v) }, func(v Variant) vm.Func { return storeOf(v) }
	list := []*Instruction{
		{Name: "ld", Modifiers: "weak? " + spaces + caches + "vec?=v2|v4 " + memoryTypes, Operands: "v m",
			Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "ld", Modifiers: "space=global nc " + caches + "vec?=v2|v4 " + memoryTypes, Operands: "v m",
			Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "ld", Modifiers: "space=global " + "cop=ca|cg|cs nc vec?=v2|v4 " + memoryTypes, Operands: "v m",
			Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "ldu", Modifiers: "space?=global vec?=v2|v4 " + memoryTypes, Operands: "v m", Kind: vm.Touches,
			Make: ld, Special: "ld"},
		{Name: "ld", Modifiers: "order=volatile space?=global|shared vec?=v2|v4 " + memoryTypes,
			Operands: "v m", Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "ld", Modifiers: "order=relaxed|acquire " + scopes + "space?=global|shared|shared::cta|shared::cluster vec?=v2|v4 " +
			memoryTypes, Operands: "v m", Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "st", Modifiers: "weak? " + spaces + caches + "vec?=v2|v4 " + memoryTypes, Operands: "m w",
			Kind: vm.Touches, Make: st, Special: "st"},
		{Name: "st", Modifiers: "order=volatile space?=global|shared vec?=v2|v4 " + memoryTypes,
			Operands: "m w", Kind: vm.Touches, Make: st, Special: "st"},
		{Name: "st", Modifiers: "order=relaxed|release " + scopes + "space?=global|shared|shared::cta|shared::cluster vec?=v2|v4 " +
			memoryTypes, Operands: "m w", Kind: vm.Touches, Make: st, Special: "st"},
		{Name: "ld", Modifiers: "order=volatile space?=global|shared|shared::cta|shared::cluster " + ahead + "vec?=v2|v4 " +
			memoryTypes, Operands: "v m", Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "st", Modifiers: "order=volatile space=shared::cta|shared::cluster vec?=v2|v4 " + memoryTypes,
			Operands: "m w", Kind: vm.Touches, Make: st, Special: "st"},
		{Name: "ld", Modifiers: "order=relaxed|acquire " + scopes + "space?=global l1?=" + evictions + " " + ahead +
			"vec?=v2|v4 " + memoryTypes, Operands: "v m", Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "st", Modifiers: "order=relaxed|release " + scopes + "space?=global l1=" + evictions + " vec?=v2|v4 " +
			memoryTypes, Operands: "m w", Kind: vm.Touches, Make: st, Special: "st"},
		{Name: "ld", Modifiers: "mmio order=relaxed scope=sys space?=global " + memoryTypes, Operands: "v m",
			Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "st", Modifiers: "mmio order=relaxed scope=sys space?=global " + memoryTypes, Operands: "m w",
			Kind: vm.Touches, Make: st, Special: "st"},
		// A policy about caches changes nothing.
		{Name: "ld", Modifiers: "weak? space?=global l1?=" + evictions + " hint=L2::cache_hint " + ahead +
			"vec?=v2|v4 " + memoryTypes,
			Operands: "v m e:b64", Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "ld", Modifiers: "space=global nc l1?=" + evictions + " hint=L2::cache_hint " + ahead + "vec?=v2|v4 " +
			memoryTypes, Operands: "v m e:b64", Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "ld", Modifiers: "order=relaxed|acquire " + scopes + "space?=global l1?=" + evictions +
			" hint=L2::cache_hint " + ahead + "vec?=v2|v4 " + memoryTypes,
			Operands: "v m e:b64", Kind: vm.Touches, Make: ld, Special: "ld"},
		{Name: "st", Modifiers: "order=relaxed|release " + scopes + "space?=global l1?=" + evictions +
			" hint=L2::cache_hint vec?=v2|v4 " + memoryTypes,
			Operands: "m w e:b64", Kind: vm.Touches, Make: st, Special: "st"},
		{Name: "st", Modifiers: "weak? space?=global l1?=" + evictions +
			" hint=L2::cache_hint vec?=v2|v4 " + memoryTypes,
			Operands: "m w e:b64", Kind: vm.Touches, Make: st, Special: "st"},
	}
	// A word of 128 bits is no element of a vector.
	for _, row := range slices.Clone(list) {
		wide := *row
		others := strings.TrimSuffix(row.Modifiers, memoryTypes)
		wide.Modifiers = strings.Replace(others, "vec?=v2|v4 ", "", 1) + "t=b128"
		list = append(list, &wide)
	}
	return append(list, []*Instruction{
		{Name: "createpolicy", Modifiers: "fractional first=" + priorities + "|L2::evict_normal|L2::evict_last " +
			"second?=" + priorities + " t=b64", Operands: "d a:f32?", Make: policy},
		{Name: "createpolicy", Modifiers: "cvt L2 t=b64", Operands: "d a", Make: policy},
		{Name: "createpolicy", Modifiers: "range space?=global first=L2::evict_first|L2::evict_unchanged|" +
			"L2::evict_normal|L2::evict_last second?=" + priorities + " t=b64", Operands: "d m b:b32 c:b32", Make: policy},
		{Name: "prefetch", Modifiers: "space?=global|local level=L1|L2", Operands: "m", Kind: vm.Nothing},
		{Name: "prefetch", Modifiers: "space=global level=L2::evict_last|L2::evict_normal", Operands: "m",
			Kind: vm.Nothing},
		{Name: "prefetchu", Modifiers: "L1", Operands: "m", Kind: vm.Nothing},
		{Name: "membar", Modifiers: "scope=cta|gl|sys", Operands: "", Make: fence},
		{Name: "membar", Modifiers: "proxy alias", Operands: "", Make: fence},
		{Name: "fence", Modifiers: "sem?=sc|acq_rel scope=cta|cluster|gpu|sys", Operands: "", Make: fence},
		{Name: "fence", Modifiers: "sem=acquire|release scope=cta|cluster|gpu|sys", Operands: "", Make: fence},
		{Name: "fence", Modifiers: "mbarrier_init release cluster", Operands: "", Make: fence},
		{Name: "fence", Modifiers: "proxy alias", Operands: "", Make: fence},
		{Name: "fence", Modifiers: "proxy async space?=global|shared::cta|shared::cluster", Operands: "", Make: fence},
		{Name: "discard", Modifiers: "space?=global L2", Operands: "m i", Kind: vm.Nothing},
		{Name: "applypriority", Modifiers: "space?=global L2::evict_normal", Operands: "m i", Kind: vm.Nothing},
	}...)
}

// policy returns the function that makes a policy, of which no program knows the value.
func policy(Variant) vm.Func { return uniform(func(*vm.Warp) uint64 { return 0 }) }

func fence(Variant) vm.Func { return func(w *vm.Warp, _ *vm.Op) { w.Fence() } }

// spaceOf returns how the memory of a state space is found.
func spaceOf(v Variant) vm.Space {
	switch v.Get("space") {
	case "shared", "shared::cta", "shared::cluster":
		return vm.SharedSpace
	case "local":
		return vm.LocalSpace
	case "param", "param::entry", "param::func":
		return vm.ParamSpace
	case "const":
		return vm.ConstSpace
	}
	return vm.GenericSpace
}

// accessed returns the size of what a load or store accesses at once, and whether that is all. A word of 128 bits is
// accessed as two of 64 bits, of which the registers are those of a vector.
func accessed(v Variant) (size int, single bool) {
	if v.T() == "b128" {
		return 64, false
	}
	return sizeOf(v.T()), !v.Has("vec")
}

// loadOf returns the function of a load.
func loadOf(v Variant) vm.Func {
	generic := v.Get("space") == "" || v.Get("space") == "global"
	ordered := v.Has("order")
	shared := strings.HasPrefix(v.Get("space"), "shared")
	switch cop := v.Get("cop"); {
	case cop == "wb" || cop == "wt", v.Has("nc") && (cop == "lu" || cop == "cv"), !evicts(v):
		return nil
	}
	space, same := spaceOf(v), v.Get("space") == "const" || strings.HasPrefix(v.Get("space"), "param")
	switch size, single := accessed(v); {
	case same && single:
		return signedLoad(v, loadSame(size, space))
	case ordered && v.T() == "b128":
		return func(w *vm.Warp, o *vm.Op) {
			a, low, high := w.R[o.A], &w.R[o.X.D[0]], &w.R[o.X.D[1]]
			for i := range w.Each {
				p := space(w, o, i, a[i]+uint64(o.Imm), 16, false)
				if p == nil {
					return
				}
				low[i], high[i] = w.UpdateWide(p, nil)
			}
		}
	case ordered && size >= 32:
		return atomicLoad(v.T(), space)
	case ordered:
		return signedLoad(v, loadSized(size, space))
	case generic && single:
		switch size {
		case 8:
			return signedLoad(v, vm.Load[uint8])
		case 16:
			return signedLoad(v, vm.Load[uint16])
		case 32:
			return signedLoad(v, vm.Load[uint32])
		}
		return vm.Load[uint64]
	case single && shared:
		switch size {
		case 8:
			return signedLoad(v, vm.LoadShared[uint8])
		case 16:
			return signedLoad(v, vm.LoadShared[uint16])
		case 32:
			return signedLoad(v, vm.LoadShared[uint32])
		}
		return vm.LoadShared[uint64]
	case (generic || shared) && size >= 32:
		if size == 32 {
			return signedLoad(v, vm.LoadVector[uint32](shared))
		}
		return vm.LoadVector[uint64](shared)
	default:
		return signedLoad(v, loadSized(size, space))
	}
}

// evicts reports whether what a variant says about caches is allowed: only about global memory, and
// not with the older modifiers about them.
func evicts(v Variant) bool {
	if !v.Has("l1") && !v.Has("l2") {
		return true
	}
	s := v.Get("space")
	return (s == "" || s == "global") && !(v.Has("l1") && v.Has("cop"))
}

func loadSame(size int, space vm.Space) vm.Func {
	switch size {
	case 8:
		return vm.LoadSame[uint8](space)
	case 16:
		return vm.LoadSame[uint16](space)
	case 32:
		return vm.LoadSame[uint32](space)
	}
	return vm.LoadSame[uint64](space)
}

func loadSized(size int, space vm.Space) vm.Func {
	switch size {
	case 8:
		return vm.LoadFrom[uint8](space)
	case 16:
		return vm.LoadFrom[uint16](space)
	case 32:
		return vm.LoadFrom[uint32](space)
	}
	return vm.LoadFrom[uint64](space)
}

// signedLoad returns the function of a load that extends the sign of what it has loaded, as the
// register may be wider.
func signedLoad(v Variant, load vm.Func) vm.Func {
	t := v.T()
	if t[0] != 's' || t == "s64" {
		return load
	}
	return func(w *vm.Warp, o *vm.Op) {
		if load(w, o); w.Fault != nil {
			return
		}
		columns, n := [8]int32{o.D}, 1
		if o.X != nil {
			columns, n = o.X.D, o.X.N
		}
		for _, c := range columns[:n] {
			if c < 0 {
				continue
			}
			d := &w.R[c]
			for i := range w.Each {
				d[i] = extend(d[i], t)
			}
		}
	}
}

// vector returns the columns of a register or a vector.
func vector(o *vm.Op, single int32) []int32 {
	if o.X != nil && o.X.N > 0 {
		return o.X.D[:o.X.N]
	}
	return []int32{single}
}

// atomicLoad returns the function of a load that is ordered. The result is extended, as its register
// may be wider than its type.
func atomicLoad(t string, space vm.Space) vm.Func {
	n := uint64(sizeOf(t) / 8)
	return func(w *vm.Warp, o *vm.Op) {
		a, list := w.R[o.A], vector(o, o.D)
		for i := range w.Each {
			p := space(w, o, i, a[i]+uint64(o.Imm), n*uint64(len(list)), false)
			if p == nil {
				return
			}
			for j, c := range list {
				if v := vm.AtomicLoad(unsafe.Add(p, uint64(j)*n), n); c >= 0 {
					w.R[c][i] = extend(v, t)
				}
			}
		}
	}
}

// storeOf returns the function of a store.
func storeOf(v Variant) vm.Func {
	if s := v.Get("space"); s == "const" || s == "param::entry" {
		return nil
	}
	switch v.Get("cop") {
	case "ca", "lu", "cv":
		return nil
	}
	if v.Has("l2") || !evicts(v) {
		return nil
	}
	generic := v.Get("space") == "" || v.Get("space") == "global"
	shared := strings.HasPrefix(v.Get("space"), "shared")
	space := spaceOf(v)
	size, single := accessed(v)
	switch {
	case v.Has("order") && v.T() == "b128":
		return func(w *vm.Warp, o *vm.Op) {
			a, low, high := &w.R[o.A], &w.R[o.X.D[0]], &w.R[o.X.D[1]]
			for i := range w.Each {
				p := space(w, o, i, a[i]+uint64(o.Imm), 16, true)
				if p == nil {
					return
				}
				w.UpdateWide(p, func(_, _ uint64) (uint64, uint64) { return low[i], high[i] })
			}
		}
	case v.Has("order") && size >= 32:
		n := uint64(size / 8)
		return func(w *vm.Warp, o *vm.Op) {
			a, list := &w.R[o.A], vector(o, o.B)
			for i := range w.Each {
				p := space(w, o, i, a[i]+uint64(o.Imm), n*uint64(len(list)), true)
				if p == nil {
					return
				}
				for j, c := range list {
					vm.AtomicStore(unsafe.Add(p, uint64(j)*n), n, w.R[c][i])
				}
			}
		}
	case generic && single:
		switch size {
		case 8:
			return vm.Store[uint8]
		case 16:
			return vm.Store[uint16]
		case 32:
			return vm.Store[uint32]
		}
		return vm.Store[uint64]
	case shared && single:
		switch size {
		case 8:
			return vm.StoreShared[uint8]
		case 16:
			return vm.StoreShared[uint16]
		case 32:
			return vm.StoreShared[uint32]
		}
		return vm.StoreShared[uint64]
	case (generic || shared) && size == 32:
		return vm.StoreVector[uint32](shared)
	case (generic || shared) && size == 64:
		return vm.StoreVector[uint64](shared)
	}
	switch size {
	case 8:
		return vm.StoreTo[uint8](space)
	case 16:
		return vm.StoreTo[uint16](space)
	case 32:
		return vm.StoreTo[uint32](space)
	}
	return vm.StoreTo[uint64](space)
}

// change changes one of the words at p atomically, and returns the old one. The caller knows that the
// memory contains the word.
func change(p unsafe.Pointer, word int, size uint64, f func(old uint64) uint64) uint64 {
	p = unsafe.Add(p, uint64(word)*size)
	if size == 2 {
		return vm.Update16(p, f)
	}
	return vm.Update(p, size, f)
}

// moveElement moves an element between memory and a part of a register.
func moveElement(p unsafe.Pointer, place *uint64, size, shift uint64, load bool) {
	switch {
	case load && size == 1:
		*place |= uint64(*(*uint8)(p)) << shift
	case load && size == 2:
		*place |= uint64(*(*uint16)(p)) << shift
	case load && size == 8:
		*place = *(*uint64)(p)
	case load:
		*place = uint64(*(*uint32)(p))
	case size == 8:
		*(*uint64)(p) = *place
	case size == 2:
		*(*uint16)(p) = uint16(*place >> shift)
	default:
		*(*uint32)(p) = uint32(*place)
	}
}
