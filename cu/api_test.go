package cu_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/green"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cu/library"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cu/trace"
	"github.com/purecu/purecu/internal/drivercall"
	. "github.com/purecu/purecu/internal/testrig"
)

// apiTypes holds a pointer to a zero value of each exported type.
var apiTypes = []any{
	new(AccessProperty), new(AccessWindow), new(graph.MemStats), new(SyncPolicy), new(ClusterScheduling),
	new(LaunchAttribute), new(LaunchAttributes),
	new(MemSyncDomain), new(MemSyncDomainMap), new(Arg), new(memory.AttachFlags), new(BatchError), new(BoxCopy), new(trace.CallTracer), new(graph.Condition), new(graph.EdgeKind), new(graph.Edge),
	new(library.Kernel), new(library.Library), new(library.Input), new(library.Linked), new(MemOp), new(MemCopy), new(memory.Move),
	new(graph.CaptureInfo), new(graph.CaptureMode),
	new(graph.CaptureStatus), new(Context), new(ContextFlags), new(Device), new(DeviceAttribute), new(DeviceMem),
	new(Dim3), new(Driver), new(Error), new(Event), new(EventFlags), new(EventKey), new(EventPool), new(interop.MemHandle), new(interop.MemType),
	new(ExternalOp), new(graph.ExternalOpParams), new(interop.Semaphore), new(interop.SemaphoreHandle),
	new(interop.SemaphoreType), new(Features),
	new(Function), new(FunctionAttribute), new(graph.Graph), new(graph.Exec), new(graph.Node), new(graph.NodeType),
	new(graph.UpdateError), new(graph.UpdateReason), new(graph.KernelParams), new(graph.MemOpParams),
	new(graph.Kernel), new(graph.Copy), new(graph.Box), new(graph.Memset), new(graph.Rect), new(graph.HostFunc), new(graph.Record),
	new(graph.Wait), new(graph.Child), new(graph.Alloc), new(graph.Free), new(graph.MemOps), new(graph.ExternalSignal), new(graph.ExternalWait),
	new(graph.If), new(graph.While), new(graph.Switch), new(graph.Empty), new(graph.Work), new(AnyEvent),
	new(green.Context), new(HostFlags), new(HostMem), new(IPCEventHandle), new(memory.IPCHandle), new(graph.InstantiateFlags),
	new(JITOption), new(graph.NodeUpdate),
	new(LaunchConfig), new(LaunchFlags), new(Leak), new(Limit), new(memory.ManagedInfo), new(memory.Access), new(memory.Advice),
	new(memory.Location),
	new(memory.LocationType), new(memory.Pool), new(memory.PoolKind), new(memory.PoolOptions), new(memory.PoolReuse), new(memory.PoolStats),
	new(Memory),
	new(memory.Type), new(MissingError), new(Module), new(Option), new(P2PAttribute), new(Planes), new(memory.PointerInfo),
	new(memory.Physical), new(memory.PhysicalOptions), new(memory.PoolHandle), new(PoolStats), new(Pooled), new(PreparedLaunch),
	new(Proc), new(Race), new(RecordFlags), new(Result), new(Rows), new(green.SMGroup), new(green.SMResource),
	new(Span), new(Stats),
	new(Status), new(Stream), new(StreamFlags), new(Symbol), new(Thread), new(Ticket), new(Timeline), new(trace.Operation),
	new(trace.Call), new(trace.Op), new(trace.Tracer), new(UUID), new(Version), new(memory.Virtual), new(WaitFlags), new(WaitFor),
	new(green.WorkQueues),
}

