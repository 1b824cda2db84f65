package remedy

import (
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/driver"
)

// TestTables checks that each row of the tables is found, and that a message can end with each text.
func TestTables(t *testing.T) {
	text := func(s string) {
		t.Helper()
		if s == "" || strings.HasSuffix(s, ".") || strings.Contains(s, "\n") || s != strings.TrimSpace(s) {
			t.Errorf("%q is no clause that a message can end with", s)
		}
	}
	var seen []driver.Result
	for _, e := range general {
		text(e.text)
		for _, r := range e.of {
			if slices.Contains(seen, r) || r == driver.ResultSuccess || r.Name() == "" || Of(r) != e.text {
				t.Errorf("%s has two remedies, or needs none", r.Name())
			}
			seen = append(seen, r)
		}
	}
	for _, c := range ofCalls {
		text(c.text)
		for _, op := range c.ops {
			if _, known := driver.FindSymbol(op); !known {
				t.Errorf("%s is no function of the driver", op)
			}
			if got := OfCall(op, c.result); got != c.text {
				t.Errorf("%s, %s: %q", op, c.result.Name(), got)
			}
		}
	}
}

// TestOf asks for remedies that are general, special, and missing.
func TestOf(t *testing.T) {
	general := Of(driver.ResultInvalidValue)
	if special := OfCall("cuEventQuery", driver.ResultInvalidValue); special == general {
		t.Errorf("cuEventQuery has the general remedy: %s", special)
	}
	if got := OfCall("cuMemAlloc", driver.ResultInvalidValue); got != general {
		t.Errorf("cuMemAlloc has another remedy: %s", got)
	}
	if got := Of(driver.ResultSuccess) + Of(12345); got != "" {
		t.Errorf("success, or an unknown code, has a remedy: %s", got)
	}
}

// TestOfMissing asks for the remedies for functions that a driver lacks.
func TestOfMissing(t *testing.T) {
	for want, m := range map[string]driver.MissingError{
		"check the name": {Driver: 12000},
		"do not use the function, or use NVIDIA's driver": {
			Since: 12050, Driver: 12050, Software: true,
		},
		"use a newer version of the software driver (cusim.Version), or NVIDIA's driver": {
			Since: 12050, Driver: 12000, Software: true,
		},
		"update the NVIDIA driver":    {Since: 12050, Driver: 12000},
		"reinstall the NVIDIA driver": {Since: 12050, Driver: 13000},
	} {
		if got := OfMissing(&m); got != want {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}
