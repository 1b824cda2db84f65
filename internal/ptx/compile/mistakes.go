package compile

import "github.com/purecu/purecu/internal/ptx/syntax"

// Check looks for mistakes in the functions that no kernel calls which was translated, and in kernels that were
// not, unless except returns true for their name. It does not look at the functions that these call, which may be
// in another text. What the table lacks is no mistake.
func (m *Module) Check(except func(kernel string) bool) *Error {
	for _, f := range m.functions {
		if f.HasBody && !m.checked[f] && !(f.Kernel && except(f.Name)) {
			if err := m.translator(f.Name).check(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// check translates the body of a function.
func (t *translator) check(f *syntax.Function) (err *Error) {
	defer func() {
		if recover() != nil { // a mistake of the translator is none of the text
			err = nil
		}
	}()
	t.checking, t.sp, t.way = true, t.column(), t.column()
	own := &function{Function: f}
	if f.Kernel {
		t.passKernel(own)
	} else if own, err = t.callee(f); err != nil {
		return t.mistake(f, err)
	}
	if err = t.registersOfText(); err == nil {
		err = t.function(own)
	}
	return t.mistake(f, err)
}

// mistake returns an error, unless it is something that the table lacks.
func (t *translator) mistake(f *syntax.Function, err *Error) *Error {
	if err == nil || err.Unknown {
		t.checked[f] = err == nil
		return nil
	}
	e := *err
	e.What = "function " + f.Name + ": " + e.What
	return &e
}

// lack is what the table lacks, and whether the translation only looks for mistakes.
type lack struct {
	checking bool   // nothing is executed, and functions that are called may be in another text
	lacking  *Error // the first instruction that the table lacks
}
