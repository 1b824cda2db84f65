package cu

// noCopy lets go vet find copies of what must not be copied: the garbage
// collector closes an object when nobody refers to the original.
type noCopy struct{}

// Lock makes go vet take the type for a lock.
func (*noCopy) Lock() {}

// Unlock does nothing either.
func (*noCopy) Unlock() {}

// last runs f, which destroys something after its last call. If later is set the caller may hold locks, or must not run
// what tracers do: then that is on another goroutine, for which whoever closes a context waits. The object has to be a
// user of its context until f has returned.
func (d *Driver) last(later bool, f func()) {
	if !later {
		f()
		return
	}
	d.watch.AddLate(1)
	go func() {
		defer d.watch.AddLate(-1)
		f()
	}()
}
