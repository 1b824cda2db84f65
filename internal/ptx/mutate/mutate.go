// Package mutate puts faults into the instructions of kernels. Tests use it to show that a mistake in an
// entry of the table of package isa would be found.
package mutate

import (
	"fmt"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/purecu/purecu/internal/ptx/isa"
	"github.com/purecu/purecu/internal/ptx/vm"
)

// Fault is a mistake in an entry of the table. A kernel that has it has it in all instructions of the
// entry that the mistake is about.
type Fault struct {
	Row *isa.Instruction
	// What says what is wrong, such as "rnd=rn is rz".
	What string

	about  func(v isa.Variant) bool
	seed   func(v isa.Variant, o *vm.Op) bool // reports whether it has changed the instruction
	unseen string
}

// String returns the entry and what is wrong.
func (f *Fault) String() string { return f.entry() + ": " + f.What }

// entry returns the entry as the table has it.
func (f *Fault) entry() string { return strings.TrimSpace(f.Row.Name + " " + f.Row.Modifiers) }

// Faults returns the faults of all entries in their order. They are the same each time.
func Faults() (list []*Fault) {
	for _, row := range isa.All() {
		list = append(list, faultsOf(row)...)
	}
	explain(list)
	return list
}

// faultsOf returns the faults of an entry.
func faultsOf(row *isa.Instruction) (list []*Fault) {
	add := func(what string, about func(isa.Variant) bool, seed func(v isa.Variant, o *vm.Op) bool) {
		list = append(list, &Fault{Row: row, What: what, about: about, seed: seed})
	}
	always := func(isa.Variant) bool { return true }
	switch {
	case row.Make == nil && row.Kind == vm.Nothing: // a test can only see that it is executed
		add("it is a trap", always, func(_ isa.Variant, o *vm.Op) bool {
			o.Kind, o.Imm = vm.Trap, vm.LaunchFailed
			return true
		})
		return list
	case row.Make == nil, row.Operands == "", row.Name == "bar" && row.Kind == vm.Sync:
		add("it does nothing", always, func(_ isa.Variant, o *vm.Op) bool {
			o.Kind = vm.Nothing
			return true
		})
		return list
	}
	all := reachable(row)
	list = append(list, valueFaults(row, all)...)
	if row.Kind != vm.Barrier {
		add("a lane is left out", always, func(_ isa.Variant, o *vm.Op) bool {
			run := o.Run
			o.Run = func(w *vm.Warp, o *vm.Op) {
				active := w.Active
				w.Active &^= 1 << (bits.Len32(active) - 1)
				run(w, o)
				w.Active = active
			}
			return true
		})
	}
	for _, s := range slotsOf(row) {
		for _, from := range s.options {
			for _, to := range replacements(s, from) {
				exists := func(v isa.Variant) bool { return !inParam(v) && replaced(v, s.name, from, to) != nil }
				if slices.ContainsFunc(all, exists) {
					add(describe(s, from, to), always, func(v isa.Variant, o *vm.Op) bool {
						f := replaced(v, s.name, from, to)
						if f == nil || inParam(v) || v.Name == "mov" && o.X != nil {
							return false // the translation has chosen another function
						}
						o.Run = f
						if o.Kind == vm.Barrier {
							changed, _ := v.With(s.name, to)
							o.Imm = isa.Reduction(changed)
						}
						return true
					})
				}
			}
		}
	}
	return list
}

// reachable returns the variants that a text can have. Of several entries the first one counts.
func reachable(row *isa.Instruction) []isa.Variant {
	return slices.DeleteFunc(row.Variants(), func(v isa.Variant) bool {
		found, _, _ := isa.Find(v.String())
		return found.Instruction != row
	})
}

// inParam reports whether an instruction accesses parameters. Those of functions are in local memory.
func inParam(v isa.Variant) bool {
	return v.Kind == vm.Touches && strings.HasPrefix(v.Get("space"), "param")
}

