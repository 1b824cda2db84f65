//go:build !(linux && cu_static)

package ccall

// claim is what a [Thread] has of the engine: nothing, as a locked thread is enough.
type claim struct{}

func (claim) take(*Thread) {}
func (claim) give()        {}
