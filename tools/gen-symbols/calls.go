package main

import (
	"path"
	"slices"
	"strings"
)

// A callPlan is the content of the calls file.
type callPlan struct {
	calls []*call
	enums []string // patterns of constants besides those of parameters
}

// A call is one method to emit.
type call struct {
	method string
	fact   funcFact
	heap   bool
	undo   string     // the method that destroys what the call creates
	what   *callParam // the parameter that it destroys
	params []*callParam
	line   int
}

// A callParam is one C parameter of a call and its form in Go.
type callParam struct {
	c    paramFact
	role string
	arg  string     // the text after the colon of the role
	name string     // in Go
	typ  string     // in Go, of the value; for buf, of the slice
	of   *callParam // the buf of a length, the func of data
	slot int        // number of its out-slot
}

// These are the roles of parameters. The argument of len, inoutlen and same is the name of a buf
// parameter. By default len and inoutlen refer to the previous buf.
const (
	roleIn       = "in"       // scalar or handle
	roleOut      = "out"      // pointer to scalar, handle or small array: a return value
	roleInOut    = "inout"    // pointer to scalar: a parameter and a return value
	roleStr      = "str"      // NUL-terminated string
	roleStrOut   = "strout"   // pointer to a string in the driver: a returned string
	roleBuf      = "buf"      // pointer to memory whose length is another parameter: a slice
	roleSame     = "same"     // buf with the length of another buf
	roleLen      = "len"      // length of a buf
	roleInOutLen = "inoutlen" // pointer to the length of a buf, which the driver changes
	roleBytes    = "bytes"    // pointer to memory whose length the driver determines, or a function of another parameter
	roleAgg      = "agg"      // struct by value
	roleRef      = "ref"      // pointer to a value that the driver only reads: by value in Go
	roleKParams  = "kparams"  // a kernel's arguments
	roleKExtra   = "kextra"   // a kernel's arguments in another form
	roleFunc     = "func"     // C function that the driver calls
	roleData     = "data"     // the argument of that function
	roleHostNode = "hostnode" // pointer to a struct of a C function and its argument
	roleNull     = "null"     // always zero
	roleStruct   = "struct"   // pointer to a struct, or nil
	roleHostPtr  = "hostptr"  // address of memory outside of Go
	roleGoPtr    = "goptr"    // pointer passed through
)

// parseCalls reads the calls file. It has lines "method export flags roles…", and lines "constants
// pattern" for enums and macros.
func parseCalls(src source, m *manifest) (*callPlan, error) {
	var errs errorList
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
		c := &call{method: r.fields[0], line: r.line}
		fact, ok := facts[r.field(1)]
		if !ok {
			r.bad("%s: the manifest has no function %q", c.method, r.field(1))
			return
		}
		c.fact = fact
		if undo, ok := strings.CutPrefix(r.field(2), "undo:"); ok {
			c.undo = undo
		} else {
			c.heap = r.choice(2, "-", "heap")
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
			role, arg, _ := strings.Cut(roles[i], ":")
			c.params = append(c.params, &callParam{c: p, role: role, arg: arg, name: goName(p.name)})
		}
		c.resolve(m, func(format string, args ...any) {
			r.bad(c.method+": "+format, args...)
		})
		plan.calls = append(plan.calls, c)
	})
	return plan, errs.err()
}

// resolve gives each parameter its Go type, and each length its buffer.
func (c *call) resolve(m *manifest, bad func(string, ...any)) {
	slots := 0
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
			bad("parameter %s: %s cannot be %q", p.c.name, p.c.typ, p.role)
		}
		switch p.role {
		case roleBuf:
			lastBuf = p
		case roleLen, roleInOutLen, roleSame:
			if p.of = lastBuf; p.arg != "" {
				p.of = c.param(p.arg)
			}
			if p.of == nil || p.of.role != roleBuf {
				bad("parameter %s: no buf parameter %q", p.c.name, p.arg)
			}
		case roleBytes:
			if fn, of := p.sized(); p.arg != "" && (fn == "" || c.param(of) == nil) {
				bad("parameter %s: %q is no function of a parameter", p.c.name, p.arg)
			}
		case roleFunc:
			if i+1 >= len(c.params) || c.params[i+1].role != roleData {
				bad("parameter %s: func without data after it", p.c.name)
			}
		case roleData:
			if i == 0 || c.params[i-1].role != roleFunc {
				bad("parameter %s: data without func before it", p.c.name)
				break
			}
			p.of = c.params[i-1]
		case roleKExtra:
			if i == 0 || c.params[i-1].role != roleKParams {
				bad("parameter %s: kextra without kparams before it", p.c.name)
				break
			}
			p.of = c.params[i-1]
		}
		if p.hasSlot() {
			p.slot = slots
			slots++
		}
	}
	if c.undo != "" {
		made := func(p *callParam) bool { return p.role == roleOut || p.role == roleHostPtr }
		i := slices.IndexFunc(c.params, made)
		if i < 0 {
			bad("no parameter is destroyed by %s", c.undo)
		} else {
			c.what = c.params[i]
		}
	}
	if regs, stack := c.systemV(); stack > 0 && (regs > smallFrame || stack > largeFrame-smallFrame) || regs > largeFrame {
		bad("%d words and %d on the stack do not fit a frame", regs, stack)
	}
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

