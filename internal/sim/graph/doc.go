// Package graph is the structure of CUDA's graphs: a [Graph] has [Node]s and [Edge]s, and a node has [Work], which
// this package does not do. It says which edges nodes can have, in which order nodes are copied and executed, what an
// executable graph ([Exec]) consists of, and which graphs can update it ([Update]).
//
// It knows no contexts, no memory, and no driver. Package sim makes work, finds the objects of handles, and enqueues
// the operations of nodes. It keeps handles and contexts in graphs and nodes, which are only copied here.
//
// Graphs can be part of others: the work of a node can be a [Child], which is a copy of a graph, or a [Conditional],
// which has graphs, its bodies, and runs one of them as a value says that kernels set ([Values]).
package graph
