package driver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/purecu/purecu/internal/ccall"
)

// Symbol is the index of an entry point in the table of symbols. Each binary interface of a
// function is a symbol: cuEventElapsedTime_v2 is one, and the older cuEventElapsedTime is another.
type Symbol uint16

// A symbolReader reads the rows of [symbolTable] one after the other. A row has
//
//   - one byte: how many letters the name shares with the row before it, without the cu of all names;
//   - the other letters of the name that the library exports;
//   - one byte, of 128 or more, with flags;
//   - one byte with the CUDA version that introduced the symbol: 0xc8 is 12.8.
//
// Each symbolBlock-th name is whole, and symbolBlocks says where its row begins. Whole names, with a
// Go string for each, would make up two percent of a small program.
type symbolReader struct {
	next  int // where the next row begins
	n     int // the length of name
	flags byte
	since byte
	name  [maxSymbolName]byte
}

// symbolBlock is the number of rows that are read, at most, to find one.
const symbolBlock = 16

// The flags of a row.
const (
	symbolPerThread  = 1 << iota // the variant whose NULL stream is the per-thread default stream
	symbolViaDlsym               // cuGetProcAddress does not return it
	symbolCurrent                // its name in C means this symbol in a program compiled with the newest header
	symbolBaseExport             // its name in C has its version
	symbolBaseOther              // its name in C is in symbolBase
)

// read reads the next row.
func (r *symbolReader) read() {
	i := r.next
	for r.n = int(symbolTable[i]); symbolTable[i+1] < 0x80; r.n++ {
		i++
		r.name[r.n] = symbolTable[i]
	}
	r.flags, r.since, r.next = symbolTable[i+1], symbolTable[i+2], i+3
}

// row reads the row of a symbol.
//
//go:noinline
func (s Symbol) row() *symbolReader {
	r := &symbolReader{next: int(symbolBlocks[s/symbolBlock])}
	for range s%symbolBlock + 1 {
		r.read()
	}
	return r
}

// is reports whether a flag is set.
func (r *symbolReader) is(flag byte) bool { return r.flags&flag != 0 }

// version returns the CUDA version that introduced the symbol.
func (r *symbolReader) version() int { return int(r.since>>4)*1000 + int(r.since&15)*10 }

// export returns the name that the library exports.
func (r *symbolReader) export() string { return r.named(r.n) }

// named returns the first n letters of the name, and cu before them.
//
//go:noinline
func (r *symbolReader) named(n int) string { return "cu" + string(r.name[:n]) }

// versioned returns the length of the name without the suffix of the per-thread default stream.
func (r *symbolReader) versioned() int {
	if r.is(symbolPerThread) {
		return r.n - len("_ptsz")
	}
	return r.n
}

// asked returns the length of the name for cuGetProcAddress, which also lacks the version.
func (r *symbolReader) asked() int {
	n := r.versioned()
	if r.name[n-3] == '_' && r.name[n-2] == 'v' {
		n -= len("_v2")
	}
	return n
}

// ask returns the name to pass to cuGetProcAddress.
func (r *symbolReader) ask() string { return r.named(r.asked()) }

// base returns the name that a C program uses, without cu, for the symbol s of the row.
func (r *symbolReader) base(s Symbol) []byte {
	switch {
	case r.is(symbolBaseExport):
		return r.name[:r.versioned()]
	case r.is(symbolBaseOther):
		return []byte(symbolBase(s))
	}
	return r.name[:r.asked()]
}

// absent returns the error of a driver for the CUDA version have, which lacks the symbol.
func (s Symbol) absent(have int) *MissingError {
	r := s.row()
	return &MissingError{Symbol: r.export(), Since: r.version(), Driver: have}
}

// class says how an engine calls the symbol. It does not read the row, because each call by name
// needs it.
func (s Symbol) class() ccall.Class { return ccall.Class(symbolClasses[s] - '0') }

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
	r := s.row()
	return SymbolInfo{
		Export: r.export(), Base: "cu" + string(r.base(s)), Ask: r.ask(), Version: r.version(),
		PerThread: r.is(symbolPerThread), ViaDlsym: r.is(symbolViaDlsym), Current: r.is(symbolCurrent),
	}
}

// FindSymbol returns the symbol that name means: the current interface of the function that has
// this name in C, or else the symbol that the library exports under this name.
func FindSymbol(name string) (Symbol, bool) {
	s, ok := find(name, func(r *symbolReader, s Symbol) []byte {
		if r.is(symbolCurrent) && !r.is(symbolPerThread) {
			return r.base(s)
		}
		return nil
	})
	if !ok {
		return FindExport(name)
	}
	return s, ok
}

// FindExport returns the symbol that the library exports under name.
func FindExport(name string) (Symbol, bool) {
	return find(name, func(r *symbolReader, _ Symbol) []byte { return r.name[:r.n] })
}

// find returns the symbol for which of returns name, without cu.
func find(name string, of func(*symbolReader, Symbol) []byte) (Symbol, bool) {
	name, ok := strings.CutPrefix(name, "cu")
	if !ok || name == "" {
		return 0, false
	}
	var r symbolReader
	for s := range Symbol(NumSymbols) {
		if r.read(); string(of(&r, s)) == name {
			return s, true
		}
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
