package entries

import "github.com/purecu/purecu/driver"

// addUserObject creates a user object, of which the program and a graph have references.
func (w *world) addUserObject(at A) {
	const many = 100
	var r R
	w.object, r = w.UserObjectCreate(at, w.callback, many, driver.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
	w.must("cuUserObjectCreate", r)
	w.finally("cuUserObjectRelease", func(at A) R { return w.UserObjectRelease(at, w.object, 1) })
	w.must("cuUserObjectRelease", w.UserObjectRelease(at, w.object, many-1))
	w.owner, r = w.GraphCreate(at, 0)
	w.must("cuGraphCreate", r)
	w.finally("cuGraphDestroy", func(at A) R { return w.GraphDestroy(at, w.owner) })
	w.must("cuGraphRetainUserObject", w.GraphRetainUserObject(at, w.owner, w.object, many, 0))
}

// userObjectCalls are about user objects.
func userObjectCalls() []call {
	return with(userObject,
		alone("cuUserObjectCreate", func(w W, at A) R {
			o, r := w.UserObjectCreate(at, w.callback, 1, driver.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
			return w.later(r, func(at A) R { return w.UserObjectRelease(at, o, 1) })
		}),
		alone("cuUserObjectRetain, cuUserObjectRelease", func(w W, at A) R {
			if r := w.UserObjectRetain(at, w.object, 1); r != ok {
				return r
			}
			return w.UserObjectRelease(at, w.object, 1)
		}),
		alone("cuGraphRetainUserObject", func(w W, at A) R { return w.GraphRetainUserObject(at, w.owner, w.object, 1, 0) }),
		alone("cuGraphReleaseUserObject", func(w W, at A) R { return w.GraphReleaseUserObject(at, w.owner, w.object, 1) }),
	)
}
