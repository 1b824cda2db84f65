package green

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
)

// greenCore is the shared state of a green context. Each of its streams is a call in flight on it.
type greenCore struct {
	raw driver.GreenCtx
	core.Resource
}

// Kind names the kind of the object in errors and reports.
func (g *greenCore) Kind() string { return "green context" }

// Handle returns the driver's handle.
func (g *greenCore) Handle() uintptr { return uintptr(g.raw) }

// Destroy destroys the object in the driver, unless other code owns it: see core.Object.
func (g *greenCore) Destroy(at driver.At) (string, driver.Result) {
	return "cuGreenCtxDestroy", g.Ctx.Drv.Table().GreenCtxDestroy(at, g.raw)
}
