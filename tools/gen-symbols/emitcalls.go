package main

import (
	"fmt"
	"slices"
	"strings"
)

// The frame of a call has six or fourteen argument words. A rare call has up to sixteen words, and
// then two floating-point numbers once more.
const (
	smallFrame = 6
	largeFrame = 14
	wideFrame  = 16
	maxFloats  = 2
)

// emitCalls writes a method of Table for each call.
func emitCalls(plan *callPlan) string {
	var b strings.Builder
	needs := map[string]bool{}
	for _, c := range plan.calls {
		for _, p := range c.params {
			needs["strings"] = needs["strings"] || p.role == roleIn && p.form == formText
			needs["math"] = needs["math"] || p.role == roleIn && p.form == formFloat
		}
	}
	b.WriteString("import (\n")
	if needs["math"] {
		b.WriteString("\"math\"\n")
	}
	if needs["strings"] {
		b.WriteString("\"strings\"\n")
	}
	b.WriteString("\"unsafe\"\n\n\"github.com/purecu/purecu/internal/ccall\"\n)\n\n")
	for _, c := range plan.calls {
		c.emit(&b)
	}
	return b.String()
}

// emitSoftware writes the interface of software drivers.
func emitSoftware(plan *callPlan) string {
	var b strings.Builder
	importUnsafe(&b, plan)
	b.WriteString(`// Software is a driver that is written in Go. Its methods are the calls of [Table].
//
// The methods return as values what the C functions write through pointers, so that no call has to
// allocate. Any goroutine may call them at any time. th is the calling thread, or nil for a thread
// without a current context.
//
// Newer versions of this package may add methods. A driver that embeds [Unimplemented] still
// compiles then.
type Software interface {
	// Clock returns the clock for waits and measurements, or nil for the machine's clock.
	Clock() Clock

	// BeginWait is called before a wait for one of the events that polls them, and without events
	// before a wait for all work in the context. It returns ResultSuccess, or the result with which
	// the wait must end at once because it would never end. If end is not nil, it is called when
	// the wait has ended.
	BeginWait(ctx Context, events []Event) (end func(), res Result)

	// ModuleLoadLog is ModuleLoadDataEx with the compiler's messages as a result. The options
	// contain no addresses of buffers for them.
	ModuleLoadLog(th *Thread, image []byte, options []JITOption) (module Module, log JITLog, res Result)
`)
	for _, c := range plan.calls {
		fmt.Fprintf(&b, "\n// %s is %s.\n%s%s\n", c.method, c.fact.export, c.method, c.signature("th *Thread"))
	}
	b.WriteString("}\n")
	return b.String()
}

// emitUnimplemented writes the methods of a driver that has no functions.
func emitUnimplemented(plan *callPlan) string {
	var b strings.Builder
	importUnsafe(&b, plan)
	for i, c := range plan.calls {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(
			&b,
			"// %s implements [Software]. It returns [NotImplemented] for %s.\nfunc (Unimplemented) %s%s {\nreturn ",
			c.method,
			c.fact.export,
			c.method,
			c.signature("th *Thread"),
		)
		for _, p := range c.outs() {
			b.WriteString(p.outName() + ", ")
		}
		fmt.Fprintf(&b, "missing(%s)\n}\n", symName(c.fact.export))
	}
	return b.String()
}

// importUnsafe writes the import of unsafe, if a signature needs it.
func importUnsafe(b *strings.Builder, plan *callPlan) {
	for _, c := range plan.calls {
		if slices.ContainsFunc(c.params, func(p *callParam) bool { return strings.Contains(p.typ, "unsafe.") }) {
			b.WriteString("import \"unsafe\"\n\n")
			return
		}
	}
}

// signature returns the parameters, beginning with first, and the results.
func (c *call) signature(first string) string {
	args := []string{first}
	var outs []string
	for _, p := range c.params {
		if p.isArg() {
			args = append(args, p.name+" "+p.typ)
		}
		if p.hasSlot() {
			outs = append(outs, p.outName()+" "+p.typ)
		}
	}
	return "(" + strings.Join(args, ", ") + ") (" + strings.Join(append(outs, "res Result"), ", ") + ")"
}

