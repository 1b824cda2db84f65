package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// emitDispatch writes the function that makes a call by number.
func (lib *library) emitDispatch() string {
	var b strings.Builder
	b.WriteString(`
// call makes the call with a number. The words are C's arguments.
func (l *library) call(th *driver.Thread, number uint32, a *[maxWords]uint64) driver.Result {
	switch number {
`)
	for i, c := range lib.calls {
		fmt.Fprintf(&b, "case %d: // %s", i, c.fact.export)
		if c.own {
			b.WriteString(", in the order of the thread's own default stream")
		}
		b.WriteByte('\n')
		lib.emitCase(&b, c)
	}
	b.WriteString("}\nreturn driver.ResultNotSupported\n}\n\n")
	b.WriteString("// firstChecks are the checks of functions that C implements with other functions.\n" +
		"var firstChecks = map[string]uint8{\n")
	for _, name := range slices.Sorted(maps.Keys(lib.plan.first)) {
		if lib.plan.byHand[name] {
			fmt.Fprintf(&b, "%q: %s,\n", unversioned(name), lib.plan.first[name])
		}
	}
	b.WriteString("}\n\n// callNames are the functions' names without versions, by the number of the call.\n" +
		"var callNames = [...]string{\n")
	for _, c := range lib.calls {
		fmt.Fprintf(&b, "%q,\n", unversioned(c.fact.export))
	}
	b.WriteString("}\n")
	imports := "import \"github.com/purecu/purecu/driver\"\n"
	if strings.Contains(b.String(), "unsafe.") {
		imports = "import (\n\"unsafe\"\n\n\"github.com/purecu/purecu/driver\"\n)\n"
	}
	return imports + b.String()
}

