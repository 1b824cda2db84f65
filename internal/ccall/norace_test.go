//go:build !race

package ccall

// raceEnabled tells whether the race detector is on: it makes calls allocate.
const raceEnabled = false