// outName is the name of the result for p.
func (p *callParam) outName() string {
	if p.role == roleInOut {
		return p.name + "Out" // the parameter already has the name
	}
	return p.name
}

func (c *call) outs() []*callParam {
	var outs []*callParam
	for _, p := range c.params {
		if p.hasSlot() {
			outs = append(outs, p)
		}
	}
	return outs
}

func (c *call) emit(b *strings.Builder) {
	fmt.Fprintf(b, "// %s calls %s, which exists since CUDA %s.\n", c.method, c.fact.export, release(c.fact.version))
	if c.fact.unverified {
		b.WriteString("//\n// Unverified: the prototype is from public sources, and no driver was called so far.\n")
	}
	fmt.Fprintf(b, "func (t *Table) %s%s {\n", c.method, c.signature("at At"))
	c.emitChecks(b)
	if c.ownFrame() {
		c.emitOwn(b)
	} else {
		c.emitRare(b)
	}
	b.WriteString("}\n\n")
}

// emitOwn writes the body of a call that has a frame of its own.
func (c *call) emitOwn(b *strings.Builder) {
	sym := symName(c.fact.export)
	if c.fact.class == "blocking" {
		fmt.Fprintf(b, "if at.NoWait {\nt.mayWait(%s)\n}\n", sym)
	}
	c.emitSoft(b)
	fmt.Fprintf(b, "fn := t.procs[%s].Load()\nif fn == 0 {\nif fn, res = t.resolve(%s); fn == 0 {\nreturn\n}\n}\n", sym,
		sym)
	if class := goClass(c.fact.class); len(c.params) == 1 && c.params[0].isWord() && class != "ccall.Hot" {
		// programs are smaller if these share code
		fmt.Fprintf(b, "return t.call1(at, %s, fn, %s)\n", class, word(c.params[0].typ, c.params[0].name))
		return
	}
	if c.hasLargeAggregate() {
		b.WriteString("if ccall.StructsOnStack {\n")
		c.emitFrame(b, true)
		b.WriteString("}\n")
	}
	c.emitFrame(b, false)
}

// emitRare writes the body of a call that is made rarely. Such calls share the frame in
// Table.callRare. What they point to is on the heap.
func (c *call) emitRare(b *strings.Builder) {
	sym := symName(c.fact.export)
	var before, words, floats, values, results []string
	plain := true // the named results have what the driver stores
	for i, p := range c.params {
		f := p.field()
		local := func(init string) string {
			name := fmt.Sprintf("a%d", i)
			before = append(before, name+" := "+init)
			return addressWord(name)
		}
		word := f.init
		switch {
		case p.isNode():
			word = local(fmt.Sprintf("[2]uintptr{%s.Addr, %[1]s.Data}", p.name))
		case p.role == roleLen && strings.HasSuffix(p.c.typ, "*"):
			word = local(p.typ + "(len(" + p.of.name + "))")
		case p.role == roleIn && p.form == formCopy:
			word = addressWord(p.name)
		case p.role == roleIn && p.form == formFloat:
			floats = append(floats, word)
		case p.hasSlot():
			value := p.outName()
			word = addressWord(value)
			switch {
			case p.typ == "string":
				value = fmt.Sprintf("v%d", p.slot)
				before = append(before, "var "+value+" unsafe.Pointer")
				word, value, plain = addressWord(value), "goString("+value+")", false
			case p.wide > 0: // the compiler does not align it, so there is room for two
				value = fmt.Sprintf("v%d", p.slot)
				before = append(before, fmt.Sprintf("%s := aligned(new([2]%s), %d)", value, p.typ, p.wide))
				word, value, plain = "uintptr(unsafe.Pointer("+value+"))", "*"+value, false
				if p.role == roleInOut {
					before = append(before, value+" = "+p.name)
				}
			case p.role == roleInOut:
				before = append(before, value+" = "+p.name)
			case p.role == roleInOutLen:
				before = append(before, value+" = "+p.typ+"(len("+p.of.name+"))")
			}
			results = append(results, p.outName())
			values = append(values, value)
		case f.typ == "unsafe.Pointer":
			word = "uintptr(" + word + ")"
		}
		words = append(words, word)
	}
	if c.isWide() {
		for len(words) < wideFrame {
			words = append(words, "0")
		}
		words = append(words, floats...)
	}
	made := fillLines("t.callRare(at, "+sym+", res", words) + ")"
	soft := "soft." + c.softArgs()

	fmt.Fprintf(b, "th, soft, res := t.enterRare(at, %s)\nif soft != nil {\n", sym)
	list := strings.Join(append(results, "res"), ", ")
	if c.undo != "" {
		fmt.Fprintf(b, "%s = %s\nres = t.leave(at, th, res)\n} else {\n", list, soft)
	} else {
		if len(results) == 0 {
			fmt.Fprintf(b, "return t.leave(at, th, %s)\n}\n", soft)
		} else {
			fmt.Fprintf(b, "%s = %s\nreturn %s, t.leave(at, th, res)\n}\n", list, soft, strings.Join(results, ", "))
		}
	}
	for _, s := range before {
		b.WriteString(s + "\n")
	}
	switch {
	case c.undo != "":
		fmt.Fprintf(b, "res = %s\n}\n", made)
		c.emitUndo(b, c.what.outName())
		b.WriteString("return\n")
	case len(results) == 0:
		fmt.Fprintf(b, "return %s\n", made)
	case plain:
		fmt.Fprintf(b, "res = %s\nreturn\n", made)
	default:
		fmt.Fprintf(b, "res = %s\nreturn %s, res\n", made, strings.Join(values, ", "))
	}
}

