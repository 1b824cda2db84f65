package isa

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/purecu/purecu/internal/ptx/tensormap"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// tensorCopyRows are the copies of boxes of tensors. They take place at once here. A is the address in shared memory,
// B that of the map, the list 1 has the coordinates, C is a mask of the blocks that get a box, and E the address of the
// barrier.
func tensorCopyRows() []*Instruction {
	const (
		dim     = "tensor dim=1d|2d|3d|4d|5d "
		counted = " mbarrier::complete_tx::bytes"
		hinted  = " hint=L2::cache_hint"
		load    = "async bulk " + dim + "space=shared::cluster|shared::cta global tile?" + counted
		several = "async bulk " + dim + "space=shared::cluster global tile?" + counted + " multicast::cluster"
		store   = "async bulk " + dim + "space=global shared::cta tile? bulk_group"
		ops     = "op=add|min|max|inc|dec|and|or|xor"
		reduced = "reduce async bulk " + dim + "space=global shared::cta " + ops + " tile? bulk_group"
		ahead   = "async bulk prefetch " + dim + "L2 global tile?"
	)
	var list []*Instruction
	for _, row := range [][2]string{{load, "m M n"},
		{several, "m M n c:b16"}, {store, "M n"}, {reduced, "M n"}, {ahead, "M"}} {
		kind, execute := vm.Touches, copyTensor
		if row[0] == ahead {
			kind, execute = vm.Nothing, nil
		}
		list = append(list,
			&Instruction{Name: "cp", Modifiers: row[0], Operands: row[1], Kind: kind, Special: "tensor", Make: execute},
			&Instruction{Name: "cp", Modifiers: row[0] + hinted, Operands: row[1] + " e:b64", Kind: kind,
				Special: "tensor",
				Make:    execute})
	}
	return append(list,
		&Instruction{Name: "prefetch", Modifiers: "space?=const|param tensormap", Operands: "m", Kind: vm.Nothing},
		&Instruction{Name: "fence", Modifiers: "proxy tensormap::generic release scope=cta|cluster|gpu|sys",
			Make: fence},
		&Instruction{Name: "fence", Modifiers: "proxy tensormap::generic acquire scope=cta|cluster|gpu|sys",
			Operands: "m i",
			Kind:     vm.Touches, Make: fence})
}

// Dimensions returns the number of dimensions of a variant about a tensor.
func Dimensions(v Variant) int { return int(v.Get("dim")[0] - '0') }

// copyTensor returns the function of a copy between a tensor and shared memory.
func copyTensor(v Variant) vm.Func {
	rank, several, load := Dimensions(v), slotted(v, "multicast::cluster"), strings.HasPrefix(v.Get("space"), "shared")
	updates := updatesOfElements(v.Get("op"))
	return func(w *vm.Warp, o *vm.Op) {
		for i := range w.Each {
			m, is := mapOf(w, o, i, rank)
			if !is {
				return
			}
			var at [tensormap.Most]int32
			for j, c := range o.X.Lists[1] {
				at[j] = int32(w.R[c][i])
			}
			if !m.Begins(at[0]) {
				illegal(w, i, "the first coordinate, %d, of elements of %d bytes is no multiple of %d bytes", at[0], m.Size(),
					tensormap.Aligned)
				return
			}
			if !load && slices.Min(at[:rank]) < 0 {
				illegal(w, i, "a coordinate of %v is below 0, which only a copy from the tensor may have", at[:rank])
				return
			}
			box := tensorBox{w: w, o: o, lane: i, m: &m, at: at, shared: w.R[o.A][i]}
			switch {
			case !load && updates == nil:
				is = box.store(nil)
			case !load:
				if updates[m.Type] == nil {
					illegal(w, i, "there is no %s for the type %d of the tensor's elements", v.Get("op"), m.Type)
					return
				}
				is = box.store(updates[m.Type])
			case several:
				for block := uint32(0); block < 16 && is; block++ {
					if uint16(w.R[o.C][i])>>block&1 != 0 {
						box.shared = w.MapRank(w.R[o.A][i], block)
						is = box.load(w.MapRank(w.R[o.E][i], block))
					}
				}
			default:
				is = box.load(w.R[o.E][i])
			}
			if !is {
				return
			}
		}
	}
}

// illegal ends the kernel as an instruction does that a GPU cannot execute.
func illegal(w *vm.Warp, lane int, format string, args ...any) {
	w.FailLane(vm.IllegalInstruction, lane, fmt.Sprintf(format, args...))
}

