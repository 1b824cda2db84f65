//go:build race

package ccall

// raceEnabled says whether the race detector is on. It makes calls allocate.
const raceEnabled = true
