package cu_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
)

// inBlocks returns the configuration of a launch of blocks of one thread.
func inBlocks(n uint32, attrs ...LaunchAttribute) LaunchConfig {
	return LaunchConfig{Grid: Dim3{X: n}, Block: Dim3{X: 1}, Attributes: LaunchWith(attrs...)}
}

// TestLaunchAttributes launches kernels with attributes, and with wrong ones.
func TestLaunchAttributes(t *testing.T) {
	r := newSoft(t)
	mem := need(r.gpu.Alloc(4096))(t)
	defer mem.Close()
	window := AccessWindow{Memory: mem, HitRatio: 0.5, Hit: AccessPersisting, Miss: AccessStreaming}
	cluster := LaunchCluster(Dim3{X: 2})
	for name, attrs := range map[string][]LaunchAttribute{
		"none":           nil,
		"the zero value": {{}},
		"clusters": {cluster, LaunchPreferredCluster(Dim3{X: 4}),
			LaunchClusterScheduling(ClusterSchedulingLoadBalancing)},
		"programmatic": {LaunchProgrammatic()},
		"priority":     {LaunchPriority(-3)},
		"domains": {LaunchMemSyncDomain(MemSyncDomainRemote),
			LaunchMemSyncDomainMap(MemSyncDomainMap{Remote: 3})},
		"carve-out":            {LaunchSharedMemCarveout(50)},
		"a window":             {LaunchAccessWindow(window)},
		"no window":            {LaunchAccessWindow(AccessWindow{})},
		"NVLink":               {LaunchNVLinkUtilization()},
		"the last one counts":  {LaunchCluster(Dim3{X: 5}), cluster},
		"a window of a global": {LaunchAccessWindow(AccessWindow{Memory: mem.Span(8, 8)})},
	} {
		if err := r.spin.Launch(r.s, inBlocks(8, attrs...), U64(1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p, err := r.spin.Prepare(inBlocks(8, attrs...), U64(1))
		if err != nil {
			t.Errorf("%s, prepared: %v", name, err)
			continue
		}
		r.ok(p.Launch(r.s))
	}
	both := inBlocks(8, cluster)
	both.Flags = LaunchCooperative
	r.ok(r.spin.Launch(r.s, both, U64(1)))
	closed := need(r.gpu.Alloc(8))(t)
	r.ok(closed.Close())
	ofClosed := LaunchAccessWindow(AccessWindow{Memory: closed, HitRatio: 1})
	for name, c := range map[string]struct {
		cfg  LaunchConfig
		is   error
		want string
	}{
		"a grid of 3": {inBlocks(3, cluster), ResultInvalidClusterSize,
			"make each dimension of Grid a multiple"},
		"clusters of 16": {inBlocks(16, LaunchCluster(Dim3{X: 16})), ResultInvalidClusterSize,
			"FunctionAttributeNonPortableClusterSizeAllowed"},
		"clusters of 0": {inBlocks(16, LaunchCluster(Dim3{})), ResultInvalidClusterSize,
			"X must be at least 1"},
		"preferred alone": {inBlocks(16, LaunchPreferredCluster(Dim3{X: 2})), ResultInvalidClusterSize, ""},
		"scheduling": {inBlocks(16, LaunchClusterScheduling(3)), ResultInvalidValue,
			"cluster scheduling 3"},
		"priority": {inBlocks(16, LaunchPriority(1<<40)), ResultInvalidValue, "32 bits"},
		"domain":   {inBlocks(16, LaunchMemSyncDomain(2)), ResultInvalidValue, "domain 2"},
		"domain map": {inBlocks(16, LaunchMemSyncDomainMap(MemSyncDomainMap{4, 0})), ResultInvalidValue,
			""},
		"carve-out": {inBlocks(16, LaunchSharedMemCarveout(101)), ResultInvalidValue, "percentage"},
		"ratio": {inBlocks(16, LaunchAccessWindow(AccessWindow{mem, 1.5, 0, 0})), ResultInvalidValue,
			"HitRatio is 1.5"},
		"miss": {inBlocks(16, LaunchAccessWindow(AccessWindow{mem, 1, 0, AccessPersisting})),
			ResultInvalidValue, "Miss must be"},
		"hit": {inBlocks(16, LaunchAccessWindow(AccessWindow{mem, 1, 3, 0})), ResultInvalidValue,
			"access property 3"},
		"closed memory": {inBlocks(16, ofClosed), ErrClosed, ""},
		"nil memory":    {inBlocks(16, LaunchAccessWindow(AccessWindow{HitRatio: 1})), ErrNil, ""},
		"too large, cooperative": {LaunchConfig{Dim3{X: 1 << 20}, Dim3{X: 1}, 0, LaunchCooperative, LaunchWith()},
			ResultCooperativeLaunchTooLarge, "MaxActiveBlocks"},
	} {
		err := r.spin.Launch(r.s, c.cfg, U64(1))
		var e *Error
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || !errors.As(err, &e) ||
			e.Op != core.LaunchExOp {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.ok(r.s.Synchronize())
}

// TestLaunchAttributesOldDrivers launches with attributes that the driver is too old for.
func TestLaunchAttributesOldDrivers(t *testing.T) {
	r := newSoft(t, cusim.Version(12040))
	r.ok(r.spin.Launch(r.s, inBlocks(2, LaunchCluster(Dim3{X: 2})), U64(1)))
	err := r.spin.Launch(r.s, inBlocks(2, LaunchSharedMemCarveout(50)), U64(1))
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ResultNotSupported) || !strings.Contains(err.Error(),
		"LaunchSharedMemCarveout needs a driver for CUDA 12.5") {
		t.Errorf("an old driver: %v", err)
	}
	r = newSoft(t, cusim.Version(11040))
	if err := r.spin.Launch(r.s, inBlocks(2), U64(1)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a driver without cuLaunchKernelEx: %v", err)
	}
}

// TestLaunchAttributesAllocate launches a kernel with attributes, which allocates nothing.
func TestLaunchAttributesAllocate(t *testing.T) {
	r := newRig(t)
	noop := need(r.module(r.gpu).Function("noop"))(t)
	cfg := LaunchConfig{Grid: Dim3{X: 2}, Block: Dim3{X: 1}, Attributes: LaunchWith(LaunchCluster(Dim3{X: 2}))}
	r.ok(noop.Launch(r.s, cfg))
	exact := (ccall.Engine == "thunk" || ccall.Engine == "static") && !core.RaceEnabled
	if n := testing.AllocsPerRun(100, func() { r.ok(noop.Launch(r.s, cfg)) }); n != 0 && exact {
		t.Errorf("%v allocations", n)
	}
}

// TestClusterOccupancy asks how many clusters fit.
func TestClusterOccupancy(t *testing.T) {
	r := newSoft(t)
	cfg := LaunchConfig{Grid: Dim3{X: 64}, Block: Dim3{X: 1024}, Attributes: LaunchWith(LaunchCluster(Dim3{X: 8}))}
	if n := need(r.spin.MaxActiveClusters(cfg))(t); n != 30 {
		t.Errorf("%d clusters", n)
	}
	if n := need(r.spin.MaxPotentialClusterSize(cfg))(t); n != 8 {
		t.Errorf("clusters of %d blocks", n)
	}
	cfg.Attributes = LaunchWith(LaunchCluster(Dim3{X: 16}))
	_, err := r.spin.MaxActiveClusters(cfg)
	if !errors.Is(err, ResultInvalidClusterSize) || !strings.Contains(err.Error(), "NonPortable") ||
		!strings.Contains(err.Error(), "cuOccupancyMaxActiveClusters") {
		t.Errorf("clusters of 16: %v", err)
	}
	r.ok(r.spin.SetAttribute(FunctionAttributeNonPortableClusterSizeAllowed, 1))
	if n := need(r.spin.MaxActiveClusters(cfg))(t); n != 14 {
		t.Errorf("%d clusters", n)
	}
	cfg.Grid.X = 65
	_, err = r.spin.MaxActiveClusters(cfg)
	r.is(err, ResultInvalidClusterSize)
	if n := need(r.spin.AvailableSharedMem(4, 128))(t); n != 49152 {
		t.Errorf("%d bytes are left", n)
	}
	_, err = r.spin.AvailableSharedMem(4, 1024)
	if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "cannot run 4 blocks of 1024") {
		t.Errorf("too many blocks: %v", err)
	}
	_, err = r.spin.AvailableSharedMem(0, 1)
	r.is(err, ResultInvalidValue)
	r.ok(r.spin.Load())
	if !need(r.spin.Loaded())(t) {
		t.Error("the kernel is not loaded")
	}
	_, err = (*Function)(nil).MaxActiveClusters(cfg)
	r.is(err, ErrNil)
	_, err = r.spin.Attribute(-1)
	r.is(err, ResultInvalidValue)
	r.is(r.spin.SetAttribute(-1, 0), ResultInvalidValue)
}

// TestGraphNodeAttributes adds and changes kernel nodes with attributes.
func TestGraphNodeAttributes(t *testing.T) {
	r := newSoft(t)
	g := need(r.gpu.NewGraph())(t)
	pairs := inBlocks(4, LaunchCluster(Dim3{X: 2}), LaunchPriority(-2), LaunchMemSyncDomainMap(MemSyncDomainMap{1, 1}))
	n := need(g.Add(&KernelNode{Kernel: r.spin, Config: pairs, Args: []Arg{U64(1)}}))(t)
	attribute := func(id int32) driver.LaunchAttributeValue {
		v, res := core.Of(r.drv).Table().GraphKernelNodeGetAttribute(driver.At{}, RawNode(n), id)
		if res != driver.ResultSuccess {
			t.Errorf("attribute %d: %v", id, res)
		}
		return v
	}
	x := need(g.Instantiate())(t)
	r.ok(errors.Join(x.Launch(r.s), x.Set(n, &KernelNode{Kernel: r.spin, Config: pairs, Args: []Arg{U64(2)}})))
	r.ok(x.Set(n, &KernelNode{Kernel: r.spin, Config: LaunchConfig{Grid: Dim3{X: 8}, Block: Dim3{X: 1}}, Args: []Arg{U64(2)}}))
	r.is(x.Set(n, &KernelNode{Kernel: r.spin, Config: inBlocks(6, LaunchCluster(Dim3{X: 3})), Args: []Arg{U64(2)}}), ResultInvalidValue)

	// The new configuration contradicts the old attributes, and the new attributes the old configuration.
	r.ok(n.Set(&KernelNode{Kernel: r.spin, Config: inBlocks(9, LaunchCluster(Dim3{X: 3})), Args: []Arg{U64(1)}}))
	if c, p, m := attribute(driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION),
		attribute(driver.CU_LAUNCH_ATTRIBUTE_PRIORITY),
		attribute(driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP); c[0] != 3 || p[0] != 0 || m[0] != 0 || m[1] != 1 {
		t.Errorf("the cluster is %d, the priority %d, the map %d, %d", c[0], p[0], m[0], m[1])
	}
	large := LaunchConfig{Grid: Dim3{X: 1 << 20}, Block: Dim3{X: 1}}
	together := LaunchConfig{Grid: Dim3{X: 4}, Block: Dim3{X: 1}, Flags: LaunchCooperative}
	r.ok(errors.Join(n.Set(&KernelNode{Kernel: r.spin, Config: large, Args: []Arg{U64(1)}}), n.Set(&KernelNode{Kernel: r.spin, Config: together, Args: []Arg{U64(1)}}),
		n.Set(&KernelNode{Kernel: r.spin, Config: large, Args: []Arg{U64(1)}})))
	large.Flags = LaunchCooperative
	r.ok(n.Set(&KernelNode{Kernel: r.spin, Config: together, Args: []Arg{U64(1)}}))
	r.is(n.Set(&KernelNode{Kernel: r.spin, Config: large, Args: []Arg{U64(1)}}), ResultCooperativeLaunchTooLarge)
	if c := attribute(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE); c[0] != 1 {
		t.Error("the refused call has changed the node")
	}

	// An attribute is refused after the configuration was changed: then the node has none.
	err := n.Set(&KernelNode{Kernel: r.spin, Config: inBlocks(16, LaunchPriority(-1), LaunchCluster(Dim3{X: 16})), Args: []Arg{U64(1)}})
	if !errors.Is(err, ResultInvalidClusterSize) || !strings.Contains(err.Error(), "but no attributes") {
		t.Errorf("clusters of 16: %v", err)
	}
	if c, p := attribute(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE),
		attribute(driver.CU_LAUNCH_ATTRIBUTE_PRIORITY); c[0] != 0 || p[0] != 0 {
		t.Errorf("cooperative %d, priority %d", c[0], p[0])
	}
	for name, a := range map[string]LaunchAttribute{"LaunchProgrammatic": LaunchProgrammatic(),
		"LaunchPreferredCluster": LaunchPreferredCluster(Dim3{X: 2})} {
		_, err := g.Add(&KernelNode{Kernel: r.spin, Config: inBlocks(4, LaunchCluster(Dim3{X: 2}), a), Args: []Arg{U64(1)}})
		if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = g.Add(&KernelNode{Kernel: r.spin, Config: inBlocks(3, LaunchCluster(Dim3{X: 2})), Args: []Arg{U64(1)}})
	r.is(err, ResultInvalidClusterSize)
	_, err = g.Add(&KernelNode{Kernel: r.spin, Config: inBlocks(16, LaunchCluster(Dim3{X: 16})), Args: []Arg{U64(1)}})
	r.is(err, ResultInvalidClusterSize)
	if nodes := need(g.Nodes())(t); len(nodes) != 1 {
		t.Errorf("%d nodes", len(nodes))
	}
	y := need(g.Instantiate())(t)
	r.ok(errors.Join(y.Launch(r.s), r.s.Synchronize(), x.Close(), y.Close(), g.Close()))
}

// TestLaunchAttributesZero uses the zero value of the attributes, which stands for none.
func TestLaunchAttributesZero(t *testing.T) {
	r := newSoft(t)
	cfg := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}, Attributes: new(LaunchAttributes)}
	r.ok(r.spin.Launch(r.s, cfg, U64(1)))
	g := need(r.gpu.NewGraph())(t)
	n := need(g.Add(&KernelNode{Kernel: r.spin, Config: cfg, Args: []Arg{U64(1)}}))(t)
	r.ok(n.Set(&KernelNode{Kernel: r.spin, Config: cfg, Args: []Arg{U64(2)}}))
	cfg.Flags = LaunchCooperative
	r.ok(need(r.spin.Prepare(cfg, U64(1)))(t).Launch(r.s))
	cfg.Grid.X = 1 << 20
	r.is(r.spin.Launch(r.s, cfg, U64(1)), ResultCooperativeLaunchTooLarge)
	r.ok(r.s.Synchronize())
}

// TestGraphNodeAttributesFail makes the driver refuse attributes of a node. The node either keeps what it had, or
// has no attributes, as the error says.
func TestGraphNodeAttributesFail(t *testing.T) {
	r := newSoft(t)
	g := need(r.gpu.NewGraph())(t)
	old := inBlocks(4, LaunchPriority(-2), LaunchCluster(Dim3{X: 2}))
	n := need(g.Add(&KernelNode{Kernel: r.spin, Config: old, Args: []Arg{U64(1)}}))(t)
	const set = "cuGraphKernelNodeSetAttribute"
	r.sim.Inject(cusim.Fault{Function: set, Nth: 2, Code: int(ResultUnknown)}) // the priority was reset before
	r.is(n.Set(&KernelNode{Kernel: r.spin, Config: inBlocks(4), Args: []Arg{U64(2)}}), ResultUnknown)
	v, res := core.Of(r.drv).Table().GraphKernelNodeGetAttribute(driver.At{}, RawNode(n), driver.CU_LAUNCH_ATTRIBUTE_PRIORITY)
	if p := int32(binary.LittleEndian.Uint32(v[:])); res != driver.ResultSuccess || p != -2 {
		t.Errorf("the priority is %d, %v", p, res)
	}
	r.ok(g.Close())

	// The driver removes no node of a graph that allocates memory. So the node stays, and the graph keeps what it uses.
	g = need(r.gpu.NewGraph())(t)
	_, _, err := addAlloc(g, 64)
	r.ok(err)
	mod := need(r.gpu.LoadModule([]byte(".version 6.0\n.target sm_50\n.visible .entry use(.param .u64 p) { ret; }")))(t)
	use, mem := need(mod.Function("use"))(t), need(r.gpu.Alloc(64))(t)
	r.sim.Inject(cusim.Fault{Function: set, Code: int(ResultUnknown)})
	_, err = g.Add(&KernelNode{Kernel: use, Config: old, Args: []Arg{Ptr(mem)}})
	r.is(err, ResultUnknown)
	nodes := need(g.Nodes())(t)
	if !strings.Contains(err.Error(), "the node stays in the graph, without attributes") || len(nodes) != 2 {
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
	r.ok(errors.Join(mem.Close(), mod.Close(), r.gpu.Synchronize()))
	if n := r.sim.Census()["module"]; n != 2 || r.sim.Census()["device memory"] != 1 {
		t.Errorf("the graph has let go of what the node uses: %v", r.sim.Census())
	}
	r.ok(g.Close())
}
