package cu

// unfinishedOf returns how many timelines of a context are closed, or were collected, and are in use still.
func unfinishedOf(gpu *Context) int {
	core := gpu.own.core
	core.lookAtClosed()
	core.cells.mu.Lock()
	defer core.cells.mu.Unlock()
	return core.cells.unfinished
}
