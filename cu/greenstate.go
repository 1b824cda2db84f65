package cu

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// greenCore is the shared state of a green context. Each of its streams is a call in flight on it.
type greenCore struct {
	raw driver.GreenCtx
	core.Resource
}

func (g *greenCore) Kind() string { return "green context" }

func (g *greenCore) Handle() uintptr { return uintptr(g.raw) }

func (g *greenCore) Destroy(at driver.At) (string, driver.Result) {
	return "cuGreenCtxDestroy", g.Ctx.Drv.Table().GreenCtxDestroy(at, g.raw)
}
