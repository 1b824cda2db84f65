package cu_test

import (
	"context"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/cu"
)

// What the examples use, as the documentation does: an open driver, a device,
// its primary context, two streams, three kernels, and 4 KiB of memory.
var (
	ctx      = context.Background()
	drv      *cu.Driver
	dev      *cu.Device
	gpu      *cu.Context
	s, other *cu.Stream
	spin     *cu.Function // keeps the GPU busy: U64 nanoseconds
	scale    *cu.Function // multiplies floats: Ptr to them, F32 factor, U64 number
	add      *cu.Function // adds floats: Ptr to the sums, Ptr, Ptr, U32 number
	x        *cu.DeviceMem
	host     *cu.HostMem
)

// ptx holds the kernels. The fake driver knows one with such parameters as
// scale's by the name axpy.
var ptx = []byte(`.version 6.0
.target sm_50
.address_size 64
.visible .global .align 8 .u64 counter;
.visible .entry spin(.param .u64 ns)
{
	.reg .u64 %limit, %begin, %now;
	.reg .pred %more;
	ld.param.u64 %limit, [ns];
	mov.u64 %begin, %globaltimer;
again:
	mov.u64 %now, %globaltimer;
	sub.u64 %now, %now, %begin;
	setp.lt.u64 %more, %now, %limit;
	@%more bra again;
	ret;
}
.visible .entry axpy(.param .u64 x, .param .f32 a, .param .u64 n)
{
	.reg .u64 %p, %n, %i;
	.reg .u32 %thread, %block, %size;
	.reg .f32 %a, %v;
	.reg .pred %out;
	ld.param.u64 %p, [x];
	ld.param.f32 %a, [a];
	ld.param.u64 %n, [n];
	mov.u32 %thread, %tid.x;
	mov.u32 %block, %ctaid.x;
	mov.u32 %size, %ntid.x;
	mad.lo.u32 %thread, %block, %size, %thread;
	cvt.u64.u32 %i, %thread;
	setp.ge.u64 %out, %i, %n;
	@%out ret;
	shl.b64 %i, %i, 2;
	add.u64 %p, %p, %i;
	ld.global.f32 %v, [%p];
	mul.f32 %v, %v, %a;
	st.global.f32 [%p], %v;
	ret;
}
.visible .entry add_f32(.param .u64 dst, .param .u64 x, .param .u64 y, .param .u32 n)
{
	.reg .u64 %to, %left, %right;
	.reg .u32 %i, %count;
	.reg .f32 %a, %b;
	.reg .pred %out;
	mov.u32 %i, %tid.x;
	ld.param.u32 %count, [n];
	setp.ge.u32 %out, %i, %count;
	@%out ret;
	ld.param.u64 %to, [dst];
	ld.param.u64 %left, [x];
	ld.param.u64 %right, [y];
	mad.wide.u32 %to, %i, 4, %to;
	mad.wide.u32 %left, %i, 4, %left;
	mad.wide.u32 %right, %i, 4, %right;
	ld.global.f32 %a, [%left];
	ld.global.f32 %b, [%right];
	add.f32 %a, %a, %b;
	st.global.f32 [%to], %a;
	ret;
}
`)

// program is an example that go test does not run, as it needs a device.
type program struct {
	run func()
	// prints is what it prints on the fake driver, whose records are a
	// millisecond apart, and which runs no kernels.
	prints string
	// never says why it does not run on a GPU.
	never string
	// devices is how many it needs, if more than one.
	devices int
}