// sized returns the function of package driver and the parameter that determine how many bytes p
// points to.
func (p *callParam) sized() (fn, of string) {
	fn, of, _ = strings.Cut(p.arg, "(")
	of, closed := strings.CutSuffix(of, ")")
	if !closed {
		return "", ""
	}
	return fn, of
}

// hasSlot reports whether the driver stores a value that Go reads.
func (p *callParam) hasSlot() bool {
	switch p.role {
	case roleOut, roleInOut, roleStrOut, roleInOutLen:
		return true
	}
	return false
}

// isArg reports whether the method has a Go parameter for p.
func (p *callParam) isArg() bool {
	switch p.role {
	case roleOut, roleStrOut, roleLen, roleInOutLen, roleData, roleNull, roleKExtra:
		return false
	}
	return true
}

// goType returns the Go type of p, or false if the role does not fit the C type.
func (p *callParam) goType(m *manifest) (string, bool) {
	base, stars := splitPointer(p.c.typ)
	isConst := strings.HasPrefix(p.c.typ, "const ")
	elem, known := scalarType(m, base)
	isArray := arrayTypes[base] != 0
	takesArg := p.role == roleStruct || p.role == roleLen || p.role == roleInOutLen || p.role == roleSame || p.role == roleBytes
	if p.arg != "" && !takesArg {
		return "", false
	}
	switch p.role {
	case roleIn:
		return elem, known && stars == 0 && !isArray && elem != "float32"
	case roleOut:
		if stars == 2 {
			return "HostPtr", true
		}
		return elem, known && stars == 1 && !isConst
	case roleInOut:
		return elem, known && stars == 1 && !isArray && !isConst
	case roleStr:
		return "string", p.c.typ == "const char *"
	case roleStrOut:
		return "string", p.c.typ == "const char **"
	case roleBuf, roleSame:
		switch {
		case base == "void" && stars == 2:
			return "[]uintptr", true
		case stars != 1:
			return "", false
		case base == "void" || base == "char":
			return "[]byte", true
		}
		return "[]" + elem, known
	case roleLen:
		return elem, known && stars == 0 && (elem == "int32" || elem == "uint32" || elem == "uint64")
	case roleInOutLen:
		return elem, known && stars == 1 && (elem == "uint64" || elem == "uint32")
	case roleBytes:
		return "[]byte", stars == 1 && base == "void"
	case roleAgg:
		return elem, p.c.size > 0 && isArray && arrayTypes[base] == p.c.size && (p.c.size == 4 || p.c.size == 8 || p.c.size > 16)
	case roleRef:
		return elem, known && stars == 1 && isConst
	case roleKParams:
		return "KernelParams", p.c.typ == "void **"
	case roleFunc:
		return "Callback", stars == 0
	case roleData:
		return "", p.c.typ == "void *"
	case roleHostNode:
		return "Callback", p.c.typ == "const CUDA_HOST_NODE_PARAMS *"
	case roleKExtra:
		return "", p.c.typ == "void **"
	case roleNull:
		return "", p.c.size == 0
	case roleStruct:
		return "*" + p.arg, stars == 1 && p.arg != ""
	case roleHostPtr:
		return "HostPtr", stars == 1 && base == "void"
	case roleGoPtr:
		return "unsafe.Pointer", stars == 1
	}
	return "", false
}

// splitPointer removes the pointers and the const from a C type.
func splitPointer(typ string) (base string, stars int) {
	base = strings.TrimPrefix(typ, "const ")
	stars = strings.Count(base, "*")
	return strings.TrimSpace(strings.ReplaceAll(base, "*", "")), stars
}
