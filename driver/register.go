package driver

import "sync"

// registered has the software drivers of Register, by name. Drivers register themselves when a
// program imports their packages, as with database/sql. So they are not part of any value. Its values
// do not mention [Software] and [Table], so that programs do not contain the names and types of all
// functions.
var registered sync.Map // of func(*TableState) error

// Register makes a software driver available under a name. cu.Open calls open if the environment
// variable PURECU_DRIVER has that name, and the program has chosen no driver itself. A later call
// with the same name replaces the earlier one. The name must not be empty or "cuda". Package
// cusim/auto registers package cusim's driver as "soft". If there can be no driver, open returns the
// result of [Failed].
//
// Register is meant for init functions of packages that a program imports for this effect. It is safe
// for concurrent use.
func Register(name string, open func() Provider) {
	registered.Store(name, func(s *TableState) error { return (*Table)(s).UseProvider(open()) })
}

// Registered returns a function that makes a new Table call the driver that was registered under a
// name, as [Table.UseProvider] does, or nil if there is none.
func Registered(name string) (use func(*TableState) error) {
	if f, ok := registered.Load(name); ok {
		use, _ = f.(func(*TableState) error)
	}
	return use
}