// addressWord returns the argument word that is the address of a variable.
func addressWord(name string) string { return "uintptr(unsafe.Pointer(&" + name + "))" }

// fillLines appends the arguments to a call, on as many lines as needed.
func fillLines(text string, args []string) string {
	width := len(text)
	for _, a := range args {
		if width += len(a) + 2; width > 105 {
			text, width = text+",\n"+a, len(a)
		} else {
			text += ", " + a
		}
	}
	return text
}

// emitChecks writes checks for values that C cannot express.
func (c *call) emitChecks(b *strings.Builder) {
	var conds []string
	for _, p := range c.params {
		switch {
		case p.role == roleIn && p.form == formText:
			conds = append(conds, "strings.IndexByte("+p.name+", 0) >= 0")
		case p.role == roleSame:
			length := "len(" + p.of.name + ")"
			if p.less > 0 {
				length = fmt.Sprintf("max(%s-%d, 0)", length, p.less)
			}
			cond := "len(" + p.name + ") != " + length
			if p.opt {
				cond = p.name + " != nil && " + cond
			}
			conds = append(conds, cond)
		case p.role == roleRoom:
			conds = append(conds, fmt.Sprintf("%s == 0 || uint64(len(%s)) < %s/%[1]s+min(%[3]s%%%[1]s, 1)",
				p.each.name, p.name, p.of.name))
		}
	}
	if len(conds) > 0 {
		fmt.Fprintf(b, "if %s {\nres = ResultInvalidValue\nreturn\n}\n", strings.Join(conds, " || "))
	}
}

// oldestSoft is the oldest version of CUDA that a software driver can have.
const oldestSoft = 11000

// emitSoft writes the call of a software driver. The software driver lacks functions that are newer
// than its version.
func (c *call) emitSoft(b *strings.Builder) {
	soft := "t.software()." + c.softArgs()
	b.WriteString("if t.soft != nil {\n")
	if c.fact.version > oldestSoft {
		fmt.Fprintf(b, "if t.version < %d {\nres = missing(%s)\nreturn\n}\n", c.fact.version, symName(c.fact.export))
	}
	b.WriteString("var th *Thread\nif th, res = t.enter(at); res != ResultSuccess {\nreturn\n}\n")
	switch outs := c.outs(); {
	case c.undo != "":
		names := ""
		for _, p := range outs {
			names += p.outName() + ", "
		}
		fmt.Fprintf(b, "%sres = %s\nres = t.leave(at, th, res)\n", names, soft)
		c.emitUndo(b, c.what.name)
		b.WriteString("return\n")
	case len(outs) == 0:
		fmt.Fprintf(b, "return t.leave(at, th, %s)\n", soft)
	default:
		names := ""
		for _, p := range outs {
			names += p.outName() + ", "
		}
		fmt.Fprintf(b, "%sres = %s\nreturn %st.leave(at, th, res)\n", names, soft, names)
	}
	b.WriteString("}\n")
}

