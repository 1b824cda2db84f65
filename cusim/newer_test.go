package cusim_test

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// TestNewerThanVersion calls every function that is newer than CUDA 13.0 on a driver for 13.0. The error
// says which release it needs.
func TestNewerThanVersion(t *testing.T) {
	const have = 13000
	table := driver.NewSoftware(cusim.New(cusim.Version(have)).Software())
	version := regexp.MustCompile(`_v(\d+)$`)
	called := 0
	for s := range driver.Symbol(driver.NumSymbols) {
		f := s.Info()
		if f.Version <= have || f.PerThread {
			continue
		}
		name := version.ReplaceAllString(strings.TrimPrefix(f.Export, "cu"), "V$1")
		call := reflect.ValueOf(table).MethodByName(name)
		if !call.IsValid() {
			t.Errorf("a Table has no %s", name)
			continue
		}
		var args []reflect.Value
		for i := range call.Type().NumIn() {
			v := reflect.New(call.Type().In(i)).Elem()
			switch {
			case v.CanInt():
				v.SetInt(1)
			case v.CanUint():
				v.SetUint(1)
			case v.Kind() == reflect.Slice:
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			}
			args = append(args, v)
		}
		results := call.Call(args)
		m := table.Missing(results[len(results)-1].Interface().(driver.Result))
		want := fmt.Sprintf("%s needs a driver for CUDA %v or newer; this one is for CUDA 13.0", f.Export,
			driver.Version(f.Version))
		if m == nil || m.Error() != want {
			t.Errorf("%s: %v; want %s", name, m, want)
		}
		called++
	}
	if called < 40 {
		t.Errorf("only %d functions are newer than CUDA 13.0", called)
	}
	t.Logf("%d functions", called)
}
