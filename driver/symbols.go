package driver

import (
	"errors"
	"fmt"
	"sort"

	"github.com/purecu/purecu/internal/ccall"
)

// Symbol is the index of an entry point in the table of symbols: one binary
// interface of one function. cuEventElapsedTime_v2 is a symbol, and the older
// cuEventElapsedTime is another.
type Symbol uint16

// symbolFacts is what the headers say about a symbol.
type symbolFacts struct {
	export    string      // what the library exports it as
	base      string      // what a C program writes
	ask       string      // the name under which cuGetProcAddress knows it
	version   int32       // the CUDA version that introduced this interface: 12080 is 12.8
	perThread bool        // the variant whose NULL stream is the per-thread default stream
	viaDlsym  bool        // cuGetProcAddress never yields it
	current   bool        // what base means to a program compiled against the newest header
	class     ccall.Class // how an engine should call it
}

// SymbolInfo describes a symbol to tools.
type SymbolInfo struct {
	// Export is the name that the library exports.
	Export string
	// Base is the name that a C program writes.
	Base string
	// Ask is the name under which cuGetProcAddress knows the symbol.
	Ask string
	// Version is the CUDA version that introduced this interface, as the
	// driver counts: 12080 is 12.8.
	Version int
	// PerThread marks the variant for per-thread default streams.
	PerThread bool
	// ViaDlsym marks symbols that cuGetProcAddress never yields.
	ViaDlsym bool
	// Current marks what Base means to a program compiled against the newest
	// header.
	Current bool
}

// NumSymbols is the number of symbols: valid values of [Symbol] are less.
const NumSymbols = numSymbols

// Info returns the facts about a symbol.
func (s Symbol) Info() SymbolInfo {
	f := &symbols[s]
	return SymbolInfo{
		Export: f.export, Base: f.base, Ask: f.ask, Version: int(f.version),
		PerThread: f.perThread, ViaDlsym: f.viaDlsym, Current: f.current,
	}
}

// FindSymbol returns the symbol that name means: the current interface of a
// function that a C program calls by this name, else the one that is exported
// under it.
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

// VersionString returns a CUDA version the way people write it: 12080 is
// "12.8".
func VersionString(v int) string {
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10)
}

// MissingError says that the loaded driver does not have a function.
// errors.Is(err, errors.ErrUnsupported) reports true.
type MissingError struct {
	// Symbol is the name that was looked for.
	Symbol string
	// Since is the CUDA version that introduced it, as the driver counts; 0 if
	// the symbol is not known.
	Since int
	// Driver is the version that the driver supports.
	Driver int
	// Software says that it is a software driver.
	Software bool
	// Err is what the lookup reported, if the driver should have had it.
	Err error
}

// Error names the function, the version that introduced it and the driver's.
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
			e.Symbol, VersionString(e.Since), VersionString(e.Driver))
	}
	return fmt.Sprintf("%s is missing from a driver for CUDA %s, though CUDA %s introduced it: %v",
		e.Symbol, VersionString(e.Driver), VersionString(e.Since), e.Err)
}

// Unwrap returns what the lookup reported and [errors.ErrUnsupported].
func (e *MissingError) Unwrap() []error {
	switch {
	case e == nil:
		return nil
	case e.Err == nil:
		return []error{errors.ErrUnsupported}
	}
	return []error{errors.ErrUnsupported, e.Err}
}
