package core

// BeginMemory begins to enqueue work on two regions, which may be the same. If it returns an error,
// nothing has begun. The caller calls EndLegacy and Work.End, and keeps the memory and the cu.Stream reachable until
// then. sc may be nil.
func (sc *Stream) BeginMemory(f WorkFunction, d, r *Region) (w Work, err error) {
	op := f.Op()
	if sc == nil {
		return w, NilError(op, "stream")
	}
	for i, sp := range [...]*Region{d, r} {
		if sp.Mem != nil && sp.Mem.Ctx.Drv != sc.Ctx.Drv {
			return w, MixedError(op, InRole(RoleOf(i, d, r), sp.Mem), sc)
		}
	}
	if w, err = sc.BeginEnqueue(op); err != nil {
		return w, err
	}
	if err = CheckEnds(op, d, r); err == nil {
		err = sc.CheckMemory(f, d, r)
	}
	if err != nil {
		w.End()
		return w, About(sc, err)
	}
	for i, sp := range [...]*Region{d, r} {
		if m := sp.Mem; !w.Kept(&m.Resource) && !w.Use(&m.Resource, m) {
			w.End()
			return w, m.RefusedAs(RoleOf(i, d, r), op)
		}
	}
	sc.BeginLegacy()
	return w, nil
}

// Retry is Context.Retry for a call that enqueues work on the stream. If the stream is being captured, also by other
// code, it frees nothing: the failed attempt may have invalidated the capture, whose error would hide the lack of
// memory.
// sc may be nil if err is no lack of memory.
func (sc *Stream) Retry(op string, err error, call func() error) error {
	if LacksMemory(op, err) == nil || sc.Captured(op) {
		return err
	}
	return sc.Ctx.Retry(op, err, call)
}

// Attempt is Retry with the first attempt. sc may be nil if call then returns another error.
func (sc *Stream) Attempt(op string, call func() error) error { return sc.Retry(op, call(), call) }
