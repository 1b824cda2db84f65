package handle

import "github.com/purecu/purecu/internal/explore"

// Users counts the users of an object that has no Close. When the last user is gone, the caller
// decides under a lock of its own whether the object is destroyed or gets users again. The zero
// value has no users.
type Users struct{ n explore.Int64 }

// Hold counts one more user. It reports false, and counts nothing, if there are no users.
//
// It uses compare-and-swap because an addition could not be undone here: to take it back would
// report the last user a second time.
func (u *Users) Hold() bool {
	for {
		n := u.n.Load()
		if n == 0 {
			return false
		}
		if u.n.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Drop subtracts a user, and reports whether it was the last one. Then the caller has to check None
// under its lock.
func (u *Users) Drop() (last bool) { return u.n.Add(-1) == 0 }

// None reports whether there are no users. If so, there are none until Revive, which needs the
// caller's lock.
func (u *Users) None() bool { return u.n.Load() == 0 }

// Revive counts one more user, also if there are none. The caller holds its lock.
func (u *Users) Revive() { u.n.Add(1) }
