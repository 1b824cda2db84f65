package core

// BeginMemory begins to enqueue work on two regions, which may be the same. If it returns an error,
// nothing has begun. s may be nil.
func (s *Stream) BeginMemory(f WorkFunction, d, r *Region) (w Work, err error) {
	op := f.Op()
	if s == nil {
		return w, NilError(op, "stream")
	}
	for i, sp := range [...]*Region{d, r} {
		if sp.Mem != nil && sp.Mem.Ctx.Drv != s.Ctx.Drv {
			return w, MixedError(op, InRole(RoleOf(i, d, r), sp.Mem), s)
		}
	}
	if w, err = s.BeginEnqueue(op); err != nil {
		return w, err
	}
	if err = CheckEnds(op, d, r); err == nil {
		err = s.CheckMemory(f, d, r)
	}
	if err != nil {
		w.End()
		return w, About(s, err)
	}
	for i, sp := range [...]*Region{d, r} {
		if m := sp.Mem; !w.Kept(&m.Resource) && !w.Use(&m.Resource, m) {
			w.End()
			return w, m.RefusedAs(RoleOf(i, d, r), op)
		}
	}
	s.BeginLegacy()
	return w, nil
}

// Retry is Context.Retry for a call that enqueues work on the stream. If the stream is being captured, also by other
// code, it frees nothing: the failed attempt may have invalidated the capture, whose error would hide the lack of memory.
func (s *Stream) Retry(op string, err error, call func() error) error {
	if LacksMemory(op, err) == nil || s.Captured(op) {
		return err
	}
	return s.Ctx.Retry(op, err, call)
}

// Attempt is Retry with the first attempt. s may be nil if call then returns an error.
func (s *Stream) Attempt(op string, call func() error) error { return s.Retry(op, call(), call) }
