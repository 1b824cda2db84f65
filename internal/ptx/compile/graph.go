package compile

import (
	"strings"

	"github.com/purecu/purecu/internal/ptx/syntax"
)

// callGraph says which functions may call which ones. A call by an address is one of nil, which calls all
// functions whose address is used.
type callGraph struct {
	calls     map[*syntax.Function][]*syntax.Function
	taken     []*syntax.Function        // functions whose address is used, in the order of the text
	cycles    map[*syntax.Function]int  // functions that may call each other have the same number
	recursive map[*syntax.Function]bool // functions that may call themselves, also through others
	allocates map[*syntax.Function]bool // functions that allocate memory on the stack
	// largest is the size of the largest argument in memory that a function can get.
	largest uint64
}

// newGraph reads all bodies and initial values of a text.
func (m *Module) newGraph() *callGraph {
	g := &callGraph{calls: make(map[*syntax.Function][]*syntax.Function),
		cycles: make(map[*syntax.Function]int), recursive: make(map[*syntax.Function]bool),
		allocates: make(map[*syntax.Function]bool)}
	taken := make(map[*syntax.Function]bool)
	for _, s := range m.names {
		if s.v == nil {
			continue
		}
		for _, value := range s.v.Init {
			if of := m.names[value.Symbol]; of != nil && of.function != nil {
				taken[of.function] = true
			}
		}
	}
	for _, f := range m.functions {
		m.callsOf(g, f, f.Body, taken)
	}
	for _, f := range m.functions {
		if v := f.Variadic(); v != nil { // there is room for each argument that it may get
			v.Count = max(g.largest, 1)
		}
		if taken[f] && f.HasBody && !f.Kernel {
			g.taken = append(g.taken, f)
		}
	}
	g.calls[nil] = g.taken
	g.findCycles(m.functions)
	return g
}

// callsOf notes what statements of a function call.
func (m *Module) callsOf(g *callGraph, f *syntax.Function, list []syntax.Statement, taken map[*syntax.Function]bool) {
	var uses func(list []syntax.Operand)
	uses = func(list []syntax.Operand) {
		for _, o := range list {
			if s := m.names[o.Name]; s != nil && s.function != nil && o.Name != "" {
				taken[s.function] = true
			}
			uses(o.Parts)
		}
	}
	for _, s := range list {
		if s.Block != nil {
			m.callsOf(g, f, s.Block, taken)
		}
		if s.Var != nil && s.Var.Space == syntax.Param {
			g.largest = max(g.largest, s.Var.Size())
		}
		if s.Inst == nil {
			continue
		}
		operands := s.Inst.Operands
		if strings.HasPrefix(s.Inst.Op, "alloca.") {
			g.allocates[f] = true
		}
		if s.Inst.Op == "call" || strings.HasPrefix(s.Inst.Op, "call.") {
			if len(operands) > 0 && operands[0].Kind == syntax.List {
				operands = operands[1:]
			}
			if len(operands) == 0 {
				continue
			}
			if s := m.names[operands[0].Name]; s != nil && s.function != nil {
				g.calls[f] = append(g.calls[f], s.function)
			} else {
				g.calls[f] = append(g.calls[f], nil)
			}
			continue
		}
		uses(operands)
	}
}

// findCycles finds the functions that may call each other: the strongly connected components of the graph,
// in one pass (Tarjan's algorithm).
func (g *callGraph) findCycles(functions []*syntax.Function) {
	index := make(map[*syntax.Function]int, len(functions))
	var open []*syntax.Function
	var visit func(f *syntax.Function) (lowest int)
	visit = func(f *syntax.Function) (lowest int) {
		own, begin := len(index)+1, len(open)
		index[f], lowest = own, own
		open = append(open, f)
		for _, callee := range g.calls[f] {
			switch {
			case callee == f:
				g.recursive[f] = true
			case index[callee] == 0:
				lowest = min(lowest, visit(callee))
			case g.cycles[callee] == 0: // it is open
				lowest = min(lowest, index[callee])
			}
		}
		if lowest < own {
			return lowest
		}
		for _, member := range open[begin:] {
			g.cycles[member] = own
			g.recursive[member] = g.recursive[member] || len(open)-begin > 1
		}
		open = open[:begin]
		return lowest
	}
	for _, f := range functions {
		if index[f] == 0 {
			visit(f)
		}
	}
}

// pointers reports whether a kernel may call functions by their addresses.
func (g *callGraph) pointers(kernel *syntax.Function) bool {
	seen := map[*syntax.Function]bool{kernel: true}
	for list := []*syntax.Function{kernel}; len(list) > 0; {
		f := list[len(list)-1]
		list = list[:len(list)-1]
		for _, callee := range g.calls[f] {
			if callee == nil {
				return true
			}
			if !seen[callee] {
				seen[callee] = true
				list = append(list, callee)
			}
		}
	}
	return false
}
