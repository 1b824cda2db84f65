// Package graph describes work for a GPU once, and launches all of it with one call, as often as need be: CUDA's
// graphs.
//
//	g, err := graph.Capture(s, graph.CaptureThreadLocal, func() error { // nothing runs yet
//		return errors.Join(s.Copy(x, in), kernel.Launch(s, cfg, cu.Ptr(x)), s.Copy(out, x))
//	})
//	exec, err := g.Instantiate()
//	for range 1000 {
//		err = exec.Launch(s)
//	}
//	err = s.Synchronize()
//	err = errors.Join(exec.Close(), g.Close())
//
// A launch costs the host one call, whatever the number of nodes, and the GPU knows the order of all the work before it
// begins. A [Graph] keeps what its nodes use, so that memory, modules and events may be closed before it.
//
// # Where to begin
//
//   - Capture: [Capture] makes a graph of what a function enqueues on a stream, [Graph.Capture] a part of one.
//     [CaptureInfoOf] says whether a stream is being captured. Many calls are refused meanwhile, and some invalidate
//     the capture: docs/captures.md lists them, and [CaptureMode] chooses.
//   - Node by node: [New], [Graph.Add] and the kinds of [Work]: [Kernel], [Copy], [Memset], [HostFunc], [Child],
//     [Record], [Wait], [MemOps], [ExternalSignal], [ExternalWait], [Empty]. [Graph.AddEdge] and
//     [Graph.AddEdgeOfKind] put nodes in order. [Graph.Nodes], [Node.Work] and [Graph.WriteDOT] tell what is there.
//   - Executable graphs: [Graph.Instantiate], [Exec.Launch], [Exec.Upload]. To change one costs less than to
//     instantiate another one: [Exec.Set], [Exec.SetAll] and [Exec.SetEnabled] change its nodes, and [Exec.Update]
//     takes over a graph.
//   - Conditions, which kernels set: [Graph.NewCondition], [If], [While], [Switch].
//   - Memory of graphs, which each launch allocates: [Alloc], [Free], [Exec.Take], [MemStatsOf], [TrimMem]. In a
//     capture, [cu.Stream.Alloc] and [cu.Stream.Free] make such nodes.
package graph
