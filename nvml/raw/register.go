package raw

import "sync"

// registered has the functions of Register, by name. An NVML in Go registers itself when a program imports its package,
// as with database/sql.
var registered sync.Map // of func() (*Library, error)

// Register makes an NVML in Go available under a name. Package nvml opens it if the environment variable PURECU_DRIVER
// has that name, and the program has chosen no library itself. A later call with the same name replaces the earlier
// one. Package cusim/auto registers the software driver's NVML as "soft".
//
// Register is meant for init functions of packages that a program imports for this effect. It is safe for concurrent
// use.
func Register(name string, open func() (*Library, error)) { registered.Store(name, open) }

// Registered returns the function that was registered under a name, or nil.
func Registered(name string) func() (*Library, error) {
	open, _ := registered.Load(name)
	f, _ := open.(func() (*Library, error))
	return f
}
