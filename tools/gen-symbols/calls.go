package main

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// A callPlan is the content of the calls file.
type callPlan struct {
	calls []*call
	enums []string // patterns of constants besides those of parameters

	structs []string // besides those of parameters
}

// A call is one method to emit.
type call struct {
	method string
	fact   funcFact
	often  bool       // programs make it often, so it has a frame of its own
	back   bool       // the function may call back into Go on the calling thread
	undo   string     // the method that destroys what the call creates
	what   *callParam // the parameter that it destroys
	params []*callParam
	line   int
}

// A callParam is one C parameter of a call and its form in Go.
type callParam struct {
	c    paramFact
	role string
	opt  bool       // it may be nil
	arg  string     // the name of another parameter, after the colon of the role
	less int        // how many elements fewer than those of that parameter
	as   string     // the type in Go that stands for C's, after the role's =
	name string     // in Go
	typ  string     // in Go, of the value; for buf, of the slice
	form form       // of an in parameter
	of   *callParam // the buf of a length, the func of data, the number that room has elements for
	each *callParam // what that number is divided by
	slot int        // number of its out-slot
	wide int64      // the alignment of a value, if more than 8
}

// These are the roles of parameters. The argument of len, inoutlen and same is the name of a buf
// parameter. By default len and inoutlen refer to the previous buf.
const (
	roleIn       = "in"       // value, or pointer to a value that is only read
	roleOut      = "out"      // pointer to a value: a result
	roleInOut    = "inout"    // pointer to a value: a parameter and a result
	roleBuf      = "buf"      // pointer to memory whose length is another parameter: a slice
	roleSame     = "same"     // buf with the length of another buf
	roleLen      = "len"      // length of a buf, or pointer to it
	roleInOutLen = "inoutlen" // pointer to the length of a buf, which the driver changes
	roleBytes    = "bytes"    // pointer to memory whose length the driver determines
	roleRoom     = "room"     // pointer to memory for as many elements as a number divided by another one: a slice
	roleKParams  = "kparams"  // a kernel's arguments
	roleKExtra   = "kextra"   // a kernel's arguments in another form
	roleFunc     = "func"     // C function that the driver calls, or pointer to a struct of it and its argument
	roleData     = "data"     // the argument of that function
)

// A form is how a value with role in reaches C.
type form uint8

const (
	formWord   form = iota // as a word
	formFloat              // in a register for floating-point numbers
	formText               // as the address of a NUL-terminated copy
	formCopy               // as the address of a copy
	formPtr                // as the Go pointer that it is
	formStruct             // as a struct by value
)

// parseRole splits a role: "same?:dims-1=uint64" is optional, has one element less than dims, and its
// elements are of type uint64 in Go.
func (p *callParam) parseRole(text string) {
	text, p.as, _ = strings.Cut(text, "=")
	text, p.arg, _ = strings.Cut(text, ":")
	if arg, less, found := strings.Cut(p.arg, "-"); found {
		p.arg = arg
		p.less, _ = strconv.Atoi(less)
	}
	p.role, p.opt = strings.CutSuffix(text, "?")
}

// parseCalls reads the calls file. It has lines "method export flags roles…", lines "constants
// pattern" for enums and macros, and lines "struct name".
func parseCalls(src source, m *manifest) (*callPlan, error) {
	var errs cheader.ErrorList
	plan := &callPlan{}
	facts := map[string]funcFact{}
	for _, f := range m.funcs {
		facts[f.export] = f
	}
	methods := map[string]bool{}
	eachRow(src.name, src.text, &errs, func(r row) {
		if r.fields[0] == "constants" {
			r.want(2)
			if _, err := path.Match(r.field(1), ""); err != nil {
				r.bad("malformed pattern %q", r.field(1))
			}
			plan.enums = append(plan.enums, r.field(1))
			return
		}
		if r.fields[0] == "struct" {
			r.want(2)
			if _, known := m.structByName(r.field(1)); !known {
				r.bad("the manifest has no struct %q", r.field(1))
			}
			plan.structs = append(plan.structs, r.field(1))
			return
		}
		c := &call{method: r.fields[0], line: r.line}
		fact, ok := facts[r.field(1)]
		if !ok {
			r.bad("%s: the manifest has no function %q", c.method, r.field(1))
			return
		}
		c.fact = fact
		for flag := range strings.SplitSeq(r.field(2), ",") {
			switch undo, found := strings.CutPrefix(flag, "undo:"); {
			case found:
				c.undo = undo
			case flag == "often":
				c.often = true
			case flag == "back":
				c.back = true
			case flag != "-":
				r.bad("%s: unknown flag %q", c.method, flag)
			}
		}
		if methods[c.method] {
			r.bad("%s is here twice", c.method)
		}
		methods[c.method] = true
		if fact.ret != "CUresult" {
			r.bad("%s: returns %s, not CUresult", c.method, fact.ret)
		}
		roles := r.fields[min(3, len(r.fields)):]
		if len(roles) != len(fact.params) {
			r.bad("%s: %d roles for the %d parameters of %s", c.method, len(roles), len(fact.params), fact.export)
			return
		}
		for i, p := range fact.params {
			q := &callParam{c: p, name: goName(p.name)}
			q.parseRole(roles[i])
			c.params = append(c.params, q)
		}
		c.resolve(m, roles, func(format string, args ...any) {
			r.bad(c.method+": "+format, args...)
		})
		plan.calls = append(plan.calls, c)
	})
	return plan, errs.Err()
}

