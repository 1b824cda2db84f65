package isa

import (
	"fmt"
	"unsafe"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// bulkRows are the asynchronous operations that a barrier in memory counts in bytes, or that belong to a
// group. They take place at once here. A is the address of the result, B that of the source or a register,
// C the number of bytes, and E the address of the barrier.
func bulkRows() []*Instruction {
	const (
		counted = "mbarrier::complete_tx::bytes"
		hinted  = " hint=L2::cache_hint"
		remote  = "space?=shared::cluster"
	)
	row := func(name, modifiers, operands string, make func(Variant) vm.Func) *Instruction {
		return &Instruction{Name: name, Modifiers: modifiers, Operands: operands, Kind: vm.Touches, Special: "bulk",
			Make: make}
	}
	nothing := func(modifiers, operands string) *Instruction {
		return &Instruction{Name: "cp", Modifiers: "async bulk " + modifiers, Operands: operands, Kind: vm.Nothing}
	}
	const toShared, toGlobal = "async bulk space=shared::cluster|shared::cta global " + counted,
		"async bulk space=global shared::cta bulk_group"
	list := []*Instruction{
		row("cp", toShared, "m n c:b32 n", copyBulk),
		row("cp", toShared+hinted, "m n c:b32 n e:b64", copyBulk),
		row("cp", "async bulk space=shared::cluster shared::cta "+counted, "m n c:b32 n", copyBulk),
		row("cp", toGlobal, "m n c:b32", copyBulk),
		row("cp", toGlobal+hinted, "m n c:b32 e:b64", copyBulk),
		nothing("commit_group", ""),
		nothing("wait_group", "i"),
		nothing("wait_group read", "i"),
		nothing("prefetch L2 global", "m b:b32"),
		nothing("prefetch L2 global hint=L2::cache_hint", "m b:b32 e:b64"),
		{Name: "st", Modifiers: "async weak? " + remote + " " + counted + " vec?=v2|v4 t=b32|b64|u32|u64|s32|s64|f32|f64",
			Operands: "m w n", Kind: vm.Touches, Special: "bulk", Make: storeAsync},
	}
	for _, op := range []string{"add t=u32|s32|u64", "min|max t=u32|s32", "inc|dec t=u32", "and|or|xor t=b32"} {
		list = append(list, &Instruction{Name: "red", Modifiers: "async relaxed cluster " + remote + " " + counted +
			" op=" + op,
			Operands: "m b n", Kind: vm.Touches, Special: "bulk", Make: reduceAsync})
	}
	for _, op := range []string{"add t=u32|s32|u64|f32|f64", "add noftz t=f16|bf16", "min|max t=u32|s32|u64|s64|f16|bf16",
		"inc|dec t=u32", "and|or|xor t=b32|b64"} {
		list = append(list,
			row("cp", "reduce async bulk space=global shared::cta bulk_group op="+op, "m n c:b32", reduceBulk),
			row("cp", "reduce async bulk space=global shared::cta bulk_group hint=L2::cache_hint op="+op, "m n c:b32 e:b64",
				reduceBulk))
	}
	for _, op := range []string{"add t=u32|s32|u64", "min|max t=u32|s32", "inc|dec t=u32", "and|or|xor t=b32"} {
		list = append(list, row("cp", "reduce async bulk space=shared::cluster shared::cta "+counted+" op="+op, "m n c:b32 n",
			reduceBulk))
	}
	return list
}

// bulk is the size of the parts that a copy has, and the alignment of its addresses, in bytes.
const bulk = 16

// inBulk returns the function that does something with each part of the source and of the result of a copy.
func inBulk(v Variant, part func(to, from unsafe.Pointer)) vm.Func {
	to, from := spaceOf(v), vm.SharedSpace
	counted := slotted(v, "mbarrier::complete_tx::bytes")
	if slotted(v, "global") {
		from = vm.GenericSpace
	}
	remote := counted && !slotted(v, "global")
	return func(w *vm.Warp, o *vm.Op) {
		if remote && !clustered(w) {
			return
		}
		a, b, size, barrier := w.R[o.A], w.R[o.B], &w.R[o.C], &w.R[o.E]
		for i := range w.Each {
			n := uint64(uint32(size[i]))
			if n%bulk != 0 {
				w.Fail(vm.LaunchFailed, fmt.Sprintf("the size of the copy, %d bytes, is no multiple of %d", n, bulk))
				return
			}
			for at := uint64(0); at < n; at += bulk {
				source := from(w, o, i, b[i]+at, bulk, false)
				if source == nil {
					return
				}
				result := to(w, o, i, a[i]+at, bulk, true)
				if result == nil {
					return
				}
				part(result, source)
			}
			if counted && !completeTx(w, i, barrier[i], n) {
				return
			}
		}
	}
}

// slotted reports whether a variant's row has a modifier that is always there.
func slotted(v Variant, name string) bool {
	for _, s := range v.slots {
		if s.name == name {
			return true
		}
	}
	return false
}

func copyBulk(v Variant) vm.Func {
	return inBulk(v, func(to, from unsafe.Pointer) { *(*[bulk]byte)(to) = *(*[bulk]byte)(from) })
}

// reduceBulk returns the function that changes each element of the result by one of the source.
func reduceBulk(v Variant) vm.Func {
	f, size := updateOf(v), updateSize(v)
	if v.Get("space") == "global" {
		f = flushedUpdate(v)
	}
	return inBulk(v, func(to, from unsafe.Pointer) {
		changeAll(to, from, bulk, size, f)
	})
}

// storeAsync returns the function of a store whose bytes a barrier counts.
func storeAsync(v Variant) vm.Func {
	n := uint64(sizeOf(v.T()) / 8)
	count := map[string]uint64{"": 1, "v2": 2, "v4": 4}[v.Get("vec")]
	if n*count > bulk {
		return nil
	}
	return func(w *vm.Warp, o *vm.Op) {
		if !clustered(w) {
			return
		}
		a, list, barrier := &w.R[o.A], vector(o, o.B), &w.R[o.E]
		for i := range w.Each {
			p := w.SharedPointer(i, uint32(a[i]), n*count, true)
			if p == nil {
				return
			}
			for j, c := range list {
				vm.AtomicStore(unsafe.Add(p, uint64(j)*n), n, w.R[c][i])
			}
			if !completeTx(w, i, barrier[i], n*count) {
				return
			}
		}
	}
}

// reduceAsync returns the function of a reduction whose bytes a barrier counts.
func reduceAsync(v Variant) vm.Func {
	f, size := updateOf(v), updateSize(v)
	return func(w *vm.Warp, o *vm.Op) {
		if !clustered(w) {
			return
		}
		a, b, barrier := &w.R[o.A], &w.R[o.B], &w.R[o.E]
		for i := range w.Each {
			p := w.SharedPointer(i, uint32(a[i]), size, true)
			if p == nil {
				return
			}
			x := b[i]
			change(p, 0, size, func(old uint64) uint64 { return f(old, x, 0) })
			if !completeTx(w, i, barrier[i], size) {
				return
			}
		}
	}
}

// clustered reports whether the launch has a size of clusters. Without one, an H200 does not execute instructions that
// write to the shared memory of a cluster asynchronously, not even to that of their own block.
func clustered(w *vm.Warp) bool {
	if w.Clustered() {
		return true
	}
	w.Fail(vm.IllegalInstruction, "it writes to the shared memory of a cluster, and the launch has no size of "+
		"clusters: add .reqnctapercluster to the kernel, or set the attribute of the launch")
	return false
}

// completeTx makes a barrier count bytes. It reports whether there was no fault.
func completeTx(w *vm.Warp, lane int, barrier, n uint64) bool {
	p := w.CountingPointer(lane, uint32(barrier))
	if p == nil {
		return false
	}
	vm.Update(p, 8, func(word uint64) uint64 { return transacted(w, word, -int64(n)) })
	return w.Fault == nil
}
