//go:build lockorder

package lock

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// refused calls f, and returns the message of the check's panic, or "" if f is allowed.
func refused(f func()) (why string) {
	defer func() {
		if p := recover(); p != nil {
			why = fmt.Sprint(p)
		}
	}()
	f()
	return ""
}

// TestOrder takes locks in allowed and forbidden orders.
func TestOrder(t *testing.T) {
	var (
		outer    Mutex[Exec]
		graph    Mutex[Graph]
		other    Mutex[Graph]
		capture  RWMutex[StreamCapture]
		capture2 RWMutex[StreamCapture]
	)
	outer.Lock()
	graph.Lock()
	for name, f := range map[string]func(){"Exec": outer.Lock, "Graph": other.Lock, "a callback": func() { None("a callback") }} {
		if why := refused(f); !strings.Contains(why, name) || !strings.Contains(why, "holds lock.Exec, lock.Graph") {
			t.Errorf("%s: %q", name, why)
		}
	}
	capture.RLock()
	capture2.RLock()
	if why := refused(func() { capture2.TryLock() }); why != "" {
		t.Errorf("TryLock never blocks, but the check panics: %s", why)
	}
	if why := refused(other.Lock); why == "" {
		t.Error("Graph was taken after StreamCapture")
	}
	outer.Unlock() // in any order
	capture2.RUnlock()
	capture.RUnlock()
	if why := refused(outer.Lock); why == "" {
		t.Error("Exec was taken after Graph")
	}
	graph.Unlock()
	None("a callback")

	graph.Lock()
	done := make(chan struct{})
	go func() { // another goroutine may release it
		defer close(done)
		graph.Unlock()
	}()
	<-done
	None("a callback")
}

// TestOrderComplete compares the checked order with the documented order.
func TestOrderComplete(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "order.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSpec); ok {
			want = append(want, "lock."+s.Name.Name)
		}
		return true
	})
	for _, place := range order {
		got = append(got, fmt.Sprintf("%T", place))
	}
	if !slices.Equal(want, got) {
		t.Errorf("the checked order is\n\t%v, the documented order\n\t%v", got, want)
	}
}