var programs = map[string]program{
	"AllocFrom":                     {run: ExampleAllocFrom, prints: "[1 2 3]\n"},
	"Context_Alloc":                 {run: ExampleContext_Alloc, prints: "as good as new.\n"},
	"Context_AllocHost":             {run: ExampleContext_AllocHost, prints: "1048576 bytes are pinned\n"},
	"Context_Close":                 {run: ExampleContext_Close},
	"Context_Do":                    {run: ExampleContext_Do},
	"Context_EnablePeerAccess":      {run: ExampleContext_EnablePeerAccess, devices: 2},
	"Context_Err":                   {run: ExampleContext_Err},
	"Context_ID":                    {run: ExampleContext_ID, prints: "true\n"},
	"Context_LegacyStream":          {run: ExampleContext_LegacyStream, prints: "complete\n"},
	"Context_LoadModule":            {run: ExampleContext_LoadModule, prints: "spin\n"},
	"Context_LoadModuleFile":        {run: ExampleContext_LoadModuleFile},
	"Context_MemInfo":               {run: ExampleContext_MemInfo, prints: "8 of 16 GiB are free\n"},
	"Context_NewEvent":              {run: ExampleContext_NewEvent, prints: "EventDefault\nEventDisableTiming\n"},
	"Context_NewStream":             {run: ExampleContext_NewStream},
	"Context_NewStreamPriority":     {run: ExampleContext_NewStreamPriority, prints: "true true\n"},
	"Context_OpenIPCEvent":          {run: ExampleContext_OpenIPCEvent, prints: "ready\n", never: "it takes two processes: examples/two-processes is run"},
	"Context_PoolStream":            {run: ExampleContext_PoolStream, prints: "the kernel has run\n"},
	"Context_SetLimit":              {run: ExampleContext_SetLimit, prints: "a thread's stack has at least 4096 bytes: true\n"},
	"Context_Synchronize":           {run: ExampleContext_Synchronize, prints: "the GPU has done all work of this context\n"},
	"Context_WrapEvent":             {run: ExampleContext_WrapEvent},
	"Context_WrapStream":            {run: ExampleContext_WrapStream},
	"Device":                        {run: ExampleDevice, prints: "Fake GPU 0, compute capability 9.0\n"},
	"DeviceMem_Close":               {run: ExampleDeviceMem_Close, prints: "true\n"},
	"DeviceMem_CopyFrom":            {run: ExampleDeviceMem_CopyFrom},
	"DeviceMem_CopyTo":              {run: ExampleDeviceMem_CopyTo, prints: "[0 0 0 0]\n"},
	"DeviceMem_ReadAt":              {run: ExampleDeviceMem_ReadAt, prints: "[5 6 7 8]\n"},
	"DeviceMem_Span":                {run: ExampleDeviceMem_Span, prints: "[0 0 0 0] 1\ntrue\n"},
	"DeviceMem_WriteAt":             {run: ExampleDeviceMem_WriteAt, prints: "0 true\n"},
	"Device_Attribute":              {run: ExampleDevice_Attribute, prints: "16 multiprocessors\n"},
	"Device_Attributes":             {run: ExampleDevice_Attributes, prints: "warp_size = 10\nmax_threads_per_block = 1\n"},
	"Device_CanAccessPeer":          {run: ExampleDevice_CanAccessPeer, prints: "from 0 to 1: true\nfrom 0 to 2: true\n"},
	"Device_NewContext":             {run: ExampleDevice_NewContext, prints: "true\n"},
	"Device_P2PAttribute":           {run: ExampleDevice_P2PAttribute, prints: "performance rank of the link: 1\n", devices: 2},
	"Device_PrimaryContext":         {run: ExampleDevice_PrimaryContext, prints: "true\n"},
	"Device_PrimaryContextState":    {run: ExampleDevice_PrimaryContextState, prints: "somebody retains it; its flags are ContextDefault\n"},
	"Device_SetPrimaryContextFlags": {run: ExampleDevice_SetPrimaryContextFlags, never: "the flags would stay with the process"},
	"Device_UUID":                   {run: ExampleDevice_UUID, prints: "GPU-00102030-4050-6070-8090-a0b0c0d0e0f0\n"},
	"Driver":                        {run: ExampleDriver, prints: "the driver is for CUDA 12.8\n"},
	"Driver_CurrentContext":         {run: ExampleDriver_CurrentContext, prints: "true\n"},
	"Driver_Device":                 {run: ExampleDriver_Device, prints: "there are not so many\n"},
	"Driver_DeviceByPCIBusID":       {run: ExampleDriver_DeviceByPCIBusID, prints: "true\n"},
	"Grid1D":                        {run: ExampleGrid1D, prints: "4\n"},
	"NeedsRestart":                  {run: ExampleNeedsRestart},
	"Driver_Devices":                {run: ExampleDriver_Devices, prints: "0: Fake GPU 0, 16 GiB\n1: Fake GPU 1, 16 GiB\n2: Fake GPU 2, 16 GiB\n"},
	"Driver_Features":               {run: ExampleDriver_Features},
	"Driver_Proc":                   {run: ExampleDriver_Proc, prints: "this driver cannot do that\n"},
	"Driver_Symbols":                {run: ExampleDriver_Symbols, prints: "functions of CUDA 13.0 that the driver lacks: true\n"},
	"Driver_WrapContext":            {run: ExampleDriver_WrapContext},
	"Elapsed":                       {run: ExampleElapsed, prints: "1ms\n"},
	"EventKey":                      {run: ExampleEventKey, prints: "upload\n"},
	"EventPool":                     {run: ExampleEventPool, prints: "3 acquired, 1 created, 0 in use\n"},
	"EventPool_ByID":                {run: ExampleEventPool_ByID, prints: "true <nil> <nil>\ntrue\n"},
	"Event_Close":                   {run: ExampleEvent_Close, prints: "<nil> <nil>\ntrue\n"},
	"Event_IPCHandle":               {run: ExampleEvent_IPCHandle, prints: "140\n"},
	"Event_Move":                    {run: ExampleEvent_Move, prints: "true\n"},
	"Event_MoveTo":                  {run: ExampleEvent_MoveTo, prints: "true false\n"},
	"Event_Record":                  {run: ExampleEvent_Record, prints: "complete <nil>\n"},
	"Event_RecordOnce":              {run: ExampleEvent_RecordOnce},
	"Event_RecordWithFlags":         {run: ExampleEvent_RecordWithFlags, never: "nobody captures the stream"},
	"Event_Since":                   {run: ExampleEvent_Since, prints: "under a second: true\n"},
	"Event_Synchronize":             {run: ExampleEvent_Synchronize},
	"Event_Ticket":                  {run: ExampleEvent_Ticket, prints: "step 0 is done\nstep 1 is done\nstep 2 is done\n"},
	"Event_Wait":                    {run: ExampleEvent_Wait, prints: "done\n"},
	"Function_Attribute":            {run: ExampleFunction_Attribute, prints: "up to 1024 threads in a block\n"},
	"Function_Launch":               {run: ExampleFunction_Launch},
	"Function_MaxActiveBlocks":      {run: ExampleFunction_MaxActiveBlocks, prints: "a multiprocessor holds 8 blocks of 256 threads\n"},
	"Function_Params":               {run: ExampleFunction_Params, prints: "[8 4 8] true\ntrue\n"},
	"Function_Prepare":              {run: ExampleFunction_Prepare},
	"Function_SetAttribute":         {run: ExampleFunction_SetAttribute, prints: "launches may now have SharedMem: 65536\n"},
	"Function_SuggestBlockSize":     {run: ExampleFunction_SuggestBlockSize, prints: "blocks and threads that fill the GPU: true true\n"},
	"HostMem_ReadAt":                {run: ExampleHostMem_ReadAt, prints: "on\n"},
	"HostMem_View":                  {run: ExampleHostMem_View, prints: "ping\n"},
	"LaunchFlags":                   {run: ExampleLaunchFlags, prints: "blocks fit: true\n"},
	"LazyEvent":                     {run: ExampleLazyEvent, prints: "false -1\ntrue 0\n"},
	"Module_Function":               {run: ExampleModule_Function, prints: "true\n"},
	"Module_Global":                 {run: ExampleModule_Global, prints: "8 bytes\n"},
	"Module_Log":                    {run: ExampleModule_Log, prints: "true\n"},
	"Proc_Call":                     {run: ExampleProc_Call, prints: "12080\n"},
	"SpanOf":                        {run: ExampleSpanOf, prints: "[1 2 9 9]\n"},
	"Stream_Close":                  {run: ExampleStream_Close, prints: "<nil> <nil>\ntrue\n"},
	"Stream_Copy":                   {run: ExampleStream_Copy, prints: "hello\n"},
	"Stream_HostFunc":               {run: ExampleStream_HostFunc, prints: "kernel 0 has run\nkernel 1 has run\nkernel 2 has run\n"},
	"Stream_Memset":                 {run: ExampleStream_Memset},
	"Stream_Query":                  {run: ExampleStream_Query},
	"Stream_RecordNew":              {run: ExampleStream_RecordNew, prints: "done\n"},
	"Stream_Synchronize":            {run: ExampleStream_Synchronize, prints: "the kernel has run\n"},
	"Stream_Time":                   {run: ExampleStream_Time, prints: "1ms\n"},
	"Stream_WaitEvent":              {run: ExampleStream_WaitEvent},
	"Stream_WaitEventWithFlags":     {run: ExampleStream_WaitEventWithFlags, never: "nobody captures the stream"},
	"QueryAll":                      {run: ExampleQueryAll, prints: "all are complete\n"},
	"RecordAll":                     {run: ExampleRecordAll},
	"Stream_WaitEvents":             {run: ExampleStream_WaitEvents},
	"Stream_WaitStream":             {run: ExampleStream_WaitStream, prints: "both kernels have run\n"},
	"Thread_DefaultStream":          {run: ExampleThread_DefaultStream},
	"Stream_Wait":                   {run: ExampleStream_Wait, prints: "the stream is idle\n"},
	"Ticket_Done":                   {run: ExampleTicket_Done, prints: "the GPU is done: <nil>\n"},
	"Ticket_Notify":                 {run: ExampleTicket_Notify, prints: "done: <nil> <nil>\n"},
	"View":                          {run: ExampleView},
	"WaitAny":                       {run: ExampleWaitAny, prints: "one is done: true\nboth are done\n"},
	"Value_pointer":                 {run: ExampleValue_pointer, prints: "true\n"},
	"WithLeakHook":                  {run: ExampleWithLeakHook},
	"WithStream":                    {run: ExampleWithStream, prints: "true\n<nil>\n"},
	"_comingFromC":                  {run: Example_comingFromC, prints: "1ms\n"},
	"_comingFromCuPy":               {run: Example_comingFromCuPy, prints: "[-2.8735182e-16 -2.8735182e-16 -2.8735182e-16]\n"}, // as nothing wrote there
	"_comingFromCudaCore":           {run: Example_comingFromCudaCore, prints: "1ms\n"},
	"_comingFromGorgonia":           {run: Example_comingFromGorgonia},
	"_comingFromPyTorch":            {run: Example_comingFromPyTorch, prints: "1ms\n"},
}

