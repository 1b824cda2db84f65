package vm

import (
	"sync"
	"testing"
	"unsafe"
)

// TestUpdateWide changes a half of a word while an update of the word leaves it as it was, as a compare-and-swap does
// that fails. The change is not lost.
func TestUpdateWide(t *testing.T) {
	w := &Warp{block: &block{run: &run{Launch: &Launch{Device: Device{Wide: new(sync.Mutex)}}}}}
	word := [2]uint64{1, 2}
	for half := range word {
		low, high := w.UpdateWide(unsafe.Pointer(&word), func(low, high uint64) (uint64, uint64) {
			word[half] += 10
			return low, high
		})
		if want := [2]uint64{1 + 10*uint64(half), 2}; [2]uint64{low, high} != want {
			t.Errorf("the old value is %d and %d, want %d", low, high, want)
		}
	}
	if word != [2]uint64{11, 12} {
		t.Errorf("a change is lost: %d", word)
	}
	w.UpdateWide(unsafe.Pointer(&word), func(low, high uint64) (uint64, uint64) { return high, low })
	if low, high := w.UpdateWide(unsafe.Pointer(&word), nil); low != 12 || high != 11 {
		t.Errorf("the halves are %d and %d", low, high)
	}
}
