package vm

// Functions that may call themselves have their local variables in a frame of a stack, which is a part
// of the local memory of each thread. A register has the address of its end. The registers of such a
// function are saved while it calls a function that may come back to it.

// mostSaved is how many registers of a thread are saved at most, in all functions that it is in.
const mostSaved = 1 << 14

// Enter makes a frame: A is the end of the stack, D gets the address of the frame, whose size is Imm.
func Enter(w *Warp, o *Op) {
	d, a, size := &w.R[o.D], &w.R[o.A], uint64(w.block.run.Kernel.Local)
	for i := range w.Each {
		d[i] = a[i]
		if a[i] += uint64(o.Imm); a[i] > size {
			w.fail(IllegalAddress, i)
			w.Fault.Reason = "the stack of the thread is too small for so many calls"
			return
		}
	}
}

// frameAlign is the alignment of frames.
const frameAlign = 16

// Allocate allocates memory behind the stack: A is its end, B the size, and Imm the alignment. D gets the address.
// A frame may follow.
func Allocate(w *Warp, o *Op) {
	d, a, b, most := &w.R[o.D], &w.R[o.A], &w.R[o.B], uint64(w.block.run.Kernel.Local)
	for i := range w.Each {
		at, size := (a[i]+uint64(o.Imm)-1)&^(uint64(o.Imm)-1), b[i]
		if size > most || at+size > most {
			w.fail(IllegalAddress, i)
			w.Fault.Reason = "the stack of the thread is too small for what it allocates"
			return
		}
		d[i], a[i] = at, (at+size+frameAlign-1)&^(frameAlign-1)
	}
}

// SetStack sets the end of the stack, which is A, to B.
func SetStack(w *Warp, o *Op) {
	a, b, most := &w.R[o.A], &w.R[o.B], uint64(w.block.run.Kernel.Local)
	for i := range w.Each {
		if b[i] > most {
			w.fail(IllegalAddress, i)
			w.Fault.Reason = "the thread restores an address that its stack does not have"
			return
		}
		a[i] = b[i]
	}
}

// Save saves the registers and predicates of o.X.
func Save(w *Warp, o *Op) {
	if w.saved == nil {
		w.saved = new([Lanes][]uint64)
	}
	for i := range w.Each {
		list := w.saved[i]
		if len(list)+len(o.X.Saved)+len(o.X.SavedTruths) > mostSaved {
			w.fail(IllegalAddress, i)
			w.Fault.Reason = "the stack of the thread is too small for so many calls"
			return
		}
		for _, c := range o.X.Saved {
			list = append(list, w.R[c][i])
		}
		for _, p := range o.X.SavedTruths {
			list = append(list, uint64(w.P[p]>>i&1))
		}
		w.saved[i] = list
	}
}

// Restore restores what Save has saved last.
func Restore(w *Warp, o *Op) {
	x := o.X
	for i := range w.Each {
		list := w.saved[i]
		at := len(list) - len(x.Saved) - len(x.SavedTruths)
		w.saved[i] = list[:at]
		list = list[at:]
		for j, c := range x.Saved {
			w.R[c][i] = list[j]
		}
		for j, p := range x.SavedTruths {
			w.P[p] = w.P[p]&^(1<<i) | uint32(list[len(x.Saved)+j])<<i
		}
	}
}

// CopyLocal copies parameters or results of a call in the local memory of each thread.
func CopyLocal(w *Warp, o *Op) {
	size := uint64(w.block.run.Kernel.Local)
	for i := range w.Each {
		local := w.local[uint64(i)*size:][:size]
		for _, c := range o.X.Copies {
			to, from := uint64(c.To), uint64(c.From)
			if c.ToBase != 0 {
				to += w.R[c.ToBase][i]
			}
			if c.FromBase != 0 {
				from += w.R[c.FromBase][i]
			}
			if to+uint64(c.Size) > size || from+uint64(c.Size) > size {
				w.fail(IllegalAddress, i)
				w.Fault.Reason = "the stack of the thread is too small for so many calls"
				return
			}
			copy(local[to:to+uint64(c.Size)], local[from:])
		}
	}
}

// callTo calls the functions whose addresses are in A. D gets the way back.
func (w *Warp) callTo(o *Op) {
	a, d, entries := w.R[o.A], &w.R[o.D], w.block.run.Kernel.Entries
	for i := range w.Each {
		if _, is := entries[a[i]]; !is {
			w.fail(InvalidPC, i)
			w.Fault.Reason = "no function has this address"
			return
		}
		d[i] = uint64(w.pc + 1)
	}
	w.scatter(func(lane int) int32 { return entries[a[lane]] })
}
