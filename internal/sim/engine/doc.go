// Package engine orders the work on streams, and executes it in time. It knows no contexts, handles and memory: an
// operation calls functions when it begins and when it completes.
//
// An [Op] waits for other ops: those before it in its [Stream], and those that the caller names. A few also wait for a
// value in memory. The [Engine] completes ops in the order of their times, when a call of the driver or a timer looks.
// Goroutines execute kernels and move many bytes ([Execution]). One lock, that of the driver, guards everything but
// the [Clock].
package engine
