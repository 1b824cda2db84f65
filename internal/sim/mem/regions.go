package mem

import "sync/atomic"

// Region is a block of memory as kernels see it. It has no content if the driver has to be asked.
type Region struct {
	Base, Size uint64
	Content    *Content
	Begin      uint64 // in Content
}

// Window returns a part of the region around an address, and its first address. full says that there is none as the
// machine has too little memory.
func (r *Region) Window(addr uint64, write bool) (base uint64, data []byte, full bool) {
	begin, data := r.Content.Window(r.Begin+addr-r.Base, write)
	if data == nil {
		return 0, nil, !r.Content.Released()
	}
	// The content may have more than the region.
	if from := r.Begin; from > begin {
		begin, data = from, data[from-begin:]
	}
	data = data[:min(uint64(len(data)), r.Begin+r.Size-begin)]
	return r.Base + begin - r.Begin, data, false
}

// regions is what kernels see of blocks.
type regions struct {
	// list is made anew after a change, and is nil until then.
	list   atomic.Pointer[[]Region]
	missed int // how often kernels asked without the list
}

// find returns the region that contains an address, or nil.
func (r *regions) find(addr uint64) *Region {
	made := r.list.Load()
	if made == nil {
		return nil
	}
	list := *made
	low, high := 0, len(list)
	for low < high {
		if middle := (low + high) / 2; list[middle].Base+list[middle].Size <= addr {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(list) && list[low].Base <= addr {
		return &list[low]
	}
	return nil
}