// softArgs returns the call of a software driver, without the driver.
func (c *call) softArgs() string {
	args := []string{"th"}
	for _, p := range c.params {
		if p.isArg() {
			args = append(args, p.name)
		}
	}
	return c.method + "(" + strings.Join(args, ", ") + ")"
}

// emitUndo writes the destruction of value, which the call created, for the case that the thread's
// state could not be restored.
func (c *call) emitUndo(b *strings.Builder, value string) {
	if c.undo == "" {
		return
	}
	fmt.Fprintf(b, "if res < popFailed {\nt.%s(at.undo(), %s)\n", c.undo, value)
	if c.what.hasSlot() {
		fmt.Fprintf(b, "%s = 0\n", value)
	}
	b.WriteString("}\n")
}

func (c *call) hasLargeAggregate() bool {
	return slices.ContainsFunc(c.params, (*callParam).isLarge)
}

// isWord reports whether p is a number or a handle.
func (p *callParam) isWord() bool { return p.role == roleIn && p.form == formWord }

func (p *callParam) isLarge() bool { return p.role == roleIn && p.form == formStruct && p.c.size > 16 }

// A field is a field of a frame.
type field struct {
	name, typ string
	init      string // its value in the literal
	later     string // its value in an assignment after the frame has an address
}

// emitFrame writes the frame, the call and the return. layout decides where structs by value are.
func (c *call) emitFrame(b *strings.Builder, onStack bool) {
	fields, size := c.layout(onStack)
	c.emitLiteral(b, fields)
	c.emitCall(b, size)
}

// layout returns the fields of the frame and its number of words. With onStack, structs by value
// are where System V expects them: in the words after the six for registers. Otherwise a pointer to
// a copy replaces the struct.
func (c *call) layout(onStack bool) (fields []field, size int) {
	var words, stack, slots []field
	for _, p := range c.params {
		f := p.field()
		copied := field{name: fmt.Sprintf("a%d", len(words)), typ: p.typ, init: p.name}
		switch {
		case p.isLarge() && onStack:
			stack = append(stack, field{name: p.name, typ: p.typ, init: p.name})
			continue
		case p.isNode():
			copied.typ, copied.init = "[2]uintptr", fmt.Sprintf("[2]uintptr{%s.Addr, %[1]s.Data}", p.name)
			f = copied.address(p.name)
			slots = append(slots, copied)
		case p.role == roleLen && strings.HasSuffix(p.c.typ, "*"):
			copied.init = p.typ + "(len(" + p.of.name + "))"
			f = copied.address(p.name)
			slots = append(slots, copied)
		case p.isLarge(), p.role == roleIn && p.form == formCopy:
			f = copied.address(p.name)
			slots = append(slots, copied)
		case p.hasSlot():
			slot := p.slotField()
			f = slot.address(p.name)
			slots = append(slots, slot)
		}
		words = append(words, f)
	}
	fields = words
	pad := func(n int) {
		if n > 0 {
			fields = append(fields, field{name: "_", typ: fmt.Sprintf("[%d]uintptr", n)})
		}
	}
	switch {
	case len(stack) > 0: // parseCalls has checked that the other words fit the registers
		size = largeFrame
		pad(smallFrame - len(words))
		fields = append(fields, stack...)
		_, used := c.systemV()
		pad(size - smallFrame - used)
	case len(words) > smallFrame:
		size = largeFrame
		pad(size - len(words))
	default:
		size = smallFrame
		pad(size - len(words))
	}
	return append(fields, slots...), size
}

// address returns the argument word of a parameter that is the address of the field in the frame.
func (f field) address(name string) field {
	return field{name, "unsafe.Pointer", "", "unsafe.Pointer(&f." + f.name + ")"}
}

