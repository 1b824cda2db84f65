// Command compare calls every method of go-nvml, and prints the results. Its first argument names the library, and the
// others methods that it does not call: go-nvml ends the process if the library lacks the function.
package main

import (
	"fmt"
	"os"
	"reflect"
	"slices"
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
	case reflect.Interface: // there is no such object
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

// arguments returns the arguments of a method, and whether there is an object for each.
func arguments(f reflect.Type) (args []reflect.Value, ok bool) {
	ok = true
	for i := range f.NumIn() {
		a := argument(f.In(i), i)
		ok = ok && (a.Kind() != reflect.Interface || !a.IsNil())
		args = append(args, a)
	}
	return args, ok
}

// skipped are methods that are called at the begin and at the end, those of a mutex that go-nvml embeds, and one that
// reads beyond a struct in go-nvml.
const skipped = " Init InitWithFlags Shutdown Extensions LookupSymbol Lock TryLock Unlock GetVgpuCompatibility "

// callAll calls the methods of a value.
func callAll(name string, v reflect.Value) {
	for i := range v.NumMethod() {
		method, f := v.Type().Method(i).Name, v.Method(i)
		args, ok := arguments(f.Type())
		if !ok || strings.Contains(skipped, " "+method+" ") || slices.Contains(os.Args[2:], method) {
			continue
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

// add adds an object, if there is one.
func add[T any](o T, ret nvml.Return) T {
	fmt.Printf("%T: %v\n", o, ret)
	if ret == nvml.SUCCESS {
		objects = append(objects, o)
	}
	return o
}

// instances makes a GPU instance and a compute instance, and adds them.
func instances(d nvml.Device) {
	_, ret := d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	fmt.Println(ret)
	profile, _ := d.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	gpu := add(d.CreateGpuInstance(&profile))
	part, _ := gpu.GetComputeInstanceProfileInfo(nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE, 0)
	add(gpu.CreateComputeInstance(&part))
}

func main() {
	l := nvml.New(nvml.WithLibraryPath(os.Args[1]))
	fmt.Println(l.Init())
	first, _ := l.DeviceGetHandleByIndex(0)
	add(l.DeviceGetHandleByIndex(1))
	instances(first)
	add(l.EventSetCreate())
	add(l.GpmSampleAlloc())
	add(l.UnitGetHandleByIndex(0))
	if types, _ := first.GetSupportedVgpus(); len(types) > 0 {
		add(types[0], nvml.SUCCESS)
	}
	if vgpus, _ := first.GetActiveVgpus(); len(vgpus) > 0 {
		add(vgpus[0], nvml.SUCCESS)
	}
	if mig, ret := first.GetMigDeviceHandleByIndex(0); ret == nvml.SUCCESS {
		callAll("MIG device", reflect.ValueOf(mig))
	}
	for _, o := range append(objects, l) {
		callAll(reflect.TypeOf(o).Name(), reflect.ValueOf(o))
	}
	fmt.Println(l.Shutdown())
}