// describe says what is wrong if a modifier is replaced.
func describe(s slot, from, to string) string {
	switch {
	case !s.types:
		return strings.TrimSuffix(fmt.Sprintf("%s=%s is %s", s.name, from, to), " ")
	case sizeOf(from) == sizeOf(to):
		return fmt.Sprintf("%s=%s has the other sign", s.name, from)
	}
	return fmt.Sprintf("%s=%s has half the width", s.name, from)
}

// replaced returns the function of a variant with another modifier in a place, or nil if there is none.
func replaced(v isa.Variant, name, from, to string) vm.Func {
	if v.Get(name) != from {
		return nil
	}
	w, f := v.With(name, to)
	if f == nil || v.Lengths != nil && !slices.Equal(v.Lengths(v), v.Lengths(w)) {
		return nil
	}
	return f
}

// slot is a place for a modifier, with what may be there.
type slot struct {
	name    string
	options []string
	types   bool
}

var typeName = regexp.MustCompile(`^(b|u|s|f|bf|tf|e4m|e5m)\d+(x\d)?$`)

// slotsOf returns the places for modifiers of which there is a choice.
func slotsOf(row *isa.Instruction) (list []slot) {
	for _, word := range strings.Fields(row.Modifiers) {
		name, choices, named := strings.Cut(word, "=")
		name, optional := strings.CutSuffix(name, "?")
		s := slot{name: name, options: []string{name}}
		if named {
			s.options = strings.Split(choices, "|")
			s.types = !slices.ContainsFunc(s.options, func(o string) bool { return !typeName.MatchString(o) })
		}
		if optional {
			s.options = append([]string{""}, s.options...)
		}
		list = append(list, s)
	}
	return list
}

// silent are the places for modifiers that do not change what an instruction computes, and why.
var silent = map[string]string{
	"cop": "about caches", "l1": "about caches", "l2": "about caches",
	"weak":  "the executor's accesses are strong enough",
	"order": "the executor's accesses are strong enough", "sem": "the executor's accesses are strong enough",
	"scope":    "the executor's accesses are strong enough",
	"metadata": "a promise of the compiler",
	"uni":      "a promise of the compiler", "aligned": "a promise of the compiler", "cta": "the name is longer",
	"vec": "the translation gives the function the registers", "test": "the executor does not wait in either",
}

// nearest are modifiers with those that are confused with them most easily, the best one first.
var nearest = map[string][]string{
	"": {"rz", "rzi"}, "rn": {"rz"}, "rz": {"rn"}, "rm": {"rp"}, "rp": {"rm"},
	"rni": {"rzi"}, "rzi": {"rni"}, "rmi": {"rpi"}, "rpi": {"rmi"},
	"eq": {"equ", "ge"}, "ne": {"neu", "gt"}, "lt": {"le"}, "le": {"lt"}, "gt": {"ge"}, "ge": {"gt"},
	"lo": {"ls", "hi"}, "ls": {"lo"}, "hi": {"hs", "lo"}, "hs": {"hi"},
	"equ": {"eq"}, "neu": {"ne"}, "ltu": {"lt"}, "leu": {"le"}, "gtu": {"gt"}, "geu": {"ge"},
	"num": {"nan"}, "nan": {"num"}, "and": {"or"}, "or": {"xor"}, "xor": {"or"},
	"global": {"shared"}, "const": {"shared"}, "shared": {"local", ""}, "local": {"shared"}, "param": {"shared"},
	"shared::cta": {"local", ""}, "shared::cluster": {"local", ""},
}

// replacements returns the modifiers that a fault puts in the place of one.
func replacements(s slot, from string) (list []string) {
	switch {
	case silent[s.name] != "" || len(s.options) < 2:
		return nil
	case s.types:
		return typeReplacements(s, from)
	}
	for _, to := range nearest[from] {
		if slices.Contains(s.options, to) && (from != "" || s.name == "rnd") {
			return []string{to}
		}
	}
	if s.name == "space" && from == "" && slices.Contains(s.options, "shared") {
		return []string{"shared"}
	}
	if s.name == "space" || s.name == "rnd" {
		return nil // nothing that is different
	}
	i := slices.Index(s.options, from)
	return []string{s.options[(i+1)%len(s.options)]}
}