// resolve gives each parameter its Go type, and each length its buffer.
func (c *call) resolve(m *manifest, roles []string, bad func(string, ...any)) {
	slots, onHeap := 0, c.back
	var lastBuf *callParam
	seen := map[string]bool{}
	for i, p := range c.params {
		if seen[p.name] {
			bad("two parameters %s", p.name)
		}
		seen[p.name] = true
		var ok bool
		p.typ, ok = p.goType(m)
		if !ok {
			bad("parameter %s: %s cannot be %q", p.c.name, p.c.typ, roles[i])
		}
		if p.role == roleBuf {
			lastBuf = p
		}
		c.relate(i, lastBuf, bad)
		if p.hasSlot() {
			p.slot = slots
			slots++
			// The compiler would take a pointer in a result for one into the frame, and allocate
			// the frame. A value in the frame is aligned only where that does not move.
			onHeap = onHeap || p.wide > 0 || p.role != roleInOutLen && m.hasPointers(p.c.typ)
		}
	}
	if c.ownFrame() && (onHeap || c.isWide()) {
		bad("a call that is made often cannot call back, and returns no pointers and no values of a large alignment; "+
			"it has at most %d words and no floating-point numbers", largeFrame)
	}
	if c.undo != "" {
		made := func(p *callParam) bool { return p.role == roleOut || p.role == roleIn && p.typ == "HostPtr" }
		i := slices.IndexFunc(c.params, made)
		if i < 0 {
			bad("no parameter is destroyed by %s", c.undo)
		} else {
			c.what = c.params[i]
		}
	}
	c.checkFrame(bad)
	c.checkLengths(bad)
}

// relate finds the parameter that parameter i belongs to: the buffer of a length, the function of its
// data. lastBuf is the last buffer before it, or nil.
func (c *call) relate(i int, lastBuf *callParam, bad func(string, ...any)) {
	switch p := c.params[i]; p.role {
	case roleRoom:
		all, each, _ := strings.Cut(p.arg, "/")
		p.of, p.each = c.param(all), c.param(each)
		if p.of == nil || p.each == nil || !p.of.isWord() || !p.each.isWord() {
			bad("parameter %s: %q are not two numbers", p.c.name, p.arg)
		}
	case roleLen, roleInOutLen, roleSame:
		if p.of = lastBuf; p.arg != "" {
			p.of = c.param(p.arg)
		}
		if p.of == nil || p.of.role != roleBuf {
			bad("parameter %s: no buf parameter %q", p.c.name, p.arg)
		}
	case roleFunc:
		isData := func(q *callParam) bool { return q.role == roleData }
		if !p.isNode() && !slices.ContainsFunc(c.params, isData) {
			bad("parameter %s: func without data", p.c.name)
		}
	case roleData:
		at := slices.IndexFunc(c.params, func(q *callParam) bool { return q.role == roleFunc })
		if at < 0 {
			bad("parameter %s: data without func", p.c.name)
			break
		}
		p.of = c.params[at]
	case roleKExtra:
		if i == 0 || c.params[i-1].role != roleKParams {
			bad("parameter %s: kextra without kparams before it", p.c.name)
			break
		}
		p.of = c.params[i-1]
	}
}

// checkFrame checks that the arguments fit the largest frame of internal/ccall.
func (c *call) checkFrame(bad func(string, ...any)) {
	regs, stack := c.systemV()
	noRoom := stack > 0 && (regs > smallFrame || stack > largeFrame-smallFrame || c.isWide())
	if noRoom || regs > wideFrame || c.floats() > maxFloats {
		bad("%d words and %d on the stack do not fit a frame", regs, stack)
	}
}

// checkLengths checks that each buffer has a length.
func (c *call) checkLengths(bad func(string, ...any)) {
	for _, p := range c.params {
		if p.role != roleBuf {
			continue
		}
		if !slices.ContainsFunc(c.params, func(q *callParam) bool {
			return q.of == p && (q.role == roleLen || q.role == roleInOutLen)
		}) {
			bad("parameter %s: no parameter is its length", p.c.name)
		}
	}
}

// systemV counts the words of the arguments in System V's order: those in registers, and those of
// structs by value, which are on the stack.
func (c *call) systemV() (regs, stack int) {
	for _, p := range c.params {
		if p.isLarge() {
			stack += int(p.c.size+7) / 8
		} else {
			regs++
		}
	}
	return regs, stack
}

func (c *call) param(name string) *callParam {
	for _, p := range c.params {
		if p.c.name == name {
			return p
		}
	}
	return nil
}