// apiFuncs are the exported functions, called with nil and zero arguments.
var apiFuncs = map[string]func(){
	"AllocFor":     func() { AllocFor[float32](nil, 1); AllocFor[any](nil, -1) },
	"AllocFrom":    func() { AllocFrom(nil, []float32{1}); AllocFrom(nil, []any{1}) },
	"AllocHostFor": func() { AllocHostFor[float32](nil, 1, 0); AllocHostFor[error](nil, 0, ^HostFlags(0)) },
	"CopyFrom":     func() { CopyFrom(nil, []float32{1}); CopyFrom(new(DeviceMem), []string{""}) },
	"CopyTo":       func() { CopyTo(nil, []float32{1}); CopyTo(new(DeviceMem), []int16{1}) },
	"Grid1D":       func() { _ = Grid1D(-1, -1) },
	"SpanOf": func() {
		SpanOf[float32](nil, 0, 0)
		SpanOf[any](new(DeviceMem), -1, -1)
		SpanOf[int8]((*HostMem)(nil), 0, 1)
	},
	"View":          func() { View[float32](nil, nil); View(new(HostMem), func([]any) error { return nil }) },
	"CurrentStream": func() { var none context.Context; CurrentStream(none); CurrentStream(context.Background()) },
	"Elapsed": func() {
		var none context.Context
		Elapsed(none, nil, nil)
		Elapsed(none, new(Event), new(Event))
		Elapsed(context.Background(), new(Event), new(Event))
	},
	"ConstPtr": func() { _ = ConstPtr(nil); _ = ConstPtr(new(DeviceMem)) },
	"F32":      func() { _ = F32(0) }, "F64": func() { _ = F64(0) },
	"I32": func() { _ = I32(0) }, "I64": func() { _ = I64(0) },
	"U32": func() { _ = U32(0) }, "U64": func() { _ = U64(0) },
	"JITDebugInfo": func() { _ = JITDebugInfo() }, "JITLineInfo": func() { _ = JITLineInfo() }, "JITVerbose": func() { _ = JITVerbose() },
	"JITMaxRegisters":      func() { _ = JITMaxRegisters(0) },
	"JITOptimizationLevel": func() { _ = JITOptimizationLevel(0) },
	"LaunchAccessWindow": func() {
		_ = LaunchWith(LaunchAccessWindow(AccessWindow{}), LaunchAccessWindow(AccessWindow{Memory: new(DeviceMem)}))
	},
	"LaunchCluster":           func() { _ = LaunchWith(LaunchCluster(Dim3{})) },
	"LaunchPreferredCluster":  func() { _ = LaunchWith(LaunchPreferredCluster(Dim3{X: 1 << 31, Y: 1 << 31})) },
	"LaunchClusterScheduling": func() { _ = LaunchWith(LaunchClusterScheduling(-1)) },
	"LaunchMemSyncDomain":     func() { _ = LaunchWith(LaunchMemSyncDomain(-1)) },
	"LaunchMemSyncDomainMap":  func() { _ = LaunchWith(LaunchMemSyncDomainMap(MemSyncDomainMap{})) },
	"LaunchNVLinkUtilization": func() { _ = LaunchNVLinkUtilization() },
	"LaunchPriority":          func() { _ = LaunchWith(LaunchPriority(-1 << 40)) },
	"LaunchProgrammatic":      func() { _ = LaunchProgrammatic() },
	"LaunchSharedMemCarveout": func() { _ = LaunchWith(LaunchSharedMemCarveout(101)) },
	"LaunchWith":              func() { _ = LaunchWith(); _ = LaunchWith(LaunchAttribute{}, LaunchAttribute{}) },
	"LazyEvent":               func() { LazyEvent().Close(); LazyEvent(^EventFlags(0)).Close() },
	"LibrarySymbols":          func() { LibrarySymbols(nil) },
	"Open":                    func() { Open(nil, WithLibrary("/nonexistent"), WithSoftware(nil), WithLeakHook(nil)) },
	"NeedsRestart":            func() { NeedsRestart(nil); NeedsRestart((*Error)(nil)) },
	"Ptr":                     func() { Ptr(nil); Ptr(new(DeviceMem)); Ptr((*DeviceMem)(nil)); Ptr((*HostMem)(nil)); Ptr(Span{}) },
	"Remedy":                  func() { Remedy(-1 << 31); Remedy(1 << 30) },
	"QueryAll":                func() { QueryAll[*Event](nil, nil); QueryAll(make([]Status, 2), []*Event{nil, new(Event)}) },
	"RecordAll":               func() { RecordAll(nil, nil); RecordAll([]*Event{nil, new(Event)}, make([]*Stream, 2)) },
	"Value":                   func() { Value[any](nil); Value[error](nil); Value[*int](nil); Value([0]int32{}) },
	"WaitAll": func() {
		var none context.Context
		WaitAll[Pooled](none)
		WaitAll(context.Background(), nil, new(Event))
	},
	"WaitAny": func() {
		var none context.Context
		WaitAny[Pooled](none)
		WaitAny[AnyEvent](context.Background())
		WaitAny(context.Background(), nil, new(Event))
	},
	"OpenContext":    func() { var none context.Context; OpenContext(none); OpenContext(none, nil) },
	"WithMinVersion": func() { WithMinVersion(-1, -1)(new(Options)) },
	"WithLeakHook":   func() { WithLeakHook(nil)(new(Options)) },
	"WithLibrary":    func() { WithLibrary("")(new(Options)) },
	"WithStream":     func() { var none context.Context; WithStream(none, nil) },
	"WaitWord32":     func() { _ = WaitWord32(nil, 1, 99); _ = WaitWord32(new(DeviceMem), 1, 0) },
	"WaitWord64":     func() { _ = WaitWord64(nil, 1, 99); _ = WaitWord64(Span{}, 1, 0) },
	"WriteWord32":    func() { _ = WriteWord32(nil, 1); _ = WriteWord32((*HostMem)(nil), 1) },
	"WriteWord64":    func() { _ = WriteWord64(nil, 1); _ = WriteWord64(new(HostMem), 1) },
	"WithSoftware":   func() { WithSoftware(nil)(new(Options)) },
}

