package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/purecu/purecu/tools/internal/cheader"
)

// A role says what a parameter is for. calls.tsv explains the roles.
type role string

const (
	roleValue  role = "value"
	roleString role = "string"
	roleIn     role = "in"
	roleOut    role = "out"
	roleInout  role = "inout"
	roleLen    role = "len" // a slice
	roleBytes  role = "bytes"
	roleCount  role = "count"
	roleMemory role = "memory"
	roleRoom   role = "room"
	roleArray  role = "array" // room:N
	roleLength role = "-"     // the length of a slice, which is no parameter in Go
)

// A plan says what is generated.
type plan struct {
	*facts
	*drivers
	calls []call
}

// A call is a function, and its method.
type call struct {
	funcFact
	method string
	params []param
}

// A param is a parameter of a call.
type param struct {
	paramFact
	goName string
	goType string // of the parameter in Go, "" for roleLength
	elem   string // what an address leads to, in Go
	role   role
	of     string // the parameter that counts, in C; the number of elements of roleArray; the slice of roleLength, in Go
}

// newPlan makes a plan from facts and the text of calls.tsv.
func newPlan(f *facts, known *drivers, calls source) (*plan, error) {
	var errs cheader.ErrorList
	p := &plan{facts: f, drivers: known}
	roles := map[string]map[string]string{}
	line := 0
	for s := range strings.Lines(calls.text) {
		line++
		if strings.HasPrefix(s, "#") || strings.TrimSpace(s) == "" {
			continue
		}
		columns := strings.Split(strings.TrimSpace(s), "\t")
		name := columns[0]
		i := slices.IndexFunc(f.funcs, func(fn funcFact) bool { return fn.export == name })
		if i < 0 || roles[name] != nil {
			errs.Add(calls.name, line, "%s is no function, or has a line before this one", name)
			continue
		}
		roles[name] = map[string]string{}
		for _, c := range columns[1:] {
			prm, r, _ := strings.Cut(c, "=")
			if !slices.ContainsFunc(f.funcs[i].params, func(p paramFact) bool { return p.name == prm }) {
				errs.Add(calls.name, line, "%s has no parameter %s", name, prm)
			}
			roles[name][prm] = r
		}
	}
	for _, fn := range f.funcs {
		c, err := p.call(fn, roles[fn.export])
		if err != nil {
			errs.Add(calls.name, 0, "%s: %v", fn.export, err)
		}
		p.calls = append(p.calls, c)
	}
	slices.SortFunc(p.calls, func(a, b call) int { return strings.Compare(a.export, b.export) })
	return p, errs.Err()
}

// call returns the plan for a function.
func (p *plan) call(fn funcFact, roles map[string]string) (call, error) {
	c := call{funcFact: fn, method: methodName(fn.export)}
	for i, fact := range fn.params {
		prm, err := p.param(fn, i, roles[fact.name])
		if err != nil {
			return c, fmt.Errorf("%s: %w", fact.name, err)
		}
		c.params = append(c.params, prm)
	}
	for _, prm := range c.params {
		switch prm.role {
		case roleLen, roleBytes, roleCount, roleMemory:
			i := slices.IndexFunc(c.params, func(other param) bool { return other.name == prm.of })
			if i < 0 {
				return c, fmt.Errorf("%s: there is no parameter %s", prm.name, prm.of)
			}
			counter := &c.params[i]
			isLength := prm.role == roleLen || prm.role == roleBytes
			switch {
			case isLength && counter.role != roleValue, !isLength && (counter.role == roleValue || counter.elem != "uint32"):
				return c, fmt.Errorf("%s cannot count", counter.name)
			case isLength:
				counter.role, counter.goType, counter.of = roleLength, "", prm.goName
				if prm.role == roleBytes {
					counter.elem = prm.elem
				}
			default:
				counter.role = roleInout
			}
		}
	}
	return c, nil
}

// param returns the plan for parameter i of a function, whose role is in calls.tsv, or "".
func (p *plan) param(fn funcFact, i int, given string) (param, error) {
	fact := fn.params[i]
	prm := param{paramFact: fact, goName: goName(fact.name)}
	base, stars := splitPointer(strings.TrimPrefix(fact.typ, "const "))
	isConst := strings.HasPrefix(fact.typ, "const ")
	elem, known := p.goType(base)
	if !known || stars > 1 {
		return prm, fmt.Errorf("there is no type of Go for %s", fact.typ)
	}
	prm.elem = elem
	r, of, _ := strings.Cut(given, ":")
	prm.role, prm.of = role(r), of
	if given == "" {
		switch {
		case stars == 0:
			prm.role = roleValue
		case base == "char" && isConst:
			prm.role = roleString
		case base == "char" && i+1 < len(fn.params) && fn.params[i+1].typ == "unsigned int" &&
			(fn.params[i+1].name == "length" || fn.params[i+1].name == "size"):
			prm.role, prm.of = roleLen, fn.params[i+1].name
		case base == "char":
			return prm, fmt.Errorf("calls.tsv must say how long it is")
		case isConst:
			prm.role = roleIn
		case p.versioned(base):
			prm.role = roleInout
		case strings.Contains(fn.export, "Set") && !strings.Contains(fn.export, "Get"):
			prm.role = roleIn
			if strings.Contains(fn.export, "EventSet") {
				prm.role = roleOut
			}
		default:
			prm.role = roleOut
		}
	}
	switch prm.role {
	case roleValue:
		prm.goType = elem
	case roleString:
		prm.goType = "string"
	case roleIn, roleOut, roleInout:
		prm.goType = "*" + elem
	case roleLen, roleBytes, roleCount:
		prm.goType = "[]" + elem
	case roleMemory:
		prm.goType = "[]byte"
	case roleRoom:
		prm.goType = "[]" + elem
		if of != "" {
			prm.role, prm.goType = roleArray, "*["+of+"]"+elem
		}
	default:
		return prm, fmt.Errorf("there is no role %s", given)
	}
	if (stars == 0) != (prm.role == roleValue) {
		return prm, fmt.Errorf("a %s has not the role %s", fact.typ, prm.role)
	}
	return prm, nil
}

// versioned reports whether a type is a struct whose first member is a version.
func (p *plan) versioned(name string) bool {
	s, is := p.structByName(name)
	return is && len(s.fields) > 0 && s.fields[0].name == "version"
}
