// Package override replaces some methods of software drivers and software NVMLs, for tests. A type that embeds the
// interface does so, too, but the compiler then writes a thousand methods for it.
package override

import (
	"fmt"
	"reflect"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/nvml/raw"
)

//go:generate go run -C ../../../tools ./gen-override -root .. driver.Software=internal/testrig/override/zdriver.go nvml/raw.Software=internal/testrig/override/zraw.go

// Driver returns a software driver that is base, except for the exported methods of with.
func Driver(base driver.Software, with any) driver.Software {
	o := &ofDriver{base: base}
	replace(reflect.ValueOf(&o.on).Elem(), with)
	return o
}

// NVML returns a software NVML that is base, except for the exported methods of with.
func NVML(base raw.Software, with any) raw.Software {
	o := &ofRaw{base: base}
	replace(reflect.ValueOf(&o.on).Elem(), with)
	return o
}

// replace sets the functions of the struct on to the methods of the same names.
func replace(on reflect.Value, with any) {
	methods := reflect.ValueOf(with)
	for i := range methods.NumMethod() {
		name := methods.Type().Method(i).Name
		f := on.FieldByName(name)
		if !f.IsValid() {
			panic(fmt.Sprintf("%T has the method %s, which is none of the interface's", with, name))
		}
		f.Set(methods.Method(i))
	}
}