// mapOf returns the map of a lane. It reports false after a fault.
func mapOf(w *vm.Warp, o *vm.Op, lane, rank int) (m tensormap.Map, is bool) {
	var words tensormap.Words
	for i := range words {
		p := w.Pointer(o, lane, w.R[o.B][lane]+uint64(8*i), 8, false)
		if p == nil {
			return m, false
		}
		words[i] = *(*uint64)(p)
	}
	if m, is = tensormap.Decode(words); !is || m.Rank != rank {
		why := "there is no map of a tensor at this address"
		if is {
			why = fmt.Sprintf("the tensor of the map has %d dimensions, and the instruction is for %d", m.Rank, rank)
		}
		w.FailLane(vm.IllegalInstruction, lane, why)
		return m, false
	}
	return m, true
}

// tensorBox is a box of a tensor that a lane copies.
type tensorBox struct {
	w      *vm.Warp
	o      *vm.Op
	lane   int
	m      *tensormap.Map
	at     [tensormap.Most]int32
	shared uint64
}

// pointer returns where a part is in shared memory, or nil after a fault.
func (b *tensorBox) pointer(p tensormap.Part, write bool) unsafe.Pointer {
	const aligned = 128
	if b.shared%aligned != 0 {
		why := fmt.Sprintf("the address of a box in shared memory, %#x, is no multiple of %d", b.shared, aligned)
		b.w.FailLane(vm.Misaligned, b.lane, why)
		return nil
	}
	address := tensormap.Swizzled(b.shared+p.Offset, b.m.Swizzle)
	return b.w.SharedPointer(b.lane, uint32(address), p.Size, write)
}

// load copies a box to shared memory. A barrier counts its bytes.
func (b *tensorBox) load(barrier uint64) bool {
	for p := range b.m.Parts(b.at) {
		to := b.pointer(p, true)
		if to == nil {
			return false
		}
		data := b.m.Outside()
		if p.Inside {
			from := b.w.Pointer(b.o, b.lane, p.Address, p.Size, false)
			if from == nil {
				return false
			}
			copy(data[:], unsafe.Slice((*byte)(from), p.Size))
			b.m.Loaded(data[:p.Size])
		}
		copy(unsafe.Slice((*byte)(to), p.Size), data[:])
	}
	return completeTx(b.w, b.lane, barrier, b.m.Bytes())
}

// store copies a box from shared memory, or changes the elements of the tensor by it.
func (b *tensorBox) store(update func(old, b, c uint64) uint64) bool {
	for p := range b.m.Parts(b.at) {
		if !p.Inside {
			continue
		}
		from := b.pointer(p, false)
		if from == nil {
			return false
		}
		to := b.w.Pointer(b.o, b.lane, p.Address, p.Size, true)
		if to == nil {
			return false
		}
		if update == nil {
			copy(unsafe.Slice((*byte)(to), p.Size), unsafe.Slice((*byte)(from), p.Size))
			continue
		}
		changeAll(to, from, p.Size, b.m.Size(), update)
	}
	return true
}

// changeAll changes elements of some size by others.
func changeAll(to, from unsafe.Pointer, n, size uint64, f func(old, b, c uint64) uint64) {
	for at := uint64(0); at < n; at += size {
		x, source := uint64(0), unsafe.Add(from, at)
		switch size {
		case 2:
			x = uint64(*(*uint16)(source))
		case 4:
			x = uint64(*(*uint32)(source))
		default:
			x = *(*uint64)(source)
		}
		change(to, int(at/size), size, func(old uint64) uint64 { return f(old, x, 0) })
	}
}

// reducible are the types of elements that each operation has, in the order of the numbers of types of tensors.
var reducible = map[string][]string{
	"add": {"", "", "u32", "s32", "u64", "", "f16", "f32", "f64", "bf16", "f32", "f32", "f32"},
	"min": {"", "", "u32", "s32", "u64", "s64", "f16", "", "", "bf16"},
	"max": {"", "", "u32", "s32", "u64", "s64", "f16", "", "", "bf16"},
	"inc": {"", "", "u32"},
	"dec": {"", "", "u32"},
	"and": {"", "", "b32", "b32", "b64"},
	"or":  {"", "", "b32", "b32", "b64"},
	"xor": {"", "", "b32", "b32", "b64"},
}

// updatesOfElements returns what an operation does with the elements of each type of tensors; it is nil for those that
// it does not have. Without an operation, there are none at all.
func updatesOfElements(op string) []func(old, b, c uint64) uint64 {
	if op == "" {
		return nil
	}
	list := make([]func(old, b, c uint64) uint64, 13)
	for i, t := range reducible[op] {
		if t != "" {
			row := &Instruction{slots: []slot{{name: "op"}, {name: "t"}}}
			list[i] = updateOf(Variant{row, []string{op, t}})
			if i == tensormap.Float32FTZ || i == tensormap.TFloat32FTZ {
				list[i] = flushedUpdate(Variant{row, []string{op, t}})
			}
		}
	}
	return list
}
