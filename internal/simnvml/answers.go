package simnvml

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/nvml/raw"
)

// answers are the functions of [raw.Software] as a GPU was recorded to answer them. They check the arguments, and set
// what does not change by itself.
type answers struct{ *state }

// answer returns the result of a call, and sets what it sets. The arguments are those of the function.
func (a answers) answer(name string, args ...any) raw.Return {
	if r, ok := a.migResult(name, args); ok {
		return r
	}
	if r, ok := a.set(name, args); ok {
		return r
	}
	if a.withoutECC(name, args) {
		return raw.NVML_ERROR_NOT_SUPPORTED
	}
	f := a.recording(args)[name]
	if f == nil { // no function that changes something is recorded with handles that work
		return raw.NVML_ERROR_NOT_SUPPORTED
	}
	texts := make([]string, len(args))
	for i, arg := range args {
		texts[i] = a.text(arg, f.usual[i])
	}
	row, ok := f.find(texts)
	if !ok { // one is wrong, or has a size that was not recorded
		row, ok = f.find(firstWrong(texts, f.usual))
	}
	if !ok {
		return raw.NVML_ERROR_NOT_SUPPORTED
	}
	switch row.result {
	case "missing":
		return raw.Lacks(export(name))
	case "crash", "hangs": // the software NVML does neither
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	n, _ := strconv.ParseInt(row.result, 10, 32)
	r := raw.Return(n)
	if r == raw.NVML_SUCCESS {
		counted := slices.ContainsFunc(f.usual, func(text string) bool { return strings.HasPrefix(text, "=") })
		for i, arg := range args {
			clearOutput(reflect.ValueOf(arg), f.usual[i], counted)
		}
	}
	if short := setOutputs(row, f.usual, args); short && r == raw.NVML_SUCCESS {
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	if r == raw.NVML_SUCCESS {
		a.get(name, args)
	}
	return r
}

// clearOutput sets what an argument leads to to zero, as rows do not have zeros: but for what the function reads, and
// for the elements of a list that is counted, of which only those that there are get set.
func clearOutput(v reflect.Value, usual string, counted bool) {
	switch {
	case v.Kind() == reflect.Slice && v.Type() == reflect.TypeFor[[]raw.FieldValue]():
		for i := range v.Len() {
			f := v.Index(i).Addr().Interface().(*raw.FieldValue)
			*f = raw.FieldValue{FieldId: f.FieldId, ScopeId: f.ScopeId}
		}
	case v.Kind() == reflect.Slice && (!counted || v.Type().Elem().Kind() == reflect.Uint8):
		v.Clear()
	case v.Kind() != reflect.Pointer || v.IsNil() || strings.HasPrefix(usual, "="):
	case v.Elem().Kind() == reflect.Struct:
		for i := range v.Elem().NumField() {
			name, f := v.Elem().Type().Field(i).Name, v.Elem().Field(i)
			switch f.Kind() {
			case reflect.Pointer, reflect.Uintptr, reflect.UnsafePointer: // the caller's
				continue
			}
			if name != "Version" && f.CanSet() && !slices.Contains(inputs[v.Elem().Type()], name) {
				f.SetZero()
			}
		}
	default:
		v.Elem().SetZero()
	}
}

// wrongs are the beginnings of texts of arguments for which only the other arguments of the usual call were recorded.
var wrongs = []string{"null", "wrong", "nil", "v"}

// firstWrong returns the arguments of the usual call, but for the first that is wrong, and for numbers.
func firstWrong(texts, usual []string) []string {
	for i, text := range texts {
		if slices.ContainsFunc(wrongs, func(w string) bool { return strings.HasPrefix(text, w) }) {
			args := slices.Clone(usual)
			args[i] = text
			return args
		}
	}
	args := slices.Clone(texts)
	for i, text := range texts {
		if strings.HasPrefix(text, "=") || strings.HasPrefix(text, "#") || strings.HasPrefix(text, "*") ||
			strings.HasPrefix(text, `"`) {
			args[i] = usual[i]
		}
	}
	return args
}

// text returns the text of an argument. usual is that of the usual call.
func (a answers) text(arg any, usual string) string {
	v := reflect.ValueOf(arg)
	switch v.Kind() {
	case reflect.Uintptr:
		switch {
		case v.IsZero():
			return "null"
		case a.knows(arg):
			return strings.ToLower(v.Type().Name())
		}
		return "wrong"
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Slice:
		if fields, ok := arg.([]raw.FieldValue); ok && len(fields) == 1 {
			return fmt.Sprintf("[{FieldId:%d ScopeId:%d}]", fields[0].FieldId, fields[0].ScopeId)
		}
		return "#" + strconv.Itoa(v.Len())
	case reflect.Pointer:
		switch version := Version(v.Type().Elem()); {
		case v.IsNil():
			return "nil"
		case strings.HasPrefix(usual, "="):
			return "=" + strconv.FormatUint(v.Elem().Uint(), 10)
		case version != 0 && !takes(v.Elem()):
			return "v" + strconv.FormatUint(v.Elem().Field(0).Uint(), 16)
		case v.Elem().Kind() == reflect.Struct:
			return "*" + Inputs(v.Elem())
		}
		return "*"
	}
	return Text(v)
}

// setOutputs sets what the arguments lead to. It reports whether a buffer is too short for what a GPU answers.
func setOutputs(row answer, usual []string, args []any) (short bool) {
	out := 0
	for i, arg := range args {
		v := reflect.ValueOf(arg)
		if v.Kind() != reflect.Pointer && v.Kind() != reflect.Slice {
			continue
		}
		if out >= len(row.outs) {
			break
		}
		text := row.outs[out]
		out++
		if text == "-" || v.IsNil() {
			continue
		}
		n, err := Read(text, v)
		if err != nil {
			continue
		}
		if v.Kind() == reflect.Slice && strings.HasPrefix(usual[i], "#") {
			if v.Type().Elem().Kind() == reflect.Uint8 {
				n++ // a NUL
			}
			short = short || n > v.Len()
		}
	}
	return short
}

// export returns the name in C of a method of package raw.
func export(method string) string {
	if base, n := cutVersion(method); n != 0 {
		return fmt.Sprintf("nvml%s_v%d", base, n)
	}
	return "nvml" + method
}

// cutVersion returns what is before the version at the end of a name, such as V2, and the version. It is 0 if the name
// has none.
func cutVersion(name string) (base string, n uint64) {
	if base, found := strings.CutSuffix(name[:max(0, len(name)-1)], "V"); found {
		if digit := name[len(name)-1]; '0' <= digit && digit <= '9' {
			return base, uint64(digit - '0')
		}
	}
	return name, 0
}
