// Package override replaces some methods of software drivers and software NVMLs, for tests. A type that embeds the
// interface does so, too, but the compiler then writes a thousand methods for it. The packages that have the interfaces
// generate the rest of this one.
package override

import (
	"fmt"
	"reflect"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/nvml/raw"
)

// Driver returns a software driver with the exported methods of with, a struct or a pointer to one. The other methods
// are those of the struct's field Software, or of driver.Unimplemented if it has no such field.
func Driver(with any) driver.Software {
	o := &ofDriver{base: software[driver.Software](with, driver.Unimplemented{})}
	replace(reflect.ValueOf(&o.on).Elem(), with)
	return o
}

// NVML is Driver for a software NVML.
func NVML(with any) raw.Software {
	o := &ofRaw{base: software[raw.Software](with, raw.Unimplemented{})}
	replace(reflect.ValueOf(&o.on).Elem(), with)
	return o
}

// software returns the field Software of a struct, or none.
func software[S any](of any, none S) S {
	f := reflect.Indirect(reflect.ValueOf(of)).FieldByName("Software")
	if !f.IsValid() {
		return none
	}
	return f.Interface().(S)
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
