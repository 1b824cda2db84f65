package nvml

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/NVIDIA/go-nvml/internal/dynlib"
	"github.com/purecu/purecu/nvml/raw"
)

// calls makes the calls to a loaded NVML.
type calls struct {
	*raw.Library
	lib      dynlib.Library // for what package raw lacks, or nil for an NVML in Go
	versions versions
}

// newCalls returns the calls to a library.
func newCalls(r *raw.Library, lib dynlib.Library) *calls {
	c := &calls{Library: r, lib: lib}
	c.choose()
	return c
}

// lookup returns an error if the library does not export the symbol.
func (c *calls) lookup(symbol string) error {
	if c.lib != nil {
		_, err := c.lib.Symbol(symbol)
		return err
	}
	if !c.Has(symbol) {
		return errNotInGo
	}
	return nil
}

var errNotInGo = errors.New("the NVML in Go does not have it")

// close unloads the library. An NVML in Go stays.
func (c *calls) close() error {
	if c.lib == nil {
		return nil
	}
	return c.lib.Close()
}

// newest returns the number of the newest version of a function, up to last, that the library has. It is 1 for a
// function that has no other.
func (c *calls) newest(function string, last int) uint8 {
	for n := last; n > 1; n-- {
		if c.Has(fmt.Sprintf("%s_v%d", function, n)) {
			return uint8(n)
		}
	}
	return 1
}

// withPointer calls a function that package raw lacks, with a handle and an address.
func (c *calls) withPointer(function string, handle uintptr, p *byte) raw.Return {
	if c.lib == nil {
		return lacks
	}
	r, err := c.lib.CallPointer(function, handle, p)
	return orLacks(r, err)
}

// withWord calls a function that package raw lacks, with a handle and a number.
func (c *calls) withWord(function string, handle, word uintptr) raw.Return {
	if c.lib == nil {
		return lacks
	}
	r, err := c.lib.CallWord(function, handle, word)
	return orLacks(r, err)
}

// lacks is the result of a function that the library lacks, like those of package raw.
const lacks raw.Return = -1

func orLacks(r int32, err error) raw.Return {
	if err != nil {
		return lacks
	}
	return raw.Return(r)
}

// loaded has the calls to the loaded libraries. The first library gets all calls with handles, as with go-nvml, where
// the system's loader finds the functions.
var loaded struct {
	sync.Mutex
	list  []*calls
	first atomic.Pointer[calls]
}

// unloaded has no functions.
var unloaded = &calls{Library: raw.New(noSymbols{})}

type noSymbols struct{}

// Symbol returns the error that no library is loaded.
func (noSymbols) Symbol(name string) (uintptr, error) { return 0, errLibraryNotLoaded }

// native returns the calls to the loaded library.
func native() *calls {
	if c := loaded.first.Load(); c != nil {
		return c
	}
	return unloaded
}

// addCalls makes the calls to a library known, and removeCalls forgets them.
func addCalls(c *calls) {
	loaded.Lock()
	defer loaded.Unlock()
	loaded.list = append(loaded.list, c)
	loaded.first.Store(loaded.list[0])
}

func removeCalls(c *calls) {
	loaded.Lock()
	defer loaded.Unlock()
	loaded.list = slices.DeleteFunc(loaded.list, func(other *calls) bool { return other == c })
	if len(loaded.list) == 0 {
		loaded.first.Store(nil)
		return
	}
	loaded.first.Store(loaded.list[0])
}

// result returns the result of a call. Those of package raw that are negative say that the call was not made.
func result(r raw.Return) Return {
	switch {
	case r >= 0:
		return Return(r)
	case loaded.first.Load() == nil:
		return ERROR_UNINITIALIZED
	case r == raw.NotCalled:
		return ERROR_INSUFFICIENT_RESOURCES
	}
	return ERROR_FUNCTION_NOT_FOUND
}

// grow makes a call with longer and longer slices, until one is long enough.
func grow[T any](call func(n *uint32, s []T) raw.Return) ([]T, Return) {
	for n := uint32(1); ; n = max(n, 1) * 2 {
		s := make([]T, n)
		switch ret := result(call(&n, s)); ret {
		case SUCCESS:
			return s[:min(int(n), len(s))], ret
		case ERROR_INSUFFICIENT_SIZE:
		default:
			return nil, ret
		}
	}
}

// fill makes a call without a slice, which says how long one must be, and then with it.
func fill[T any](call func(n *uint32, s []T) raw.Return) ([]T, Return) {
	n := uint32(0)
	if ret := result(call(&n, nil)); ret != SUCCESS {
		return nil, ret
	}
	return fillWith(n, call)
}

// fillWith makes a call with a slice of a length. It makes none if that is 0.
func fillWith[T any](n uint32, call func(n *uint32, s []T) raw.Return) ([]T, Return) {
	if n == 0 {
		return []T{}, SUCCESS
	}
	s := make([]T, n)
	ret := result(call(&n, s))
	if ret == SUCCESS {
		s = s[:min(int(n), len(s))]
	}
	return s, ret
}