// isWide reports whether the call needs a frame of sixteen words and floating-point registers.
func (c *call) isWide() bool {
	regs, _ := c.systemV()
	return regs > largeFrame || c.floats() > 0
}

// ownFrame reports whether the call has a frame of its own, on the goroutine's stack: programs make it
// often, or a struct by value is a part of it. All other calls share a frame.
func (c *call) ownFrame() bool {
	return c.often || slices.ContainsFunc(c.params, func(p *callParam) bool { return p.form == formStruct })
}

// floats counts the arguments in floating-point registers.
func (c *call) floats() int {
	n := 0
	for _, p := range c.params {
		if p.role == roleIn && p.form == formFloat {
			n++
		}
	}
	return n
}

// isNode reports whether a func parameter is a struct of the function and its argument.
func (p *callParam) isNode() bool { return p.role == roleFunc && strings.HasSuffix(p.c.typ, "*") }

// hasSlot reports whether the driver stores a value that Go reads.
func (p *callParam) hasSlot() bool {
	switch p.role {
	case roleOut, roleInOut, roleInOutLen:
		return true
	}
	return false
}

// isArg reports whether the method has a Go parameter for p.
func (p *callParam) isArg() bool {
	switch p.role {
	case roleOut, roleLen, roleInOutLen, roleData, roleKExtra:
		return false
	}
	return true
}

// isSlice reports whether p is a slice in Go whose length C is told.
func (p *callParam) isSlice() bool { return p.role == roleBuf || p.role == roleSame }

// goType returns the Go type of p, or false if the role does not fit the C type.
func (p *callParam) goType(m *manifest) (string, bool) {
	base, stars := splitPointer(p.c.typ)
	isConst := strings.HasPrefix(p.c.typ, "const ")
	elem, known := scalarType(m, base)
	if p.as != "" {
		elem, known = p.as, true
	}
	refers := p.role == roleLen || p.role == roleInOutLen || p.role == roleSame || p.role == roleRoom
	takesType := p.role == roleIn || p.role == roleOut || p.isSlice()
	if p.arg != "" && !refers || p.as != "" && !takesType || p.opt && p.role != roleIn && p.role != roleSame {
		return "", false
	}
	if s, ok := m.structByName(base); ok && s.align > 8 {
		p.wide = s.align
	}
	switch p.role {
	case roleIn:
		return p.inType(elem, known, stars)
	case roleOut:
		switch {
		case p.c.typ == "const char **":
			return "string", true
		case stars == 2 && p.as == "":
			return "HostPtr", true
		}
		return elem, known && stars == 1 && !isConst
	case roleInOut:
		return elem, known && stars == 1 && !isConst
	case roleRoom:
		return "[]" + elem, known && stars == 1 && !isConst
	case roleBuf, roleSame:
		switch {
		case p.as != "":
		case base == "void" && stars == 2:
			return "[]uintptr", true
		case stars == 1 && base == "void":
			return "[]byte", true
		}
		return "[]" + elem, known && stars > 0
	case roleLen:
		return elem, known && stars <= 1 && (elem == "int32" || elem == "uint32" || elem == "uint64")
	case roleInOutLen:
		return elem, known && stars == 1 && (elem == "uint64" || elem == "uint32")
	case roleBytes:
		return "[]byte", stars == 1 && base == "void"
	case roleKParams:
		return "KernelParams", p.c.typ == "void **"
	case roleFunc:
		return "Callback", slices.Contains(functionTypes, p.c.typ) || p.c.typ == "const CUDA_HOST_NODE_PARAMS *"
	case roleData:
		return "", p.c.typ == "void *"
	case roleKExtra:
		return "", p.c.typ == "void **"
	}
	return "", false
}

// inType is goType for the role in, and finds the form.
func (p *callParam) inType(elem string, known bool, stars int) (string, bool) {
	switch {
	case p.c.size > 0:
		p.form = formStruct
		return elem, known && !p.opt && p.as == "" && p.c.size%8 == 0 && (p.c.size == 8 || p.c.size > 16)
	case p.c.typ == "const char *" && p.as == "":
		p.form = formText
		return "string", !p.opt
	case stars == 0 && slices.Contains(functionTypes, p.c.typ):
		return "uintptr", !p.opt
	case stars == 0 && elem == "float32":
		p.form = formFloat
		return elem, !p.opt
	case stars == 0:
		return elem, known && !p.opt
	case p.as == "unsafe.Pointer":
		p.form = formPtr
		return p.as, true
	case stars == 1 && strings.HasSuffix(p.c.typ, "void *") && p.as == "":
		return "HostPtr", !p.opt
	case p.opt:
		p.form = formPtr
		return "*" + elem, known && stars == 1
	}
	p.form = formCopy
	return elem, known && stars == 1
}

// splitPointer removes the pointers and the const from a C type.
func splitPointer(typ string) (base string, stars int) {
	base = strings.TrimPrefix(typ, "const ")
	stars = strings.Count(base, "*")
	return strings.TrimSpace(strings.ReplaceAll(base, "*", "")), stars
}
