package isa

import (
	"slices"
	"strings"
	"sync"

	"github.com/purecu/purecu/internal/ptx/vm"
	"github.com/purecu/purecu/internal/ptx/vm/simd"
)

// The files with rows use table.go, and this file uses them.

// table is the table by names.
var table = sync.OnceValue(func() map[string][]*Instruction {
	m := make(map[string][]*Instruction)
	for _, row := range rows() {
		for _, word := range strings.Fields(row.Modifiers) {
			s := slot{}
			name, choices, named := strings.Cut(word, "=")
			s.name, s.optional = strings.CutSuffix(name, "?")
			if s.choices = []string{s.name}; named {
				s.choices = strings.Split(choices, "|")
			}
			row.slots = append(row.slots, s)
		}
		for _, word := range strings.Fields(row.Operands) {
			o := Operand{Role: word[0], Type: "t"}
			word, o.Optional = strings.CutSuffix(word, "?")
			word, o.Pair = strings.CutSuffix(word, "|")
			if _, t, typed := strings.Cut(word, ":"); typed {
				o.Type = t
			}
			row.operands = append(row.operands, o)
		}
		m[row.Name] = append(m[row.Name], row)
	}
	return m
})

// rows returns all rows.
func rows() []*Instruction {
	return slices.Concat(integerRows(), bitRows(), floatRows(), approximateRows(), convertRows(), compareRows(),
		moveRows(), memoryRows(), atomicRows(), warpRows(), controlRows(), tensorRows(), asyncRows(), bulkRows(),
		videoRows(), narrowRows(), imageRows(), warpgroupRows(), tensorCopyRows())
}

// All returns the rows in the order of the table.
func All() []*Instruction {
	table := table()
	var list []*Instruction
	for _, row := range rows() {
		if same := table[row.Name]; len(list) == 0 || list[len(list)-1].Name != row.Name {
			if !slices.Contains(list, same[0]) {
				list = append(list, same...)
			}
		}
	}
	return list
}

// Find returns the variant for the text of an instruction, such as "add.s32", and its function.
func Find(op string) (Variant, vm.Func, bool) {
	name, rest, dotted := strings.Cut(op, ".")
	var words []string
	if dotted {
		words = strings.Split(rest, ".")
	}
	for _, match := range []func(*Instruction, []string) ([]string, bool){
		(*Instruction).match, (*Instruction).matchAny,
	} {
		for _, row := range table()[name] {
			if values, is := match(row, words); is {
				v := Variant{row, values}
				if row.Make == nil {
					return v, nil, true
				}
				if f := row.Make(v); f != nil {
					return v, vectorized(v, f), true
				}
			}
		}
	}
	return Variant{}, nil, false
}

// vectorized returns a function that does the same as f, with vector instructions if there are such.
func vectorized(v Variant, f vm.Func) vm.Func {
	g := simd.Of(v.String())
	if g == nil {
		return f
	}
	return func(w *vm.Warp, o *vm.Op) {
		left := g(&w.R[o.D], &w.R[o.A], &w.R[o.B], &w.R[o.C], w.Active)
		if left == 0 {
			return
		}
		active := w.Active
		w.Active = left
		f(w, o)
		w.Active = active
	}
}

// Has reports whether the table has an instruction with a name, in any form.
func Has(name string) bool { return len(table()[name]) > 0 }
