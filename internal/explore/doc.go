// Package explore tests lock-free code by systematic exploration of its schedules.
//
// Code that is to be explored uses the types of this package in place of those of sync/atomic and
// sync, and its functions in place of go statements and of operations on channels. In a normal build
// the types are aliases of the standard ones, and the functions are inlined: they cost nothing. (That
// holds for packages that import sync/atomic, if only by the name _. The compiler of Go 1.26 does not
// inline methods of packages that are not imported.) Under the build tag explore each operation is a scheduling point. There a test scheduler decides which
// goroutine makes the next step, and only that one runs.
//
// Under the tag, a test hands a program of two or three goroutines to [Check]. Check runs the program
// again and again, each time with fresh state and another schedule: first every schedule with at most
// two preemptions, then random ones. A preemption is a switch away from a goroutine that could go on.
// Few of them suffice for most faults, and their number grows slowly with the length of the program.
//
// The scheduler finds programs that stop before all goroutines have returned: these are deadlocks and
// lost wake-ups. It finds programs that never stop. What else is wrong, the program reports by
// [Run.Fail]. A schedule that fails is printed as a list of steps, and in a short form for the flag
// -explore.replay.
//
// Go's atomic operations are sequentially consistent, so that interleavings of whole operations are
// all that can happen. Plain variables are no scheduling points; they are the race detector's matter.
package explore
