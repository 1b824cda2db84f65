package tests

import (
	"errors"
	"github.com/purecu/purecu/cu/graph"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/loader"
	"github.com/purecu/purecu/nvml"
)

// TestNilErrors calls the methods of each exported error type on nil. A program may do that when it
// logs the target of errors.As.
func TestNilErrors(t *testing.T) {
	types := []error{(*cu.BatchError)(nil), (*cu.Error)(nil), (*graph.UpdateError)(nil),
		(*cu.MissingError)(nil), (*loader.LoadError)(nil),
		(*loader.StatusError)(nil), (*nvml.Error)(nil)}
	var want []string
	for _, line := range publicAPI(t) {
		if method, ok := strings.CutSuffix(line, ") Error() string\n"); ok && strings.Contains(method, "(*") {
			want = append(want, "*"+path.Base(strings.NewReplacer("pkg ", "", ", method (*", ".").Replace(method)))
		}
	}
	var got []string
	for _, err := range types {
		got = append(got, reflect.TypeOf(err).String())
		for i := range reflect.TypeOf(err).NumMethod() {
			if m := reflect.ValueOf(err).Method(i); m.Type().NumIn() == 0 {
				m.Call(nil)
			}
		}
		if err.Error() == "" || errors.Is(err, cu.ErrClosed) || cu.NeedsRestart(err) {
			t.Errorf("%T says %q", err, err.Error())
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error types (-API +tested):\n%s", diff)
	}
}
