// Package memory has the kinds of memory that need more than an allocation: pools, managed memory, memory that grows at
// its addresses, memory of other processes, and memory of other code. Package cu has the plain kinds.
//
//	pool, err := memory.NewPool(gpu, memory.PoolOptions{MaxSize: 1 << 30})
//	x, err := pool.Alloc(s, 4096) // in the order of the stream
//	err = kernel.Launch(s, cfg, cu.Ptr(x))
//	err = s.Free(x)
//	host, err := memory.AllocManaged(gpu, 4096, memory.AttachGlobal)
//	err = memory.Prefetch(s, host, memory.LocationOf(dev))
//	buf, err := memory.Reserve(gpu, 1<<40) // addresses only
//	err = buf.Grow(4096)
//	err = kernel.Launch(s, cfg, cu.Ptr(buf.Mem()))
//	err = errors.Join(buf.Close(), host.Close(), pool.Close())
//
// All of them serve copies, launches and graphs as memory of [cu.Context.Alloc] does.
//
// # Where to begin
//
//   - Pools: [NewPool], [Pool.Alloc], [Pool.AllocHost], [Pool.Stats]. [CurrentPool] and [SetPool] are about the pool of
//     [cu.Stream.Alloc].
//   - Managed memory: [AllocManaged], [Advise], [Prefetch], [PrefetchAll], [Discard], [ManagedInfoOf], [Location].
//   - Memory that grows or is mapped: [Reserve], [Virtual.Grow], [NewPhysical], [Virtual.Map], [Access].
//   - Other processes: [IPCHandleOf] and [OpenIPC]; for pools [Pool.Export], [ImportPool], [PoolHandleOf] and
//     [Pool.Open]; for physical memory [Physical.Export] and [ImportPhysical].
//   - Memory of other code, and addresses: [Wrap], [PointerInfoOf], [AddressRange].
package memory
