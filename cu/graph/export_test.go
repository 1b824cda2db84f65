package graph

// This file has what the tests of package graph_test need besides the API.

import (
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/core"
	"github.com/purecu/purecu/internal/lock"
)

var (
	ErrAllocated = errAllocated
	ErrBuilding  = errBuilding
)

func RawNode(n Node) driver.GraphNode          { return n.raw }
func Outermost(g *Graph) *Graph                { return g.outermost() }
func OneFamily(a, b *Graph) bool               { return a.core.family.root() == b.core.family.root() }
func UpdatedKernel(u *NodeUpdate) *Kernel      { return u.kernel() }
func ExecState(x *Exec) *core.Resource         { return &x.core.Resource }
func RawExec(x *Exec) driver.GraphExec         { return x.core.raw }
func ExecMutex(x *Exec) *lock.Mutex[lock.Exec] { return &x.core.mu }

// ReusedNode returns a node as if the driver had reused the handle of n, the first of its handle.
func ReusedNode(n Node) Node { return Node{n.graph, n.raw, 1} }
