// Command compare calls every method of go-nvml, with the library that its argument names, and prints the results.
package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// objects are what arguments that are interfaces can be.
var objects []any

// text returns a value without addresses.
func text(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return text(v.Elem())
	case reflect.Pointer:
		return fmt.Sprint("pointer ", !v.IsNil())
	case reflect.Struct:
		var s []string
		for i := range v.NumField() {
			name, field := v.Type().Field(i).Name, v.Field(i)
			if name == "Handle" && field.Kind() == reflect.Pointer {
				s = append(s, fmt.Sprint("Handle:", uint64(field.Pointer())))
				continue
			}
			s = append(s, name+":"+text(field))
		}
		return v.Type().Name() + "{" + strings.Join(s, " ") + "}"
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.IsNil() {
			return "no slice"
		}
		var s []string
		for i := range v.Len() {
			s = append(s, text(v.Index(i)))
		}
		return "[" + strings.Join(s, " ") + "]"
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	}
	switch {
	case v.CanInt():
		return fmt.Sprint(v.Int())
	case v.CanUint():
		return fmt.Sprint(v.Uint())
	case v.CanFloat():
		return fmt.Sprint(v.Float())
	case v.Kind() == reflect.Bool:
		return fmt.Sprint(v.Bool())
	}
	return v.Kind().String()
}

// fill sets a variable to numbers.
func fill(v reflect.Value, n int) {
	switch {
	case v.Kind() == reflect.Interface:
		v.Set(argument(v.Type(), n))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), n+i)
			}
		}
	case v.Kind() == reflect.Array:
		for i := range min(5, v.Len()) {
			fill(v.Index(i), n)
		}
	case v.CanInt():
		v.SetInt(int64(n))
	case v.CanUint():
		v.SetUint(uint64(n))
	}
}

// argument returns an argument of the type.
func argument(t reflect.Type, n int) reflect.Value {
	for _, o := range objects {
		if t.Kind() == reflect.Interface && reflect.TypeOf(o).Implements(t) {
			return reflect.ValueOf(o)
		}
	}
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		fill(v.Elem(), 2)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, 2, 2))
		fill(v.Index(0), 3)
		fill(v.Index(1), 4)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	default:
		fill(v, 10+n)
	}
	return v
}

// skipped are methods that are called at the begin and at the end, those of a mutex that go-nvml embeds, and one that
// reads beyond a struct in go-nvml.
const skipped = " Init InitWithFlags Shutdown Extensions LookupSymbol Lock TryLock Unlock GetVgpuCompatibility "

// callAll calls the methods of a value.
func callAll(name string, v reflect.Value) {
	for i := range v.NumMethod() {
		method, f := v.Type().Method(i).Name, v.Method(i)
		if strings.Contains(skipped, " "+method+" ") {
			continue
		}
		var args []reflect.Value
		for i := range f.Type().NumIn() {
			args = append(args, argument(f.Type().In(i), i))
		}
		results := f.Call(args)
		fmt.Printf("%s.%s:", name, method)
		for _, r := range results {
			fmt.Print(" ", text(r))
		}
		for _, a := range args {
			if a.Kind() == reflect.Pointer {
				fmt.Print(" <- ", text(a.Elem()))
			} else if a.Kind() == reflect.Slice {
				fmt.Print(" <- ", text(a))
			}
		}
		fmt.Println()
		for _, r := range results {
			// The results that have methods V1 and so on.
			if r.Kind() == reflect.Struct && r.NumMethod() > 0 && len(results) == 1 {
				callAll(name+"."+method, r)
			}
		}
	}
}

func must[T any](v T, ret nvml.Return) T {
	if ret != nvml.SUCCESS {
		panic(ret)
	}
	return v
}

func main() {
	l := nvml.New(nvml.WithLibraryPath(os.Args[1]))
	fmt.Println(l.Init())
	first := must(l.DeviceGetHandleByIndex(0))
	gpu := must(first.GetGpuInstanceById(1))
	objects = []any{must(l.DeviceGetHandleByIndex(1)), gpu, must(gpu.GetComputeInstanceById(1)), must(l.EventSetCreate()),
		must(l.GpmSampleAlloc()), must(l.UnitGetHandleByIndex(0)), must(first.GetSupportedVgpus())[0],
		must(first.GetActiveVgpus())[0]}
	for _, o := range append(objects, l) {
		callAll(reflect.TypeOf(o).Name(), reflect.ValueOf(o))
	}
	fmt.Println(l.Shutdown())
}
