package driver

import "sync"

// registered has the software drivers of Register, by name. Drivers register themselves when a
// program imports their packages, as with database/sql. So they are not part of any value.
var registered sync.Map // of func() Provider

// Register makes a software driver available under a name. cu.Open calls open if the environment
// variable PURECU_DRIVER has that name, and the program has chosen no driver itself. A later call
// with the same name replaces the earlier one. The name must not be empty or "cuda". Package
// cusim/auto registers package cusim's driver as "soft".
//
// Register is meant for init functions of packages that a program imports for this effect. It is safe
// for concurrent use.
func Register(name string, open func() Provider) { registered.Store(name, open) }

// Registered returns the function that was registered under a name, or nil.
func Registered(name string) (open func() Provider) {
	if f, ok := registered.Load(name); ok {
		open, _ = f.(func() Provider)
	}
	return open
}
