//go:build !race

package core

// RaceEnabled tells whether the race detector is on: it makes calls allocate.
const RaceEnabled = false
