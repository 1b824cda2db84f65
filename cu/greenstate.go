package cu

import "github.com/purecu/purecu/driver"

// greenCore is the shared state of a green context. Each of its streams is a call in flight on it.
type greenCore struct {
	raw driver.GreenCtx
	resource
}

func (g *greenCore) kind() string { return "green context" }

func (g *greenCore) handle() uintptr { return uintptr(g.raw) }

func (g *greenCore) free(at driver.At) (string, driver.Result) {
	return "cuGreenCtxDestroy", g.ctx.drv.table().GreenCtxDestroy(at, g.raw)
}