// subjects are the packages whose API the tests here call, besides cu.
var subjects = []string{"graph", "green", "interop", "library", "memory", "trace"}

// subjectFuncs are the exported functions of the packages of subjects. Each is about its first argument.
var subjectFuncs = map[string]any{
	"graph.Capture":               graph.Capture,
	"graph.CaptureInfoOf":         graph.CaptureInfoOf,
	"graph.MemStatsOf":            graph.MemStatsOf,
	"graph.New":                   graph.New,
	"graph.ResetMemHigh":          graph.ResetMemHigh,
	"graph.TrimMem":               graph.TrimMem,
	"green.DeviceQueues":          green.DeviceQueues,
	"green.DeviceSMs":             green.DeviceSMs,
	"green.New":                   green.New,
	"green.NewWithQueues":         green.NewWithQueues,
	"green.StreamSMs":             green.StreamSMs,
	"interop.ImportMem":           interop.ImportMem,
	"interop.ImportSemaphore":     interop.ImportSemaphore,
	"interop.NewEventFromEGLSync": interop.NewEventFromEGLSync,
	"interop.Signal":              interop.Signal,
	"interop.Wait":                interop.Wait,
	"library.Link":                library.Link,
	"library.Load":                library.Load,
	"library.LoadFile":            library.LoadFile,
	"memory.AddressRange":         memory.AddressRange,
	"memory.Advise":               memory.Advise,
	"memory.AllocManaged":         memory.AllocManaged,
	"memory.Attach":               memory.Attach,
	"memory.CurrentPool":          memory.CurrentPool,
	"memory.DefaultPool":          memory.DefaultPool,
	"memory.Discard":              memory.Discard,
	"memory.DiscardAndPrefetch":   memory.DiscardAndPrefetch,
	"memory.Granularity":          memory.Granularity,
	"memory.IPCHandleOf":          memory.IPCHandleOf,
	"memory.ImportPhysical":       memory.ImportPhysical,
	"memory.ImportPool":           memory.ImportPool,
	"memory.LocationOf":           memory.LocationOf,
	"memory.ManagedInfoOf":        memory.ManagedInfoOf,
	"memory.NewPhysical":          memory.NewPhysical,
	"memory.NewPool":              memory.NewPool,
	"memory.OpenIPC":              memory.OpenIPC,
	"memory.PointerInfoOf":        memory.PointerInfoOf,
	"memory.PoolHandleOf":         memory.PoolHandleOf,
	"memory.Prefetch":             memory.Prefetch,
	"memory.PrefetchAll":          memory.PrefetchAll,
	"memory.Reserve":              memory.Reserve,
	"memory.SetPool":              memory.SetPool,
	"memory.Wrap":                 memory.Wrap,
	"trace.Add":                   trace.Add,
	"trace.AddCalls":              trace.AddCalls,
}