// emitFallible writes the names of the functions that can have a fault: those that the driver has, and those
// that C makes of them.
func (lib *library) emitFallible() string {
	var names []string
	for _, c := range lib.calls {
		names = append(names, unversioned(c.fact.export))
	}
	for _, s := range lib.stubs {
		if s.byHand && !lib.plan.static[s.fact.export] {
			names = append(names, unversioned(s.fact.export))
		}
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString("// fallible returns the names, without versions, of the functions that can have a fault.\n" +
		"func fallible() []string {\nreturn []string{\n")
	for _, name := range slices.Compact(names) {
		fmt.Fprintf(&b, "%q,\n", name)
	}
	b.WriteString("}\n}\n")
	return b.String()
}

// unversioned returns the name of an export without its version and without the suffix of
// per-thread default streams.
func unversioned(export string) string {
	for _, own := range []string{"_ptsz", "_ptds"} {
		export = strings.TrimSuffix(export, own)
	}
	if name, version, found := strings.Cut(export, "_v"); found && strings.Trim(version, "0123456789") == "" {
		return name
	}
	return export
}

// makesSomething reports whether the call creates an object. Such a call must not be made if the
// caller has no place for the object's handle. A call that gets an existing object creates nothing,
// except for functions, whose handles are created when they are asked for.
func (c *call) makesSomething() bool {
	return (!strings.Contains(c.method, "Get") || c.method == "ModuleGetFunction") && slices.ContainsFunc(c.outs(),
		func(p *callParam) bool {
			base, _ := splitPointer(p.c.typ)
			return handles[base] != "" || p.typ == "DevicePtr" || p.typ == "HostPtr" ||
				strings.HasSuffix(p.typ, "Handle") || strings.HasSuffix(p.typ, "Object")
		})
}

// emitCase writes a call with its arguments as words.
func (lib *library) emitCase(b *strings.Builder, c numberedCall) {
	declare := func(p *callParam, name, word string) {
		fmt.Fprintf(b, "%s := pointer[%s](&%s)\n", name, driverType(p.typ), word)
	}
	for _, i := range lib.told(c) { // they are there before an argument is refused
		declare(c.params[i], fmt.Sprintf("p%d", i), fmt.Sprintf("a[%d]", i))
	}
	args := []string{"th"}
	var results, stores []string
	for i, p := range c.params {
		refuse := func(condition string) { fmt.Fprintf(b, "if %s"+lib.refusal(c, p), condition) }
		word := fmt.Sprintf("a[%d]", i)
		name := fmt.Sprintf("p%d", i)
		switch p.role {
		case roleIn:
			args = append(args, lib.emitIn(b, c, p, name, word))
		case roleOut, roleInOut, roleInOutLen:
			if p.typ == "string" {
				results = append(results, fmt.Sprintf("v%d", i))
				stores = append(stores, fmt.Sprintf("r = l.storeText(r, pointer[uintptr](&%s), v%d)\n", word, i))
				break
			}
			if size := lib.plan.sized[c.fact.export]; size != "" && p.as != "" {
				results = append(results, fmt.Sprintf("v%d", i))
				stores = append(stores,
					fmt.Sprintf("r = storePart(r, pointer[byte](&%s), v%d, %s)\n", word, i, c.sizeOf(size)))
				break
			}
			if !slices.Contains(lib.told(c), i) {
				declare(p, name, word)
			}
			store := cmp.Or(lib.plan.stores[c.fact.export][p.c.name], "store")
			null := lib.plan.nulls[c.fact.export][p.c.name]
			if null != allowed && (p.role != roleOut || c.makesSomething()) || null == needed || null == early {
				refuse(name + " == nil")
			}
			switch {
			case p.role == roleInOut && null == allowed:
				args = append(args, "valueAt("+name+")")
			case p.role == roleInOut:
				args = append(args, "*"+name)
			}
			results = append(results, fmt.Sprintf("v%d", i))
			value := fmt.Sprintf("v%d", i)
			if store == "offerCaptured" { // the first result is the status
				value = results[0] + ", " + value
			}
			stores = append(stores, fmt.Sprintf("r = %s(r, %s, %s)\n", store, name, value))
		case roleBuf, roleSame:
			elem := driverType(strings.TrimPrefix(p.typ, "[]"))
			slicer := c.slicer(p)
			if p.opt || lib.plan.nulls[c.fact.export][p.c.name] == allowed {
				slicer = "sliceIfAny"
			}
			fmt.Fprintf(b, "%s, there := %s[%s](&%s, %s)\n", name, slicer, elem, word, c.lengthOf(p))
			refuse("!there")
			if p.role == roleSame && !p.opt && c.slicer(p) == "sliceIfAny" { // the two have the same length
				refuse(fmt.Sprintf("(%s == nil) != (p%d == nil)", name, slices.Index(c.params, p.of)))
			}
			args = append(args, name)
		case roleBytes:
			fmt.Fprintf(b, "%s, there := image(&%s)\n", name, word)
			refuse("!there")
			args = append(args, name)
		case roleKParams:
			extra := "nil"
			if i+1 < len(c.params) && c.params[i+1].role == roleKExtra {
				extra = fmt.Sprintf("&a[%d]", i+1)
			}
			args = append(args, fmt.Sprintf("kernelParams(&%s, %s)", word, extra))
		case roleFunc:
			data := slices.IndexFunc(c.params, func(q *callParam) bool { return q.of == p })
			switch {
			case p.isNode():
				fmt.Fprintf(b, "%s := pointer[[2]uint64](&%s)\n", name, word)
				refuse(name + " == nil")
				args = append(args, fmt.Sprintf("l.hostFunc(%s[0], %[1]s[1])", name))
			case p.c.typ == "CUstreamCallback":
				args = append(args, fmt.Sprintf("l.streamCallback(a[0], %s, a[%d])", word, data))
			default:
				args = append(args, fmt.Sprintf("l.hostFunc(%s, a[%d])", word, data))
			}
		}
	}
	on := "l.d"
	if c.own {
		on = "ownStream{l.d}"
	}
	made := fmt.Sprintf("%s.%s(%s)", on, c.method, strings.Join(args, ", "))
	if c.method == "Init" {
		made = "l.init(a[0])"
	}
	if len(results) == 0 {
		fmt.Fprintf(b, "return %s\n", made)
		return
	}
	fmt.Fprintf(b, "%s, r := %s\n%sreturn r\n", strings.Join(results, ", "), made, strings.Join(stores, ""))
}

// told returns the indices of the parameters in which a function stores something also if it fails.
func (lib *library) told(c numberedCall) (list []int) {
	for i, p := range c.params {
		if p.role == roleOut && lib.plan.stores[c.fact.export][p.c.name] == storeFunctions["told"] {
			list = append(list, i)
		}
	}
	return list
}

// refusal returns the block that refuses an argument, after the function's other checks that come first.
func (lib *library) refusal(c numberedCall, refused *callParam) string {
	var b strings.Builder
	b.WriteString(" {\n")
	for _, i := range lib.told(c) {
		if c.params[i] != refused {
			fmt.Fprintf(&b, "unset(p%d)\n", i)
		}
	}
	first := lib.plan.first[c.fact.export]
	if lib.plan.nulls[c.fact.export][refused.c.name] != early && first != "" {
		fmt.Fprintf(&b, "return l.refuseAfter(th, %q, %s)\n}\n", unversioned(c.fact.export), first)
	} else {
		b.WriteString("return l.refuse(driver.ResultInvalidValue)\n}\n")
	}
	return b.String()
}

// emitIn writes what a parameter with role in needs, and returns the argument of the Go method.
func (lib *library) emitIn(b *strings.Builder, c numberedCall, p *callParam, name, word string) string {
	refuse := lib.refusal(c, p)
	switch p.form {
	case formFloat:
		return "math.Float32frombits(uint32(" + word + "))"
	case formText:
		if lib.plan.nulls[c.fact.export][p.c.name] == allowed {
			return "textIfAny(&" + word + ")"
		}
		fmt.Fprintf(b, "%s, there := text(&%s)\nif !there"+refuse, name, word)
		return name
	case formPtr:
		if p.as == "unsafe.Pointer" {
			return fmt.Sprintf("unsafe.Pointer(pointer[byte](&%s))", word)
		}
		return fmt.Sprintf("pointer[%s](&%s)", driverType(strings.TrimPrefix(p.typ, "*")), word)
	case formCopy, formStruct: // the stub of C passes the address of a struct
		if size := lib.plan.sized[c.fact.export]; size != "" && p.as != "" {
			fmt.Fprintf(b, "%s := pointer[byte](&%s)\nif %[1]s == nil"+refuse, name, word)
			return fmt.Sprintf("loadPart[%s](%s, %s)", driverType(p.typ), name, c.sizeOf(size))
		}
		fmt.Fprintf(b, "%s := pointer[%s](&%s)\nif %[1]s == nil"+refuse, name, driverType(p.typ), word)
		return "*" + name
	}
	return goWord(p.typ, word)
}

// sizeOf returns the call of the function of package main that says how many bytes a value has. The
// text is the function with a parameter of C in parentheses.
func (c *call) sizeOf(text string) string {
	fn, of, _ := strings.Cut(strings.TrimSuffix(text, ")"), "(")
	i := slices.IndexFunc(c.params, func(p *callParam) bool { return p.c.name == of })
	return fmt.Sprintf("%s(int32(a[%d]))", fn, i)
}

// isVague reports whether C does not say how long a value is, so that the C library has to be told.
func (c *call) isVague() bool {
	return slices.ContainsFunc(c.params, func(p *callParam) bool {
		return p.as != "" && p.as != "unsafe.Pointer" && !p.isSlice() && strings.Contains(p.c.typ, "void")
	})
}

// slicer returns the function that makes a slice of a buffer. A buffer whose length the driver
// determines may be NULL, whatever the length argument is.
func (c *call) slicer(buf *callParam) string {
	if buf.role == roleSame {
		buf = buf.of
	}
	if slices.ContainsFunc(c.params, func(p *callParam) bool { return p.of == buf && p.role == roleInOutLen }) {
		return "sliceIfAny"
	}
	return "slice"
}

// lengthOf returns the expression for the length of a buffer.
func (c *call) lengthOf(buf *callParam) string {
	if buf.less > 0 {
		whole := *buf
		whole.less = 0
		return fmt.Sprintf("max(%s, %d) - %[2]d", c.lengthOf(&whole), buf.less)
	}
	if buf.role == roleSame {
		buf = buf.of
	}
	for i, p := range c.params {
		switch {
		case p.of != buf:
		case p.role == roleInOutLen:
			return fmt.Sprintf("room[%s](&a[%d])", p.typ, i)
		case p.role == roleLen && strings.HasSuffix(p.c.typ, "*"):
			return fmt.Sprintf("room[%s](&a[%d])", p.typ, i)
		case p.role == roleLen && p.typ == "int32":
			return fmt.Sprintf("uint64(max(int32(a[%d]), 0))", i)
		case p.role == roleLen:
			return fmt.Sprintf("uint64(%s(a[%d]))", p.typ, i)
		}
	}
	return "0" // parseCalls has checked that there is one
}

// driverType adds the package name to a type of package driver.
func driverType(typ string) string {
	for _, prefix := range []string{"[]", "*"} {
		if rest, ok := strings.CutPrefix(typ, prefix); ok {
			return prefix + driverType(rest)
		}
	}
	if strings.HasPrefix(typ, "[") {
		n, elem, _ := strings.Cut(typ, "]")
		return n + "]" + driverType(elem)
	}
	switch typ {
	case "unsafe.Pointer":
		return typ
	case "byte", "int32", "uint32", "uint64", "uint8", "uint16", "int64", "float32", "uintptr":
		return typ
	}
	return "driver." + typ
}

// goWord returns the value of a type from a word.
func goWord(typ, word string) string {
	if typ == "uint64" {
		return word
	}
	return driverType(typ) + "(" + word + ")"
}
