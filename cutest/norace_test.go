//go:build !race

package cutest_test

const raceEnabled = false