// TestAPIListed compares apiTypes, apiFuncs and subjectFuncs with the source of the packages.
func TestAPIListed(t *testing.T) {
	files := Need(filepath.Glob("*.go"))(t)
	if len(files) == 0 {
		t.Skip("the source is not here")
	}
	for _, dir := range subjects {
		files = append(files, Need(filepath.Glob(dir+"/*.go"))(t)...)
	}
	var want []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f := Need(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		prefix := strings.TrimPrefix(f.Name.Name+".", "cu.")
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil && decl.Name.IsExported() {
					want = append(want, prefix+decl.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.IsExported() {
						want = append(want, prefix+spec.Name.Name)
					}
				}
			}
		}
	}
	slices.Sort(want)
	got := slices.AppendSeq(slices.Collect(maps.Keys(apiFuncs)), maps.Keys(subjectFuncs))
	for _, p := range apiTypes {
		typ := reflect.TypeOf(p).Elem()
		name := typ.Name() // also if cu has an alias only
		if pkg := path.Base(typ.PkgPath()); slices.Contains(subjects, pkg) {
			name = pkg + "." + name
		}
		got = append(got, name)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exported types and functions (-source +listed):\n%s", diff)
	}
}

// unnamed are the methods, or the beginnings of their names, whose errors name no object, because they have none
// or it is the method's argument.
var unnamed = []string{"Driver.", "library.Load", "IPCEventHandle.Unmarshal", "Event.Block", "Device.RetainPrimaryContext"}

