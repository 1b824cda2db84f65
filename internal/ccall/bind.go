package ccall

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"unsafe"
)

// Bind sets a variable to a Go function that calls the C function at fn. to points to the variable,
// whose type is the prototype: [checkPrototype] has the types. failed returns the error for a C
// function that returned a status other than 0. Bind returns an error if the type is not supported.
//
// The function makes a call of class [Setup]: C may compile, start a process, and wait. It is
// convenient, and costs about a microsecond. C must not keep pointers after it has returned.
func Bind(fn uintptr, to any, failed func(status int32) error) error {
	v := reflect.ValueOf(to)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Func {
		return fmt.Errorf("a pointer to a function variable is needed, and this is a %T", to)
	}
	t := v.Elem().Type()
	if err := checkPrototype(t); err != nil {
		return err
	}
	v.Elem().Set(reflect.MakeFunc(t, func(args []reflect.Value) []reflect.Value {
		r, err := invokeValues(fn, args)
		results := []reflect.Value{reflect.Zero(t.Out(0))}
		switch {
		case t.NumOut() == 2:
			results = append(results, reflect.Zero(t.Out(1)))
			if err == nil {
				results[0] = result(t.Out(0), r)
			}
		case err == nil && int32(r) != 0:
			err = failed(int32(r))
		}
		if err != nil {
			results[len(results)-1] = reflect.ValueOf(&err).Elem()
		}
		return results
	}))
	return nil
}

var errorType = reflect.TypeFor[error]()

// checkPrototype returns an error if a type of functions cannot stand for a C function.
//
//   - The parameters are integers, strings and []string, which C receives as NUL-terminated copies,
//     and pointers to and slices of types without pointers. nil and empty slices are NULL.
//   - The result is error, for a C function that returns an int, which is 0 for success; or T and
//     error, for a C function that returns an integer, or a NUL-terminated string that C keeps.
func checkPrototype(t reflect.Type) error {
	if t.IsVariadic() {
		return errors.New("a variadic function cannot stand for a C function")
	}
	if most := len(Frame14{}.A); t.NumIn() > most {
		return fmt.Errorf("%v has %d parameters, of at most %d", t, t.NumIn(), most)
	}
	for i := range t.NumIn() {
		in := t.In(i)
		switch in.Kind() {
		case reflect.String:
			continue
		case reflect.Slice:
			if in.Elem().Kind() == reflect.String || plain(in.Elem()) {
				continue
			}
		case reflect.Pointer:
			if plain(in.Elem()) {
				continue
			}
		default:
			if isInteger(in) {
				continue
			}
		}
		return fmt.Errorf("parameter %d is a %v, which C cannot receive: use an integer, a string, "+
			"or a pointer to or a slice of a type without pointers", i, in)
	}
	n := t.NumOut()
	if n == 0 || n > 2 || t.Out(n-1) != errorType ||
		n == 2 && t.Out(0).Kind() != reflect.String && !isInteger(t.Out(0)) {
		return fmt.Errorf("the results of %v must be error, or an integer or a string and error", t)
	}
	return nil
}

func isInteger(t reflect.Type) bool {
	return reflect.Int <= t.Kind() && t.Kind() <= reflect.Uintptr
}

// plain reports whether the type has no pointers that Go's garbage collector knows.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !plain(f.Type) {
				return false
			}
		}
		return true
	}
	return reflect.Bool <= t.Kind() && t.Kind() <= reflect.Complex128
}

// invokeValues calls the C function at fn with arguments of the types that checkPrototype allows.
func invokeValues(fn uintptr, args []reflect.Value) (r uintptr, err error) {
	f := Heap(new(Frame14))
	f.Fn = fn
	// Converting addresses to numbers is safe. What the caller of a function variable passes is on the
	// heap, as are the copies here, and does not move. keep and args keep it alive.
	var keep []any
	text := func(i int, s string) (uintptr, error) {
		if strings.IndexByte(s, 0) >= 0 {
			return 0, fmt.Errorf("argument %d, %q, has an interior NUL", i, s)
		}
		b := append([]byte(s), 0)
		keep = append(keep, b)
		return uintptr(escape(unsafe.Pointer(&b[0]))), nil
	}
	for i, a := range args {
		switch {
		case a.CanInt():
			f.A[i] = uintptr(a.Int())
		case a.CanUint():
			f.A[i] = uintptr(a.Uint())
		case a.Kind() == reflect.String:
			if f.A[i], err = text(i, a.String()); err != nil {
				return 0, err
			}
		case a.Kind() == reflect.Slice && a.Len() == 0: // NULL
		case a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.String:
			list := make([]uintptr, a.Len()+1) // with a NULL at its end
			for j := range a.Len() {
				if list[j], err = text(i, a.Index(j).String()); err != nil {
					return 0, err
				}
			}
			keep = append(keep, list)
			f.A[i] = uintptr(escape(unsafe.Pointer(&list[0])))
		default: // a pointer or a slice
			f.A[i] = a.Pointer()
		}
	}
	made := Call14(unsafe.Pointer(f), Setup, nil)
	runtime.KeepAlive(keep)
	runtime.KeepAlive(args)
	if !made {
		return 0, ErrNoThread
	}
	return f.R, nil
}

// result returns the result register as a value of a type that checkPrototype allows.
func result(t reflect.Type, r uintptr) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case v.CanInt(): // SetInt takes the low bits
		v.SetInt(int64(r))
	case v.CanUint():
		v.SetUint(uint64(r))
	default:
		v.SetString(cString(r))
	}
	return v
}

// cString returns a copy of a NUL-terminated string of C, or "" for NULL.
func cString(p uintptr) string {
	if p == 0 {
		return ""
	}
	s := *(*unsafe.Pointer)(unsafe.Pointer(&p)) // memory that Go does not manage
	n := 0
	for *(*byte)(unsafe.Add(s, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(s), n))
}