// TestExamplesListed holds the table of programs to the examples that there
// are. The packages in this folder have no such table: all of their examples
// say what they print.
func TestExamplesListed(t *testing.T) {
	rest := maps.Clone(programs)
	const endless = "Timeline_Block_stopsItself" // TestStopsItself makes its calls
	for _, e := range examplesIn(t, "example_*test.go") {
		if e.Name == endless {
			continue
		}
		_, listed := rest[e.Name]
		if delete(rest, e.Name); listed == goRuns(e) {
			t.Errorf("Example%s: go test runs those that say what they print, the table programs has the others; listed: %v", e.Name, listed)
		}
	}
	for name := range rest {
		t.Errorf("the table programs lists Example%s, which does not exist", name)
	}

	below := examplesIn(t, "*/example_*test.go")
	if len(below) == 0 {
		t.Error("the packages in this folder have no examples")
	}
	for _, e := range below {
		if !goRuns(e) {
			t.Errorf("Example%s, in a folder below this one, does not say what it prints: go test does not run it", e.Name)
		}
	}
}

// examplesIn returns the examples of the files that match the pattern.
func examplesIn(t *testing.T, pattern string) []*doc.Example {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for fset := token.NewFileSet(); len(names) > 0; names = names[1:] {
		f, err := parser.ParseFile(fset, names[0], nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return doc.Examples(files...)
}

// goRuns says whether go test runs the example.
func goRuns(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput }

// TestExamples runs the examples that need a device on the fake driver, which
// lets nothing pass that NVIDIA's would not, and notices what is not closed.
func TestExamples(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		t.Run(name, func(t *testing.T) {
			p := programs[name]
			rig := NewRig(t)
			rig.Tell("fake_latency", 100_000)
			t.Setenv("CUDA_DRIVER_LIBRARY", rig.Path)
			t.Setenv("EVENT", ForeignHandle().String())
			prepare(t, rig.Driver)
			if got := printed(t, name, p.run); got != p.prints {
				t.Errorf("it printed %q, not %q", got, p.prints)
			}
		})
	}
}

// TestGPUExamples runs the examples on a real GPU: in a process of its own, as
// an example that fails ends it.
func TestGPUExamples(t *testing.T) {
	const inner = "PURECU_TEST_EXAMPLES"
	library := os.Getenv("PURECU_TEST_GPU")
	if library == "" {
		t.Skip("PURECU_TEST_GPU is not set: this needs a GPU")
	}
	if os.Getenv(inner) == "" {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inner+"=1")
		if library != "1" {
			cmd.Env = append(cmd.Env, "CUDA_DRIVER_LIBRARY="+library)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	d, err := cu.Open()
	if err != nil {
		t.Fatal(err)
	}
	n, err := d.DeviceCount()
	if err != nil {
		t.Fatal(err)
	}
	// The context stays from one example to the next: to make one takes longer than they do.
	dev, err := d.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		t.Fatal(err)
	}
	defer gpu.Close()
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		t.Run(name, func(t *testing.T) {
			p := programs[name]
			switch {
			case p.never != "":
				t.Skip(p.never)
			case n < p.devices:
				t.Skipf("it needs %d devices", p.devices)
			}
			prepare(t, d)
			t.Logf("it printed %q", printed(t, name, p.run))
		})
	}
}

