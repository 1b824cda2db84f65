package nvml_test

import (
	"strings"
	"testing"

	"github.com/purecu/purecu/nvml"
)

func TestXID(t *testing.T) {
	if s := nvml.XID(79).String(); s != "XID 79: the GPU has fallen off the bus" {
		t.Error(s)
	}
	for x, want := range map[nvml.XID]nvml.XIDAction{
		0: nvml.ActionUnknown, 13: nvml.ActionRestartApplication, 31: nvml.ActionRestartApplication,
		40: nvml.ActionRestartApplication, 42: nvml.ActionUnknown, 43: nvml.ActionNone, 45: nvml.ActionFollowOther,
		48: nvml.ActionResetGPU, 63: nvml.ActionNone, 64: nvml.ActionResetGPU, 74: nvml.ActionCheckLinks,
		79: nvml.ActionRestartMachine, 95: nvml.ActionResetGPU, 135: nvml.ActionRestartApplication,
		154: nvml.ActionAskDriver, 999: nvml.ActionUnknown, 1 << 31: nvml.ActionUnknown,
	} {
		if a := x.Action(); a != want {
			t.Errorf("after %v: %v", x, a)
		}
	}
	if s := nvml.XID(5000).String(); s != "XID 5000" {
		t.Error(s)
	}
	if s := nvml.XIDAction(99).String(); s != "XIDAction(99)" {
		t.Error(s)
	}
}

// The XIDs that tools for datacenters look for have a meaning, which is a sentence.
func TestXIDMeanings(t *testing.T) {
	known := 0
	for x := range nvml.XID(1000) {
		if strings.Contains(x.Meaning(), "does not know the number") {
			continue
		}
		known++
		s := x.String()
		if title := s[strings.Index(s, ":")+1:]; len(title) < 8 || strings.HasSuffix(title, ".") {
			t.Errorf("the text of %d is %q", x, s)
		}
		if m := x.Meaning(); !strings.HasSuffix(m, ".") || m[:1] != strings.ToUpper(m[:1]) {
			t.Errorf("the meaning of %d is %q", x, m)
		}
		if x.Action() == nvml.ActionUnknown && x != 999 {
			t.Errorf("nothing is said about what to do after %v", x)
		}
	}
	if known < 130 {
		t.Errorf("%d XIDs are known", known)
	}
	for _, x := range []nvml.XID{13, 31, 32, 38, 43, 44, 45, 46, 48, 54, 56, 57, 58, 61, 62, 63, 64, 68, 69, 74, 79, 92, 94,
		95, 109, 110, 119, 120, 121, 122, 123, 124, 125, 126, 136, 137, 140, 143, 144, 145, 146, 147, 148, 149, 150, 151} {
		if !strings.Contains(x.String(), ":") {
			t.Errorf("%v has no text", x)
		}
	}
}
