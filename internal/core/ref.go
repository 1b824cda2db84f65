package core

// The packages in the folder of cu get from an object of cu to its state by the functions of this file. What cu embeds
// for that has no exported field or method, so programs see nothing of it.

// DriverRef refers to a Driver. A cu.Driver embeds it, by an alias that is not exported.
type DriverRef struct{ d *Driver }

// RefToDriver returns what a cu.Driver embeds. The zero DriverRef refers to no Driver.
func RefToDriver(d *Driver) DriverRef { return DriverRef{d} }

func (r *DriverRef) driver() *Driver { return r.d }

// HasDriver is a *cu.Driver. The interface is sealed: only types that embed a DriverRef have its method.
type HasDriver interface{ driver() *Driver }

// DriverOf returns the Driver that h refers to, or nil if h did not come from cu.Open. The pointer in h must not be nil,
// because there is no reference then. The call is one load if the type of h is known where it is made.
func DriverOf(h HasDriver) *Driver { return h.driver() }
