// Package dynlib loads libraries of C without cgo, as packages dl and nvml need it.
package dynlib

// A Library is a loaded library.
type Library interface {
	// Symbol returns the address of an exported symbol.
	Symbol(name string) (uintptr, error)
	// Folder returns the folder that the library was loaded from.
	Folder() (string, error)
	// CallPointer and CallWord call a function whose arguments are a handle and an address or a number, and which
	// returns an int.
	CallPointer(name string, handle uintptr, p *byte) (int32, error)
	CallWord(name string, handle, word uintptr) (int32, error)
	// Close unloads the library, if the system can.
	Close() error
}
