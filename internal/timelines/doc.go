// Package timelines has the states of timelines. A timeline is a counter in memory that the GPU and the host
// share. After Close it keeps its cell until all work that uses it is done: see timelineend.go. The core has the
// memory of the cells, because the release of a context waits for that work.
package timelines
