package driver

import (
	"errors"
	"fmt"
	"sort"

	"github.com/purecu/purecu/internal/ccall"
)

// Symbol is the index of an entry point in the table of symbols. Each binary interface of a
// function is a symbol: cuEventElapsedTime_v2 is one, and the older cuEventElapsedTime is another.
type Symbol uint16

// symbolFacts are the properties of a symbol, from CUDA's headers.
type symbolFacts struct {
	export    string      // the name that the library exports
	base      string      // the name that a C program uses
	ask       string      // the name to pass to cuGetProcAddress
	version   int32       // the CUDA version that introduced this interface: 12080 is 12.8
	perThread bool        // the variant whose NULL stream is the per-thread default stream
	viaDlsym  bool        // cuGetProcAddress does not return it
	current   bool        // base means this symbol in a program compiled with the newest header
	class     ccall.Class // how an engine calls it
}

// SymbolInfo describes a symbol, for tools.
type SymbolInfo struct {
	// Export is the name that the library exports.
	Export string
	// Base is the name that a C program uses.
	Base string
	// Ask is the name to pass to cuGetProcAddress.
	Ask string
	// Version is the CUDA version that introduced this interface, in the driver's notation: 12080
	// is 12.8.
	Version int
	// PerThread marks the variant for per-thread default streams.
	PerThread bool
	// ViaDlsym marks symbols that cuGetProcAddress does not return.
	ViaDlsym bool
	// Current marks the symbol that Base means in a program compiled with the newest header.
	Current bool
}

// NumSymbols is the number of symbols. Valid values of [Symbol] are lower.
const NumSymbols = numSymbols

// Info returns the properties of a symbol.
func (s Symbol) Info() SymbolInfo {
	f := &symbols[s]
	return SymbolInfo{
		Export: f.export, Base: f.base, Ask: f.ask, Version: int(f.version),
		PerThread: f.perThread, ViaDlsym: f.viaDlsym, Current: f.current,
	}
}

// FindSymbol returns the symbol that name means: the current interface of the function that has
// this name in C, or else the symbol that the library exports under this name.
func FindSymbol(name string) (Symbol, bool) {
	for i := range symbols {
		if f := &symbols[i]; f.current && !f.perThread && f.base == name {
			return Symbol(i), true
		}
	}
	return FindExport(name)
}

// FindExport returns the symbol that the library exports under name.
func FindExport(name string) (Symbol, bool) {
	i := sort.Search(len(symbols), func(i int) bool { return symbols[i].export >= name })
	if i < len(symbols) && symbols[i].export == name {
		return Symbol(i), true
	}
	return 0, false
}

// Version is a version of CUDA in the driver's notation: 12080 is 12.8.
type Version int

// String returns the version in the usual notation, such as "12.8".
func (v Version) String() string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// MissingError is the error of a call whose function the driver does not have. It matches
// [errors.ErrUnsupported].
type MissingError struct {
	// Symbol is the name of the missing symbol.
	Symbol string
	// Since is the CUDA version that introduced the symbol, in the driver's notation, or 0 if this
	// package does not know the symbol.
	Since int
	// Driver is the version that the driver supports.
	Driver int
	// Software says that the driver is a software driver.
	Software bool
	// Err is the error of the lookup, if the driver's version should have the symbol.
	Err error
}

// Error returns a text with the symbol, the version that introduced it, and the driver's version.
func (e *MissingError) Error() string {
	switch {
	case e == nil:
		return "no error"
	case e.Since == 0:
		return fmt.Sprintf("%s is not a function of the CUDA driver API", e.Symbol)
	case e.Software && e.Driver >= e.Since:
		return fmt.Sprintf("the software driver has no %s", e.Symbol)
	case e.Driver < e.Since:
		return fmt.Sprintf("%s needs a driver for CUDA %s or newer; this one is for CUDA %s",
			e.Symbol, Version(e.Since), Version(e.Driver))
	}
	return fmt.Sprintf("%s is missing from a driver for CUDA %s, though CUDA %s introduced it: %v",
		e.Symbol, Version(e.Driver), Version(e.Since), e.Err)
}

// Unwrap returns [errors.ErrUnsupported] and the error of the lookup.
func (e *MissingError) Unwrap() []error {
	switch {
	case e == nil:
		return nil
	case e.Err == nil:
		return []error{errors.ErrUnsupported}
	}
	return []error{errors.ErrUnsupported, e.Err}
}
