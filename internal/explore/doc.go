// Package explore tests lock-free code by systematic exploration of its schedules.
//
// Explored code uses the types of this package instead of those of sync/atomic and sync, and its
// functions instead of go statements and channel operations. In a normal build the types are
// aliases of the standard ones, and the functions are inlined: they cost nothing. (The package must
// import sync/atomic for this, at least with the name _, because the compiler of Go 1.26 does not
// inline methods of packages that are not imported.) With the build tag explore each operation is a
// scheduling point: a test scheduler decides which goroutine makes the next step, and only this
// goroutine runs.
//
// With the tag, a test passes a program of two or three goroutines to [Check]. Check runs the
// program many times, each time with new state and another schedule: first all schedules with at
// most two preemptions, then random schedules. A preemption is a switch away from a goroutine that
// could continue. A few preemptions are enough to find most faults, and the number of schedules
// then grows slowly with the length of the program.
//
// The scheduler finds programs that stop before all goroutines have returned: these are deadlocks
// and lost wake-ups. It finds programs that never stop. The program reports all other faults with
// [Run.Fail]. Check prints a schedule that fails as a list of steps, and in a short form for the
// flag -explore.replay.
//
// Go's atomic operations are sequentially consistent, so it is enough to explore the interleavings
// of whole operations. Accesses to plain variables are not scheduling points; the race detector
// checks them.
package explore
