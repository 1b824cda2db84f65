package simnvml

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Text returns a value as recordings have it. A struct is {Member:value …} without its version and without members
// that are zero, and an array or a slice is [value …] without the zeros at its end, or a string if its elements are
// bytes.
func Text(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "nil"
		}
		return Text(v.Elem())
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "Version" && !v.Field(i).IsZero() {
				fields = append(fields, f.Name+":"+Text(v.Field(i)))
			}
		}
		return "{" + strings.Join(fields, " ") + "}"
	case reflect.Array, reflect.Slice:
		n := v.Len()
		for n > 0 && v.Index(n-1).IsZero() {
			n--
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			b := make([]byte, n)
			reflect.Copy(reflect.ValueOf(b), v)
			return strconv.QuoteToASCII(string(b))
		}
		list := make([]string, n)
		for i := range list {
			list[i] = Text(v.Index(i))
		}
		return "[" + strings.Join(list, " ") + "]"
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	}
	return strconv.FormatUint(v.Uint(), 10)
}

// Read sets v to the value of a text that [Text] returned. Of a slice it sets the elements that the text has. It
// returns how many these are, or 1.
func Read(text string, v reflect.Value) (n int, err error) {
	defer func() { // of reflect, for a text that does not fit the type
		if p := recover(); p != nil {
			err = fmt.Errorf("%v: %q", p, text)
		}
	}()
	r := reader{text}
	n, err = r.value(v)
	if err == nil && r.text != "" {
		err = fmt.Errorf("%q is left of a value", r.text)
	}
	return n, err
}

// reader reads a text from its begin.
type reader struct{ text string }

// accept reads a prefix, if it is there.
func (r *reader) accept(prefix string) (ok bool) {
	r.text, ok = strings.CutPrefix(r.text, prefix)
	return ok
}

// word reads up to the first of the characters.
func (r *reader) word(until string) string {
	i := strings.IndexAny(r.text, until)
	if i < 0 {
		i = len(r.text)
	}
	w := r.text[:i]
	r.text = r.text[i:]
	return w
}

// value reads a value, and returns how many elements it has.
func (r *reader) value(v reflect.Value) (int, error) {
	switch v.Kind() {
	case reflect.Pointer:
		return r.value(v.Elem())
	case reflect.Struct:
		return 1, r.fields(v)
	case reflect.Array, reflect.Slice:
		return r.elements(v)
	}
	word := r.word(" }]")
	var err error
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		var f float64
		f, err = strconv.ParseFloat(word, v.Type().Bits())
		v.SetFloat(f)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		var i int64
		i, err = strconv.ParseInt(word, 10, v.Type().Bits())
		v.SetInt(i)
	default:
		var u uint64
		u, err = strconv.ParseUint(word, 10, v.Type().Bits())
		v.SetUint(u)
	}
	return 1, err
}

func (r *reader) fields(v reflect.Value) error {
	if !r.accept("{") {
		return fmt.Errorf("%q is no struct", r.text)
	}
	for !r.accept("}") {
		r.accept(" ")
		name := r.word(":")
		if !r.accept(":") {
			return fmt.Errorf("%q has no member", name)
		}
		if _, err := r.value(v.FieldByName(name)); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) elements(v reflect.Value) (int, error) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		quoted, err := strconv.QuotedPrefix(r.text)
		if err != nil {
			return 0, err
		}
		r.text = r.text[len(quoted):]
		s, err := strconv.Unquote(quoted)
		reflect.Copy(v, reflect.ValueOf([]byte(s)).Convert(reflect.SliceOf(v.Type().Elem())))
		return len(s), err
	}
	if !r.accept("[") {
		return 0, fmt.Errorf("%q is no array", r.text)
	}
	n := 0
	for ; !r.accept("]"); n++ {
		r.accept(" ")
		e := reflect.New(v.Type().Elem()).Elem() // a slice may have less room
		if n < v.Len() {
			e = v.Index(n)
		}
		if _, err := r.value(e); err != nil {
			return n, err
		}
	}
	return n, nil
}
