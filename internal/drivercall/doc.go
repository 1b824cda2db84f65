// Package drivercall has what every call of the driver needs: the functions of a driver (Access), the tracers that
// are told of calls, the errors of mistakes and of results, and the driver's log. It knows no contexts: errors of
// calls in a context are those of package core.
package drivercall
