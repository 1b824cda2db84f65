package handle

import "github.com/purecu/purecu/internal/explore"

// Users counts the users of an object that nobody closes. The last one leaves it without users; then it is destroyed,
// or gets users again, as the caller decides under a lock of its own. The zero value has no users.
type Users struct{ n explore.Int64 }

// Hold counts one more user, unless there is none. It cannot fail for a user.
//
// Here an addition could not be undone: a user that came and went would leave the object a second time.
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

// Drop takes a user away. It reports true if that was the last one: the caller has to look, under the lock, whether
// the object is still without users.
func (u *Users) Drop() (last bool) { return u.n.Add(-1) == 0 }

// None reports whether there are no users. Under the lock that answer is true until Revive.
func (u *Users) None() bool { return u.n.Load() == 0 }

// Revive counts a user where there may be none. The caller holds the lock under which that is decided on.
func (u *Users) Revive() { u.n.Add(1) }