// slotField returns the field that the driver stores the value of p in.
func (p *callParam) slotField() field {
	slot := field{name: fmt.Sprintf("v%d", p.slot), typ: p.typ}
	switch {
	case p.typ == "string":
		slot.typ = "unsafe.Pointer"
	case p.role == roleInOut:
		slot.init = p.name
	case p.role == roleInOutLen:
		slot.init = p.typ + "(len(" + p.of.name + "))"
	}
	return slot
}

// emitLiteral writes the frame and the assignments after it.
func (c *call) emitLiteral(b *strings.Builder, fields []field) {
	inits := []string{"fn: fn"}
	for _, f := range fields {
		if f.init != "" {
			inits = append(inits, f.name+": "+f.init)
		}
	}
	b.WriteString("f := struct {\nfn, r uintptr\n")
	for _, f := range fields {
		fmt.Fprintf(b, "%s %s\n", f.name, f.typ)
	}
	literal := strings.Join(inits, ", ")
	if len(literal) > 100 {
		literal = "\n" + strings.Join(inits, ",\n") + ",\n"
	}
	b.WriteString("}{" + literal + "}\n")
	for _, f := range fields {
		if f.later != "" {
			fmt.Fprintf(b, "f.%s = %s\n", f.name, f.later)
		}
	}
}

// emitCall writes the call, and the return. size is the number of words of the frame.
func (c *call) emitCall(b *strings.Builder, size int) {
	class := goClass(c.fact.class)
	made := fmt.Sprintf("t.call%d(at, %s, unsafe.Pointer(&f))", size, class)
	outs := c.outs()
	switch hot := class == "ccall.Hot" && size == smallFrame; {
	case hot: // saves one Go call between the caller and C
		fmt.Fprintf(b, "if at.plain() {\nccall.Call6(unsafe.Pointer(&f), %s, at.Thread.cc())\n"+
			"res = Result(int32(f.r))\n} else {\nres = t.scoped6(at, %[1]s, unsafe.Pointer(&f))\n}\n", class)
	case len(outs) == 0 && c.undo == "":
		fmt.Fprintf(b, "return %s\n", made)
		return
	default:
		fmt.Fprintf(b, "res = %s\n", made)
	}
	if c.undo != "" {
		value := c.what.name
		if c.what.hasSlot() {
			value = fmt.Sprintf("f.v%d", c.what.slot)
		}
		c.emitUndo(b, value)
	}
	b.WriteString("return ")
	for _, p := range outs {
		value := fmt.Sprintf("f.v%d", p.slot)
		if p.typ == "string" {
			value = "goString(" + value + ")"
		}
		b.WriteString(value + ", ")
	}
	b.WriteString("res\n")
}

// field returns the argument word of a parameter that needs no slot.
func (p *callParam) field() field {
	f := field{name: p.name, typ: "uintptr"}
	data := func(expr string) string { return "unsafe.Pointer(unsafe.SliceData(" + expr + "))" }
	switch p.role {
	case roleIn:
		switch p.form {
		case formWord:
			f.init = word(p.typ, p.name)
		case formFloat:
			f.init = "uintptr(math.Float32bits(" + p.name + "))"
		case formText:
			f.typ, f.init = "unsafe.Pointer", data("append([]byte("+p.name+"), 0)")
		case formPtr:
			f.typ, f.init = "unsafe.Pointer", "unsafe.Pointer("+p.name+")"
		case formStruct: // of a word
			f.typ, f.init = p.typ, p.name
		}
	case roleLen:
		f.init = "uintptr(len(" + p.of.name + "))"
	case roleBuf, roleSame, roleBytes, roleRoom:
		f.typ, f.init = "unsafe.Pointer", data(p.name)
	case roleKParams:
		f.typ, f.init = "unsafe.Pointer", data(p.name+".Ptrs")
	case roleKExtra:
		f.typ, f.init = "unsafe.Pointer", p.of.name+".Extra"
	case roleFunc:
		f.init = p.name + ".Addr"
	case roleData:
		f.init = p.of.name + ".Data"
	}
	return f
}