// prepare sets what the examples use, and a folder that holds a kernel in a
// file.
func prepare(t *testing.T, d *cu.Driver) {
	t.Helper()
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir())
	fail(os.WriteFile("spin.ptx", ptx, 0o666))

	var err error
	drv = d
	dev, err = drv.Device(0)
	fail(err)
	gpu, err = dev.PrimaryContext()
	fail(err)
	t.Cleanup(func() { fail(gpu.Close()) })
	s, err = gpu.NewStream(cu.StreamNonBlocking)
	fail(err)
	t.Cleanup(func() { fail(s.Close()) })
	other, err = gpu.NewStream(cu.StreamNonBlocking)
	fail(err)
	t.Cleanup(func() { fail(other.Close()) })
	mod, err := gpu.LoadModule(ptx)
	fail(err)
	t.Cleanup(func() { fail(mod.Close()) })
	spin, err = mod.Function("spin")
	fail(err)
	scale, err = mod.Function("axpy")
	fail(err)
	add, err = mod.Function("add_f32")
	fail(err)
	x, err = gpu.Alloc(4096)
	fail(err)
	t.Cleanup(func() { fail(x.Close()) })
	host, err = gpu.AllocHost(4096, cu.HostDefault)
	fail(err)
	t.Cleanup(func() { fail(host.Close()) })
}

// printed runs an example and returns what it printed.
func printed(t *testing.T, name string, run func()) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stdout, prefix := os.Stdout, log.Prefix()
	os.Stdout = f
	log.SetPrefix("Example" + strings.TrimPrefix(name, "_") + ": ") // an example that fails ends the process
	defer func() {
		os.Stdout = stdout
		log.SetPrefix(prefix)
	}()
	run()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
