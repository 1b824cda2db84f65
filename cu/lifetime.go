package cu

// noCopy makes go vet report copies. The cleanup of an object closes it when the original is
// abandoned, although a copy may still be used.
type noCopy struct{}

// Lock makes go vet treat the type as a lock, which must not be copied.
func (*noCopy) Lock() {}

// Unlock does nothing.
func (*noCopy) Unlock() {}

// last runs f, which destroys an object after its last call. If later is set, the caller may hold
// locks or must not call tracers: then f runs on another goroutine, for which the Close of a
// context waits. The object has to be a user of its context until f has returned.
func (d *driverCore) last(later bool, f func()) {
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
