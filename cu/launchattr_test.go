package cu_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/ccall"
	"github.com/purecu/purecu/internal/core"
	. "github.com/purecu/purecu/internal/testrig"
)

// inBlocks returns the configuration of a launch of blocks of one thread.
func inBlocks(n uint32, attrs ...LaunchAttribute) LaunchConfig {
	return LaunchConfig{Grid: Dim3{X: n}, Block: Dim3{X: 1}, Attributes: LaunchWith(attrs...)}
}

// TestLaunchAttributes launches kernels with attributes, and with wrong ones.
func TestLaunchAttributes(t *testing.T) {
	r := NewSoft(t)
	mem := Need(r.GPU.Alloc(4096))(t)
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
		if err := r.Spin.Launch(r.S, inBlocks(8, attrs...), U64(1)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p, err := r.Spin.Prepare(inBlocks(8, attrs...), U64(1))
		if err != nil {
			t.Errorf("%s, prepared: %v", name, err)
			continue
		}
		r.OK(p.Launch(r.S))
	}
	both := inBlocks(8, cluster)
	both.Flags = LaunchCooperative
	r.OK(r.Spin.Launch(r.S, both, U64(1)))
	closed := Need(r.GPU.Alloc(8))(t)
	r.OK(closed.Close())
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
		err := r.Spin.Launch(r.S, c.cfg, U64(1))
		var e *Error
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || !errors.As(err, &e) ||
			e.Op != core.LaunchExOp {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.OK(r.S.Synchronize())
}

// TestLaunchAttributesOldDrivers launches with attributes that the driver is too old for.
func TestLaunchAttributesOldDrivers(t *testing.T) {
	r := NewSoft(t, cusim.Version(12040))
	r.OK(r.Spin.Launch(r.S, inBlocks(2, LaunchCluster(Dim3{X: 2})), U64(1)))
	err := r.Spin.Launch(r.S, inBlocks(2, LaunchSharedMemCarveout(50)), U64(1))
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, ResultNotSupported) || !strings.Contains(err.Error(),
		"LaunchSharedMemCarveout needs a driver for CUDA 12.5") {
		t.Errorf("an old driver: %v", err)
	}
	r = NewSoft(t, cusim.Version(11040))
	if err := r.Spin.Launch(r.S, inBlocks(2), U64(1)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a driver without cuLaunchKernelEx: %v", err)
	}
}

// TestLaunchAttributesAllocate launches a kernel with attributes, which allocates nothing.
func TestLaunchAttributesAllocate(t *testing.T) {
	r := newRig(t)
	noop := Need(r.module(r.gpu).Function("noop"))(t)
	cfg := LaunchConfig{Grid: Dim3{X: 2}, Block: Dim3{X: 1}, Attributes: LaunchWith(LaunchCluster(Dim3{X: 2}))}
	r.ok(noop.Launch(r.s, cfg))
	exact := (ccall.Engine == "thunk" || ccall.Engine == "static") && !core.RaceEnabled
	if n := testing.AllocsPerRun(100, func() { r.ok(noop.Launch(r.s, cfg)) }); n != 0 && exact {
		t.Errorf("%v allocations", n)
	}
}

// TestClusterOccupancy asks how many clusters fit.
func TestClusterOccupancy(t *testing.T) {
	r := NewSoft(t)
	cfg := LaunchConfig{Grid: Dim3{X: 64}, Block: Dim3{X: 1024}, Attributes: LaunchWith(LaunchCluster(Dim3{X: 8}))}
	if n := Need(r.Spin.MaxActiveClusters(cfg))(t); n != 30 {
		t.Errorf("%d clusters", n)
	}
	if n := Need(r.Spin.MaxPotentialClusterSize(cfg))(t); n != 8 {
		t.Errorf("clusters of %d blocks", n)
	}
	cfg.Attributes = LaunchWith(LaunchCluster(Dim3{X: 16}))
	_, err := r.Spin.MaxActiveClusters(cfg)
	if !errors.Is(err, ResultInvalidClusterSize) || !strings.Contains(err.Error(), "NonPortable") ||
		!strings.Contains(err.Error(), "cuOccupancyMaxActiveClusters") {
		t.Errorf("clusters of 16: %v", err)
	}
	r.OK(r.Spin.SetAttribute(FunctionAttributeNonPortableClusterSizeAllowed, 1))
	if n := Need(r.Spin.MaxActiveClusters(cfg))(t); n != 14 {
		t.Errorf("%d clusters", n)
	}
	cfg.Grid.X = 65
	_, err = r.Spin.MaxActiveClusters(cfg)
	r.Is(err, ResultInvalidClusterSize)
	if n := Need(r.Spin.AvailableSharedMem(4, 128))(t); n != 49152 {
		t.Errorf("%d bytes are left", n)
	}
	_, err = r.Spin.AvailableSharedMem(4, 1024)
	if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), "cannot run 4 blocks of 1024") {
		t.Errorf("too many blocks: %v", err)
	}
	_, err = r.Spin.AvailableSharedMem(0, 1)
	r.Is(err, ResultInvalidValue)
	r.OK(r.Spin.Load())
	if !Need(r.Spin.Loaded())(t) {
		t.Error("the kernel is not loaded")
	}
	_, err = (*Function)(nil).MaxActiveClusters(cfg)
	r.Is(err, ErrNil)
	_, err = r.Spin.Attribute(-1)
	r.Is(err, ResultInvalidValue)
	r.Is(r.Spin.SetAttribute(-1, 0), ResultInvalidValue)
}

