// Package memstate has the states of memory: of allocations, of pools, of graphs and of other APIs. It allocates
// and frees them in the order of streams, says which part of an allocation work uses (Region, Span, Planes), and
// enqueues work that uses memory (Begin, EnqueueBatch).
//
// Begin with mem.go. A kind of memory is a Kind, beside the function that makes such memory.
package memstate