// typeReplacements returns the type with the other sign, and the type of half the width.
func typeReplacements(s slot, from string) (list []string) {
	size, err := strconv.Atoi(from[1:])
	if err != nil || from[0] == 'f' {
		return nil
	}
	other := map[byte]string{'u': "s", 's': "u"}[from[0]]
	for _, to := range []string{fmt.Sprint(other, size), fmt.Sprint(from[:1], size/2)} {
		if slices.Contains(s.options, to) {
			list = append(list, to)
		}
	}
	return list
}

// valueFaults returns a fault in the lowest and in the highest bit of a result for each choice of types,
// or of what is stored if there is no result.
func valueFaults(row *isa.Instruction, all []isa.Variant) (list []*Fault) {
	var types []string
	for _, s := range slotsOf(row) {
		if s.types {
			types = append(types, s.name)
		}
	}
	kindOf := func(v isa.Variant) string {
		var kind []string
		for _, name := range types {
			kind = append(kind, v.Get(name))
		}
		return strings.Join(kind, ".")
	}
	kinds := make(map[string]isa.Variant)
	for _, v := range all {
		if _, seen := kinds[kindOf(v)]; !seen {
			kinds[kindOf(v)] = v
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		about := func(v isa.Variant) bool { return kindOf(v) == kind }
		before := strings.TrimPrefix(kind+": ", ": ")
		for _, p := range partsOf(kinds[kind]) {
			what := before + p.what
			list = append(list, &Fault{Row: row, What: what, about: about, seed: func(v isa.Variant, o *vm.Op) bool {
				if p.of(o) < 0 {
					return false
				}
				run := o.Run
				o.Run = func(w *vm.Warp, o *vm.Op) {
					if p.read {
						p.flip(w, o)
						defer p.flip(w, o)
					}
					if run(w, o); !p.read && w.Fault == nil {
						p.flip(w, o)
					}
				}
				return true
			}})
		}
	}
	return list
}

// part is a bit of a value of an instruction, or a predicate.
type part struct {
	what string
	read bool                 // the value is read
	bit  int                  // -1 for a predicate
	of   func(o *vm.Op) int32 // the column or predicate, -1 if the instruction does not have it
}

// flip changes the bit in the active lanes.
func (p *part) flip(w *vm.Warp, o *vm.Op) {
	n := p.of(o)
	if p.bit < 0 {
		w.P[n] ^= w.Active
		return
	}
	for i := range w.Each {
		w.R[n][i] ^= 1 << p.bit
	}
}

// partsOf returns what faults change: results, or what is read if there are none.
func partsOf(v isa.Variant) (list []part) {
	add := func(w isa.Operand, read bool, what string, of func(o *vm.Op) int32) {
		list = append(list, part{"lowest bit of " + what, read, 0, of},
			part{"highest bit of " + what, read, min(sizeOf(v.Type(w)), 64) - 1, of})
	}
	several := func(o *vm.Op, single int32) int32 {
		if single == 0 && o.X != nil && o.X.N > 0 {
			return o.X.D[o.X.N-1]
		}
		return single
	}
	for _, w := range v.Operands() {
		switch w.Role {
		case 'd', 'v', 'x', 's':
			add(w, false, "the result", func(o *vm.Op) int32 { return several(o, o.D) })
			if w.Role == 's' {
				list = append(list, part{"the second result", false, -1, func(o *vm.Op) int32 {
					if o.X == nil {
						return -1
					}
					return o.X.P - 1
				}})
			}
		case '0':
			add(w, false, "the result", func(o *vm.Op) int32 { return last(o.X.Lists[0]) })
		case 'P':
			list = append(list, part{"the result", false, -1, func(o *vm.Op) int32 { return o.D }})
			if w.Pair {
				list = append(list, part{"the second result", false, -1, func(o *vm.Op) int32 { return o.E - 1 }})
			}
		}
	}
	if len(list) > 0 {
		return list
	}
	for _, w := range v.Operands() {
		switch w.Role {
		case 'w', 'b':
			add(w, true, "operand "+string(w.Role), func(o *vm.Op) int32 { return several(o, o.B) })
		case '1':
			add(w, true, "operand 1", func(o *vm.Op) int32 { return last(o.X.Lists[1]) })
		}
	}
	return list
}

func last(list []int32) int32 { return list[len(list)-1] }

// sizeOf returns the size of a type in bits.
func sizeOf(typ string) int {
	digits := strings.TrimLeft(typ, "abcdefghijklmnopqrstuvwxyz")
	switch {
	case strings.HasPrefix(typ, "e"):
		return 16
	case strings.HasSuffix(digits, "x2"):
		return 32
	}
	n, _ := strconv.Atoi(digits)
	return max(n, 1)
}

// Table finds the faults that are possible in kernels. It is for one goroutine.
type Table struct {
	rows     map[*isa.Instruction][]*Fault
	variants map[string]*isa.Variant // by the text, nil for what is no instruction of the table
}

// NewTable returns a table of faults.
func NewTable(list []*Fault) *Table {
	t := &Table{make(map[*isa.Instruction][]*Fault), make(map[string]*isa.Variant)}
	for _, f := range list {
		t.rows[f.Row] = append(t.rows[f.Row], f)
	}
	return t
}

// Remove removes a fault.
func (t *Table) Remove(f *Fault) {
	t.rows[f.Row] = slices.DeleteFunc(t.rows[f.Row], func(g *Fault) bool { return f == g })
}

// variant returns the instruction of the table that an instruction of a kernel comes from, or nil.
func (t *Table) variant(k *vm.Kernel, i int) *isa.Variant {
	text := k.Places[i].Text
	v, seen := t.variants[text]
	if !seen {
		if found, _, is := isa.Find(text); is {
			v = &found
		}
		t.variants[text] = v
	}
	if v == nil {
		return nil
	}
	kind := k.Code[i].Kind
	switch same := kind == v.Kind; {
	case v.Make != nil && same && k.Code[i].Run != nil, v.Make == nil && same, v.Kind == vm.Call && kind == vm.CallTo,
		v.Kind == vm.Return && kind == vm.Exit:
		return v
	}
	return nil
}

// Of returns the faults that a kernel may have.
func (t *Table) Of(k *vm.Kernel) (list []*Fault) {
	seen := make(map[string]bool)
	for i := range k.Code {
		text := k.Places[i].Text
		if seen[text] {
			continue
		}
		if v := t.variant(k, i); v != nil {
			seen[text] = true
			for _, f := range t.rows[v.Instruction] {
				if f.about(*v) && !slices.Contains(list, f) {
					list = append(list, f)
				}
			}
		}
	}
	return list
}

// Seed returns a copy of a kernel that has a fault, or nil if none of its instructions can have it. The
// copy also fails when it has come to labels as often as limit says, as it might not end.
func (t *Table) Seed(f *Fault, k *vm.Kernel, limit int64) *vm.Kernel {
	code, seeded := slices.Clone(k.Code), false
	for i := range code {
		if v := t.variant(k, i); v != nil && v.Instruction == f.Row && f.about(*v) && f.seed(*v, &code[i]) {
			seeded = true
		}
	}
	if !seeded {
		return nil
	}
	var labels atomic.Int64
	for i := range code {
		if o := &code[i]; o.Kind == vm.Nothing && o.Join {
			o.Kind, o.Run = vm.Touches, func(w *vm.Warp, _ *vm.Op) {
				if labels.Add(1) > limit {
					w.Fail(vm.LaunchFailed, "the kernel does not end")
				}
			}
		}
	}
	return &vm.Kernel{Name: k.Name, Code: code, Places: k.Places, Files: k.Files, Columns: k.Columns,
		Predicates: k.Predicates, Constants: k.Constants, Specials: k.Specials, Sizes: k.Sizes, Entries: k.Entries,
		Clusters: k.Clusters, Allocates: k.Allocates, Saves: k.Saves}
}