// TestGraphNodeAttributes adds and changes kernel nodes with attributes.
func TestGraphNodeAttributes(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	pairs := inBlocks(4, LaunchCluster(Dim3{X: 2}), LaunchPriority(-2), LaunchMemSyncDomainMap(MemSyncDomainMap{1, 1}))
	n := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: pairs, Args: []Arg{U64(1)}}))(t)
	attribute := func(id int32) driver.LaunchAttributeValue {
		v, res := core.Of(r.Drv).Table().GraphKernelNodeGetAttribute(driver.At{}, RawNode(r.Drv, n), id)
		if res != driver.ResultSuccess {
			t.Errorf("attribute %d: %v", id, res)
		}
		return v
	}
	x := Need(g.Instantiate())(t)
	r.OK(errors.Join(x.Launch(r.S), x.Set(n, &graph.Kernel{Function: r.Spin, Config: pairs, Args: []Arg{U64(2)}})))
	r.OK(x.Set(n, &graph.Kernel{Function: r.Spin, Config: LaunchConfig{Grid: Dim3{X: 8}, Block: Dim3{X: 1}}, Args: []Arg{U64(2)}}))
	r.Is(x.Set(n, &graph.Kernel{Function: r.Spin, Config: inBlocks(6, LaunchCluster(Dim3{X: 3})), Args: []Arg{U64(2)}}), ResultInvalidValue)

	// The new configuration contradicts the old attributes, and the new attributes the old configuration.
	r.OK(n.Set(&graph.Kernel{Function: r.Spin, Config: inBlocks(9, LaunchCluster(Dim3{X: 3})), Args: []Arg{U64(1)}}))
	if c, p, m := attribute(driver.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION),
		attribute(driver.CU_LAUNCH_ATTRIBUTE_PRIORITY),
		attribute(driver.CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP); c[0] != 3 || p[0] != 0 || m[0] != 0 || m[1] != 1 {
		t.Errorf("the cluster is %d, the priority %d, the map %d, %d", c[0], p[0], m[0], m[1])
	}
	large := LaunchConfig{Grid: Dim3{X: 1 << 20}, Block: Dim3{X: 1}}
	together := LaunchConfig{Grid: Dim3{X: 4}, Block: Dim3{X: 1}, Flags: LaunchCooperative}
	r.OK(errors.Join(n.Set(&graph.Kernel{Function: r.Spin, Config: large, Args: []Arg{U64(1)}}), n.Set(&graph.Kernel{Function: r.Spin, Config: together, Args: []Arg{U64(1)}}),
		n.Set(&graph.Kernel{Function: r.Spin, Config: large, Args: []Arg{U64(1)}})))
	large.Flags = LaunchCooperative
	r.OK(n.Set(&graph.Kernel{Function: r.Spin, Config: together, Args: []Arg{U64(1)}}))
	r.Is(n.Set(&graph.Kernel{Function: r.Spin, Config: large, Args: []Arg{U64(1)}}), ResultCooperativeLaunchTooLarge)
	if c := attribute(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE); c[0] != 1 {
		t.Error("the refused call has changed the node")
	}

	// An attribute is refused after the configuration was changed: then the node has none.
	err := n.Set(&graph.Kernel{Function: r.Spin, Config: inBlocks(16, LaunchPriority(-1), LaunchCluster(Dim3{X: 16})), Args: []Arg{U64(1)}})
	if !errors.Is(err, ResultInvalidClusterSize) || !strings.Contains(err.Error(), "but no attributes") {
		t.Errorf("clusters of 16: %v", err)
	}
	if c, p := attribute(driver.CU_LAUNCH_ATTRIBUTE_COOPERATIVE),
		attribute(driver.CU_LAUNCH_ATTRIBUTE_PRIORITY); c[0] != 0 || p[0] != 0 {
		t.Errorf("cooperative %d, priority %d", c[0], p[0])
	}
	for name, a := range map[string]LaunchAttribute{"LaunchProgrammatic": LaunchProgrammatic(),
		"LaunchPreferredCluster": LaunchPreferredCluster(Dim3{X: 2})} {
		_, err := g.Add(&graph.Kernel{Function: r.Spin, Config: inBlocks(4, LaunchCluster(Dim3{X: 2}), a), Args: []Arg{U64(1)}})
		if !errors.Is(err, ResultInvalidValue) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = g.Add(&graph.Kernel{Function: r.Spin, Config: inBlocks(3, LaunchCluster(Dim3{X: 2})), Args: []Arg{U64(1)}})
	r.Is(err, ResultInvalidClusterSize)
	_, err = g.Add(&graph.Kernel{Function: r.Spin, Config: inBlocks(16, LaunchCluster(Dim3{X: 16})), Args: []Arg{U64(1)}})
	r.Is(err, ResultInvalidClusterSize)
	if nodes := Need(g.Nodes())(t); len(nodes) != 1 {
		t.Errorf("%d nodes", len(nodes))
	}
	y := Need(g.Instantiate())(t)
	r.OK(errors.Join(y.Launch(r.S), r.S.Synchronize(), x.Close(), y.Close(), g.Close()))
}

