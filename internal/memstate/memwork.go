package memstate

import (
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/drivercall"
)

// Begin begins to enqueue work on two regions, which may be the same. If it returns an error, nothing has begun. The
// caller calls LeaveGate of the stream and Work.End, and keeps the memory and the cu.Stream reachable until then. sc
// may be nil.
func Begin(sc *core.Stream, f core.WorkFunction, d, r *Region) (w core.Work, err error) {
	op := f.Op()
	if sc == nil {
		return w, drivercall.NilError(op, "stream")
	}
	for i, sp := range [...]*Region{d, r} {
		if sp.Mem != nil && sp.Mem.Ctx.Drv != sc.Ctx.Drv {
			return w, core.MixedError(op, core.InRole(RoleOf(i, d, r), sp.Mem), sc)
		}
	}
	if w, err = sc.BeginEnqueue(op); err != nil {
		return w, err
	}
	if err = CheckEnds(op, d, r); err == nil {
		err = CheckWork(sc, f, d, r)
	}
	if err != nil {
		w.End()
		return w, drivercall.About(sc, err)
	}
	for i, sp := range [...]*Region{d, r} {
		if m := sp.Mem; !w.Kept(&m.Resource) && !w.Use(&m.Resource, m) {
			w.End()
			return w, m.RefusedAs(RoleOf(i, d, r), op)
		}
	}
	sc.EnterGate()
	return w, nil
}