// TestNothingPanics calls every method of every exported type on nil, on the
// zero value and on a good object, with nil, with zero values and with good
// objects for arguments.
func TestNothingPanics(t *testing.T) {
	r := newRig(t)
	try := func(what string, do func()) {
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("%s: panic: %v", what, p)
			}
		}()
		do()
	}
	// Each makes an object anew, as methods close theirs.
	good := []func() any{
		func() any { return r.drv },
		func() any { return r.gpu.Device() },
		func() any { return Need(r.gpu.Device().PrimaryContext())(t) },
		func() any { return r.stream(r.gpu) },
		func() any { return r.event(r.gpu, 0) },
		func() any { return r.memory(r.gpu, 8) },
		func() any { return Need(r.gpu.AllocHost(8, 0))(t) },
		func() any { return r.module(r.gpu) },
		func() any { return Need(r.module(r.gpu).Function("noop"))(t) },
		func() any {
			e := r.event(r.gpu, 0)
			r.ok(e.Record(r.s))
			return Need(e.Ticket())(t)
		},
		func() any { return r.event(r.gpu, EventInterprocess|EventDisableTiming) },
		func() any { h := ForeignHandle(); return &h },
		func() any { return Need(r.gpu.EventPool())(t) },
		func() any {
			pool := Need(r.gpu.EventPool())(t)
			t.Cleanup(func() { pool.Close() })
			e := Need(pool.Acquire())(t)
			t.Cleanup(func() { e.Release() })
			return &e
		},
	}
	// Graphs are another driver's.
	soft := NewSoft(t)
	good = append(good,
		func() any { return soft.Graph(func() error { return soft.Work(soft.S) }) },
		func() any { return soft.Exec(soft.Graph(func() error { return soft.Work(soft.S) })) },
		func() any { return newTimeline(soft, 0) },
		func() any { return Need(memory.DefaultPool(soft.GPU))(t) },
		func() any { return LaunchWith(LaunchCluster(Dim3{X: 2})) },
		func() any { return Need(memory.NewPhysical(soft.GPU, 1<<21, memory.PhysicalOptions{}))(t) },
		func() any { return Need(memory.Reserve(soft.GPU, 1<<21))(t) })
	goodOf := func(typ reflect.Type) func() any {
		i := slices.IndexFunc(good, func(f func() any) bool { return reflect.TypeOf(f()) == typ })
		if i < 0 {
			return nil
		}
		return good[i]
	}
	// argsOf returns arguments for a function after the first, its receiver.
	argsOf := func(fn reflect.Type, receiver reflect.Value, with string) []reflect.Value {
		args := []reflect.Value{receiver}
		for j := 1; j < fn.NumIn(); j++ {
			in := fn.In(j)
			switch {
			case in == reflect.TypeFor[context.Context]() && with != "nil":
				args = append(args, reflect.ValueOf(t.Context()))
			case fn.IsVariadic() && j == fn.NumIn()-1:
				if with != "nil" {
					args = append(args, reflect.Zero(in.Elem()))
				}
			case in == reflect.TypeFor[Memory]() && with != "nil":
				args = append(args, reflect.ValueOf(r.memory(r.gpu, 8)))
			case in.Kind() == reflect.Func && with != "nil":
				args = append(args, reflect.MakeFunc(in, func([]reflect.Value) (results []reflect.Value) {
					for k := range in.NumOut() {
						results = append(results, reflect.Zero(in.Out(k)))
					}
					return results
				}))
			case in.Kind() == reflect.Pointer && with == "good":
				args = append(args, reflect.ValueOf(goodOf(in)()))
			case in.Kind() == reflect.Pointer && with == "zero":
				args = append(args, reflect.New(in.Elem()))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		return args
	}
	// call calls a function with arguments of each kind.
	call := func(name string, fn reflect.Value, kind string, receiver func() reflect.Value) {
		called := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		for _, with := range []string{"nil", "zero", "good"} {
			args := argsOf(fn.Type(), receiver(), with)
			try(kind+" "+name+" with "+with, func() {
				for _, result := range fn.Call(args) {
					if c, ok := result.Interface().(io.Closer); ok && !result.IsNil() {
						t.Cleanup(func() { c.Close() })
					}
					err, ok := result.Interface().(error)
					switch e, _ := err.(*Error); {
					case ok && err.Error() == "":
						t.Error("an error says nothing")
					case e != nil && kind == "good" && e.Handle == 0 && e.Object == "" &&
						!errors.Is(err, errors.ErrUnsupported) && !slices.ContainsFunc(unnamed, called):
						t.Errorf("%s with %s names no object: %v", name, with, err)
					}
				}
			})
		}
	}
	receiversOf := func(typ reflect.Type) map[string]func() reflect.Value {
		receivers := map[string]func() reflect.Value{
			"zero": func() reflect.Value { return reflect.New(typ) },
			"nil":  func() reflect.Value { return reflect.Zero(reflect.PointerTo(typ)) },
		}
		if f := goodOf(reflect.PointerTo(typ)); f != nil {
			receivers["good"] = func() reflect.Value { return reflect.ValueOf(f()) }
		}
		return receivers
	}
	for _, p := range apiTypes {
		typ := reflect.TypeOf(p).Elem()
		for kind, receiver := range receiversOf(typ) {
			for i := range reflect.PointerTo(typ).NumMethod() {
				method := reflect.PointerTo(typ).Method(i)
				if _, byValue := typ.MethodByName(method.Name); byValue && kind == "nil" {
					continue // there is no value to call it on, and the language panics
				}
				call(typ.Name()+"."+method.Name, method.Func, kind, receiver)
			}
		}
	}
	for name, f := range subjectFuncs {
		fn := reflect.ValueOf(f)
		for kind, receiver := range receiversOf(fn.Type().In(0).Elem()) {
			call(name, fn, kind, receiver)
		}
	}
	for name, call := range apiFuncs {
		try(name, call)
	}
	e, s := r.event(r.gpu, 0), r.stream(r.gpu)
	noop := Need(r.module(r.gpu).Function("noop"))(t)
	for name, err := range map[string]error{
		"record on a zero Stream":   e.Record(new(Stream)),
		"launch on a zero Stream":   noop.Launch(new(Stream), LaunchConfig{}),
		"launch with a zero memory": noop.Launch(s, LaunchConfig{Grid: Dim3{X: 1}, Block: Dim3{X: 1}}, Ptr(new(DeviceMem))),
	} {
		if !errors.Is(err, ErrNil) && !errors.Is(err, drivercall.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
