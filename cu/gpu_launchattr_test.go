package cu_test

import (
	"errors"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	. "github.com/purecu/purecu/internal/testrig"
)

// clusterPTX has a kernel that writes the size of its cluster.
const clusterPTX = `.version 7.8
.target sm_90
.address_size 64
.visible .entry cluster_size(.param .u64 out) {
	.reg .u64 %p;
	.reg .u32 %n;
	ld.param.u64 %p, [out];
	cvta.to.global.u64 %p, %p;
	mov.u32 %n, %cluster_nctaid.x;
	st.global.u32 [%p], %n;
	ret;
}`

// TestGPULaunchAttributes launches kernels with attributes, on a stream, in a captured graph and by a node.
func TestGPULaunchAttributes(t *testing.T) {
	gpu := GPUContext(t)
	if can := Need(gpu.Device().Attribute(DeviceAttributeClusterLaunch))(t); can == 0 {
		t.Skip("the device has no clusters")
	}
	s := Need(gpu.NewStream(StreamNonBlocking))(t)
	m := Need(gpu.LoadModule([]byte(clusterPTX)))(t)
	size := Need(m.Function("cluster_size"))(t)
	mem := Need(AllocFrom(gpu, []uint32{0}))(t)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	saw := func(what string, want uint32) {
		t.Helper()
		var got [1]uint32
		ok(s.Synchronize())
		ok(CopyTo(mem, got[:]))
		if got[0] != want {
			t.Errorf("%s: the cluster has %d blocks, want %d", what, got[0], want)
		}
	}
	cfg := func(blocks uint32, attrs ...LaunchAttribute) LaunchConfig {
		return LaunchConfig{Grid: Dim3{X: blocks}, Block: Dim3{X: 1}, Attributes: LaunchWith(attrs...)}
	}
	pairs := LaunchCluster(Dim3{X: 2})
	for name, attrs := range map[string][]LaunchAttribute{
		"clusters":     {pairs},
		"scheduling":   {pairs, LaunchClusterScheduling(ClusterSchedulingSpread)},
		"programmatic": {pairs, LaunchProgrammatic()},
		"priority": {pairs, LaunchPriority(-5), LaunchMemSyncDomain(MemSyncDomainRemote),
			LaunchMemSyncDomainMap(MemSyncDomainMap{1, 2})},
		"carve-out": {pairs, LaunchSharedMemCarveout(50)},
		"window": {pairs, LaunchAccessWindow(AccessWindow{Memory: mem, HitRatio: 1, Hit: AccessPersisting,
			Miss: AccessStreaming})},
		"NVLink": {pairs, LaunchNVLinkUtilization()},
	} {
		ok(size.Launch(s, cfg(8, attrs...), Ptr(mem)))
		saw(name, 2)
	}
	ok(size.Launch(s, cfg(8), Ptr(mem)))
	saw("no cluster", 1)
	both := cfg(8, LaunchCluster(Dim3{X: 4}))
	both.Flags = LaunchCooperative
	ok(size.Launch(s, both, Ptr(mem)))
	saw("cooperative", 4)
	if err := size.Launch(s, cfg(16, LaunchCluster(Dim3{X: 16})), Ptr(mem)); !errors.Is(err, ResultInvalidClusterSize) {
		t.Errorf("clusters of 16: %v", err)
	}

	g := Need(graph.Capture(s, graph.CaptureRelaxed, func() error { return size.Launch(s, cfg(8, pairs), Ptr(mem)) }))(t)
	x := Need(g.Instantiate())(t)
	ok(x.Launch(s))
	saw("captured", 2)
	ok(errors.Join(x.Close(), g.Close()))
	g = Need(graph.New(gpu))(t)
	n := Need(g.Add(&graph.Kernel{Function: size, Config: cfg(8, pairs, LaunchPriority(-1)), Args: []Arg{Ptr(mem)}}))(t)
	x = Need(g.Instantiate())(t)
	ok(x.Launch(s))
	saw("a node", 2)
	ok(n.Set(&graph.Kernel{Function: size, Config: cfg(9, LaunchCluster(Dim3{X: 3})), Args: []Arg{Ptr(mem)}}))
	y := Need(g.Instantiate())(t)
	ok(y.Launch(s))
	saw("a changed node", 3)
	large := LaunchConfig{Grid: Dim3{X: 1 << 20}, Block: Dim3{X: 1}}
	together := LaunchConfig{Grid: Dim3{X: 4}, Block: Dim3{X: 1}, Flags: LaunchCooperative}
	ok(errors.Join(n.Set(&graph.Kernel{Function: size, Config: large, Args: []Arg{Ptr(mem)}}), n.Set(&graph.Kernel{Function: size, Config: together, Args: []Arg{Ptr(mem)}}),
		n.Set(&graph.Kernel{Function: size, Config: large, Args: []Arg{Ptr(mem)}})))
	ok(errors.Join(x.Close(), y.Close(), g.Close()))

	t.Logf("active clusters of 2: %d", Need(size.MaxActiveClusters(cfg(8, pairs)))(t))
	if n := Need(size.MaxPotentialClusterSize(cfg(8)))(t); n < 8 {
		t.Errorf("clusters have at most %d blocks", n)
	}
	if n := Need(size.AvailableSharedMem(2, 128))(t); n == 0 {
		t.Error("no shared memory is left")
	}
	ok(size.Load())
	if !Need(size.Loaded())(t) {
		t.Error("the kernel is not loaded")
	}
	ok(errors.Join(mem.Close(), m.Close(), s.Close()))
}
