package compile

import (
	"fmt"
	"strings"
)

// The last versions of PTX in which mad.f32 may be without a rounding mode, which is .rn then, in which wmma is without
// .aligned, and in which its results in floats may be limited.
const (
	mostUnrounded = 31
	mostUnaligned = 62
	mostLimited   = 64
)

// available returns an error if the text's version or target does not have an instruction.
func (t *translator) available(v *variant) *Error {
	version, target := v.version, v.target
	if v.Name == "wmma" {
		aligned := strings.Contains(t.inst.Op, ".aligned")
		switch {
		case t.Text.Version <= mostUnaligned && aligned:
			return t.unsupported("with .aligned before version 6.3 of PTX")
		case t.Text.Version > mostUnaligned && !aligned:
			return t.unsupported("without .aligned")
		case t.Text.Version > mostLimited && v.Has("satfinite") && v.Get("ct")[0] == 'f':
			return t.unsupported("with .satfinite for floats after version 6.4 of PTX")
		case !aligned && strings.Contains(t.inst.Op, ".m16n16k16"):
			version = 60
		case !aligned:
			version = 61
		}
	}
	if (v.Name == "setmaxnreg" || v.Name == "wgmma") && t.Text.Features == "" {
		return t.unsupported(fmt.Sprintf("the target is not sm_%da", max(t.Text.Target, 90)))
	}
	return t.since(version, target)
}