// TestLaunchAttributesZero uses the zero value of the attributes, which stands for none.
func TestLaunchAttributesZero(t *testing.T) {
	r := NewSoft(t)
	cfg := LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}, Attributes: new(LaunchAttributes)}
	r.OK(r.Spin.Launch(r.S, cfg, U64(1)))
	g := Need(graph.New(r.GPU))(t)
	n := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: cfg, Args: []Arg{U64(1)}}))(t)
	r.OK(n.Set(&graph.Kernel{Function: r.Spin, Config: cfg, Args: []Arg{U64(2)}}))
	cfg.Flags = LaunchCooperative
	r.OK(Need(r.Spin.Prepare(cfg, U64(1)))(t).Launch(r.S))
	cfg.Grid.X = 1 << 20
	r.Is(r.Spin.Launch(r.S, cfg, U64(1)), ResultCooperativeLaunchTooLarge)
	r.OK(r.S.Synchronize())
}

// TestGraphNodeAttributesFail makes the driver refuse attributes of a node. The node either keeps what it had, or
// has no attributes, as the error says.
func TestGraphNodeAttributesFail(t *testing.T) {
	r := NewSoft(t)
	g := Need(graph.New(r.GPU))(t)
	old := inBlocks(4, LaunchPriority(-2), LaunchCluster(Dim3{X: 2}))
	n := Need(g.Add(&graph.Kernel{Function: r.Spin, Config: old, Args: []Arg{U64(1)}}))(t)
	const set = "cuGraphKernelNodeSetAttribute"
	r.Sim.Inject(cusim.Fault{Function: set, Nth: 2, Code: int(ResultUnknown)}) // the priority was reset before
	r.Is(n.Set(&graph.Kernel{Function: r.Spin, Config: inBlocks(4), Args: []Arg{U64(2)}}), ResultUnknown)
	v, res := core.Of(r.Drv).Table().GraphKernelNodeGetAttribute(driver.At{}, RawNode(r.Drv, n), driver.CU_LAUNCH_ATTRIBUTE_PRIORITY)
	if p := int32(binary.LittleEndian.Uint32(v[:])); res != driver.ResultSuccess || p != -2 {
		t.Errorf("the priority is %d, %v", p, res)
	}
	r.OK(g.Close())

	// The driver removes no node of a graph that allocates memory. So the node stays, and the graph keeps what it uses.
	g = Need(graph.New(r.GPU))(t)
	_, _, err := AddAlloc(g, 64)
	r.OK(err)
	mod := Need(r.GPU.LoadModule([]byte(".version 6.0\n.target sm_50\n.visible .entry use(.param .u64 p) { ret; }")))(t)
	use, mem := Need(mod.Function("use"))(t), Need(r.GPU.Alloc(64))(t)
	r.Sim.Inject(cusim.Fault{Function: set, Code: int(ResultUnknown)})
	_, err = g.Add(&graph.Kernel{Function: use, Config: old, Args: []Arg{Ptr(mem)}})
	r.Is(err, ResultUnknown)
	nodes := Need(g.Nodes())(t)
	if !strings.Contains(err.Error(), "the node stays in the graph, without attributes") || len(nodes) != 2 {
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
	r.OK(errors.Join(mem.Close(), mod.Close(), r.GPU.Synchronize()))
	if n := r.Sim.Census()["module"]; n != 2 || r.Sim.Census()["device memory"] != 1 {
		t.Errorf("the graph has let go of what the node uses: %v", r.Sim.Census())
	}
	r.OK(g.Close())
}
