package fuzz

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

// This file makes random calls of functions about callTopics, without held streams. Unlike a program,
// such a sequence has no model: two drivers have to give the same answers, and the same contents of
// memory. After each call all work is waited for. The handles are valid, and the numbers need not be.

// callCount is the number of calls of a sequence.
const callCount = 60

// caller is a driver with the handles of a sequence. The callers of two drivers choose the same calls,
// as long as their answers are the same.
type caller struct {
	*driver.Table
	name       string
	topics     []callTopic
	soft       *cusim.Driver
	virtual    bool
	loud       bool // write calls to the standard error output before they are made
	at         driver.At
	ctx        driver.Context
	module     driver.Module
	conditions driver.Module // the kernels that set conditions
	fns        []driver.Function
	setc       driver.Function  // of condPTX
	own        []byte           // the program's own memory, aligned to pages
	signal     driver.DevicePtr // words that nothing changes
	count      driver.Callback  // adds 1 to calls
	calls      *atomic.Int64    // of this sequence
	quiet      driver.Callback  // does nothing
	dir        string           // of files with images
	poison     driver.Result    // of all work, after the last call

	*rand.Rand                 // of the current call
	log        strings.Builder // the calls of the sequence
	ops        []int32         // the kinds of the memory operations that were made last
	handles
}

// handles are what the calls of a sequence have created.
type handles struct {
	blocks    []block
	pools     []driver.MemoryPool
	streams   []driver.Stream
	graphs    []callGraph
	execs     []callExec
	ranges    []callRange
	physics   []callPhysical
	externals []callExternal
	locked    [2]int // the part of own that is registered, if the second is not 0
	pieces    int    // of managed memory, that were allocated

	cooperative, disabled bool // whether there are such kernels in graphs

	libraries []callLibrary
	links     []callLink
	linked    []byte // what the linker made last
	events    []driver.Event
	objects   []callObject
	modules   []driver.Module
	greens    []callGreen
	prefers   [2]preference // of the kernels
	alive     []any         // what the driver may read until the end
}

type blockKind int

const (
	ofDevice blockKind = iota
	ofPool
	managed
	ofHost
)

// block is memory that a sequence has allocated.
type block struct {
	kind blockKind
	at   driver.DevicePtr
	size uint64
	used bool // by a graph, so not freed before all graphs are destroyed
	pool driver.MemoryPool
}

type callGraph struct {
	graph      driver.Graph
	nodes      []callNode
	conditions []callCondition
	allocates  bool
	objects    map[driver.UserObject]uint32 // how many references the graph has of each
}

type callNode struct {
	node   driver.GraphNode
	typ    int32
	idle   bool         // it changes no memory
	bodies []*callGraph // of a conditional node
	ops    []int32      // the kinds of its memory operations
}

// callExec is an executable graph with the nodes that its graph had.
type callExec struct {
	exec  driver.GraphExec
	of    driver.Graph
	nodes []callNode
}

// callRange is reserved addresses, and how much of it is mapped from its beginning.
type callRange struct {
	at           driver.DevicePtr
	size, mapped uint64
	readable     bool
}

type callPhysical struct {
	handle driver.MemGenericAllocationHandle
	size   uint64
}

// callsPTX has the kernels of sequences.
const callsPTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry put(.param .u64 at, .param .u32 value)
{
	.reg .u64 %p;
	.reg .u32 %v, %t;
	ld.param.u64 %p, [at];
	ld.param.u32 %v, [value];
	mov.u32 %t, %tid.x;
	add.u32 %v, %v, %t;
	mad.wide.u32 %p, %t, 4, %p;
	st.global.u32 [%p], %v;
	ret;
}
.visible .entry nothing()
.maxntid 256, 1, 1
{
	ret;
}
` + "\x00"

// open makes the caller ready. It is called on a goroutine that is locked to its thread.
func (c *caller) open() error {
	var r driver.Result
	c.at = driver.At{Thread: c.Pin()}
	if r = c.Init(c.at, 0); r != ok {
		return fmt.Errorf("cuInit: %v", r)
	}
	if c.ctx, r = c.DevicePrimaryCtxRetain(c.at, 0); r != ok {
		return fmt.Errorf("cuDevicePrimaryCtxRetain: %v", r)
	}
	if r = c.CtxSetCurrent(c.at, c.ctx); r != ok {
		return fmt.Errorf("cuCtxSetCurrent: %v", r)
	}
	if c.module, r = c.ModuleLoadData(c.at, []byte(callsPTX)); r != ok {
		return fmt.Errorf("cuModuleLoadData: %v", r)
	}
	for _, name := range []string{"put", "nothing"} {
		f, r := c.ModuleGetFunction(c.at, c.module, name)
		if r != ok {
			return fmt.Errorf("cuModuleGetFunction: %v", r)
		}
		c.fns = append(c.fns, f)
	}
	if c.conditions, r = c.ModuleLoadData(c.at, []byte(condPTX)); r != ok {
		return fmt.Errorf("cuModuleLoadData of a kernel that sets conditions: %v", r)
	}
	if c.setc, r = c.ModuleGetFunction(c.at, c.conditions, "setc"); r != ok {
		return fmt.Errorf("cuModuleGetFunction: %v", r)
	}
	words := make([]byte, 256)
	words[0] = signalled
	if c.signal, r = c.MemAlloc(c.at, uint64(len(words))); r != ok {
		return fmt.Errorf("cuMemAlloc: %v", r)
	}
	if r = c.MemcpyHtoD(c.at, c.signal, words); r != ok {
		return fmt.Errorf("cuMemcpyHtoD: %v", r)
	}
	calls := new(atomic.Int64)
	var err error
	if c.count, err = c.NewCallback(func() { calls.Add(1) }); err != nil {
		return err
	}
	if c.quiet, err = c.NewCallback(func() {}); err != nil {
		return err
	}
	c.calls = calls
	if err := c.writeFiles(); err != nil {
		return err
	}
	const page = 4096
	b := make([]byte, 17*page)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (page - 1)
	c.own = b[skip : skip+16*page]
	return nil
}

// close ends what open began.
func (c *caller) close() error {
	errs := []error{
		os.RemoveAll(c.dir),
		errorOf("cuMemFree", c.MemFree(c.at, c.signal)),
		errorOf("cuModuleUnload", c.ModuleUnload(c.at, c.module)),
		errorOf("cuModuleUnload", c.ModuleUnload(c.at, c.conditions)),
		errorOf("cuCtxSetCurrent", c.CtxSetCurrent(c.at, 0)),
		errorOf("cuDevicePrimaryCtxRelease", c.DevicePrimaryCtxRelease(c.at, 0)),
	}
	if c.soft != nil {
		if n := c.soft.Census(); len(n) > 0 {
			errs = append(errs, fmt.Errorf("left: %v", n))
		}
	}
	c.count.Drop()
	c.quiet.Drop()
	c.at.Thread.Abandon()
	return errors.Join(errs...)
}

func errorOf(what string, r driver.Result) error {
	if r == ok {
		return nil
	}
	return fmt.Errorf("%s: %v", what, r)
}

// say notes the arguments of the call that follows.
func (c *caller) say(format string, args ...any) {
	fmt.Fprintf(&c.log, format, args...)
	if c.loud {
		fmt.Fprintf(os.Stderr, format, args...)
	}
}

// one returns one of the values.
func one[T any](c *caller, values ...T) T { return values[c.IntN(len(values))] }

// some returns an index of a list, or -1 if the list is empty.
func some[T any](c *caller, list []T) int {
	if len(list) == 0 {
		return -1
	}
	return c.IntN(len(list))
}

// size returns a number of bytes or elements. Most are small.
func (c *caller) size() uint64 {
	if c.IntN(12) == 0 {
		return one[uint64](c, 0, 1<<20+1, 1<<62)
	}
	return one[uint64](c, 1, 4, 16, 100, 512, 4096, 65536)
}

func (c *caller) anyStream() driver.Stream {
	i := c.IntN(len(c.streams) + 1)
	c.say(" stream %d", i)
	if i > 0 {
		return c.streams[i-1]
	}
	return 0
}

func (c *caller) location() driver.MemLocation {
	return driver.MemLocation{Type: one[int32](c, 0, 1, 1, 1, 1, 2, 3), ID: one[int32](c, 0, 0, 0, 7)}
}

// place returns an address in a block, and how many bytes follow.
func (c *caller) place(b block) (driver.DevicePtr, uint64) {
	at := uint64(0)
	if b.size > 0 && c.IntN(2) == 0 {
		at = c.Uint64N(b.size)
		if c.IntN(4) > 0 {
			at &^= 15
		}
	}
	return b.at + driver.DevicePtr(at), b.size - at
}

// amount returns a number of elements that usually fit in so many bytes.
func (c *caller) amount(left, each uint64) uint64 {
	if c.IntN(10) == 0 {
		return left/each + 1 + c.Uint64N(1<<22)
	}
	return c.Uint64N(left/each + 1)
}

// offset returns an address as a number that does not depend on the driver.
func (c *caller) offset(p driver.DevicePtr) uint64 {
	for i, b := range c.blocks {
		if p >= b.at && p < b.at+driver.DevicePtr(max(b.size, 1)) {
			return uint64(i+1)<<48 | uint64(p-b.at)
		}
	}
	if p == 0 {
		return 0
	}
	return 1 // elsewhere
}

// keep notes allocated memory, and fills it with a number that other blocks do not have.
func (c *caller) keep(kind blockKind, at driver.DevicePtr, size uint64, r driver.Result) []uint64 {
	if r != ok {
		return answers(r)
	}
	c.wait()
	filled := c.MemsetD8(c.at, at, uint8(1+37*len(c.blocks)), size)
	c.blocks = append(c.blocks, block{kind: kind, at: at, size: size})
	return answers(r, uint64(filled))
}

// answers returns the answer of a call. Values count only if it succeeds.
func answers(r driver.Result, values ...uint64) []uint64 {
	if r != ok {
		return []uint64{uint64(r)}
	}
	return append([]uint64{0}, values...)
}

// noOperands is the answer of a call that was left out.
var noOperands = []uint64{1 << 63}

// wait waits for all work.
func (c *caller) wait() driver.Result {
	if c.virtual {
		c.soft.Advance(time.Millisecond)
	}
	return c.CtxSynchronize(c.at)
}

// contents returns what is in the blocks, at most 64 KiB of each.
func (c *caller) contents() (list [][]byte, r driver.Result) {
	for _, b := range c.blocks {
		buf := make([]byte, min(b.size, 1<<16))
		if r := c.MemcpyDtoH(c.at, buf, b.at); r != ok {
			return nil, r
		}
		list = append(list, buf)
	}
	return list, ok
}

// otherMemory says where the blocks of two callers differ, or nothing.
func otherMemory(pair [2]*caller) string {
	a, r := pair[0].contents()
	b, q := pair[1].contents()
	if r != q {
		return fmt.Sprintf("%s reads with %v, and %s with %v", pair[0].name, r, pair[1].name, q)
	}
	for i := range a {
		if bytes.Equal(a[i], b[i]) {
			continue
		}
		at := 0
		for a[i][at] == b[i][at] {
			at++
		}
		end := min(at+32, len(a[i]))
		return fmt.Sprintf("block %d differs at %d: %s has %x, and %s %x", i, at,
			pair[0].name, a[i][at:end], pair[1].name, b[i][at:end])
	}
	return ""
}

// step makes the call with this number in the sequence of a seed.
func (c *caller) step(seed uint64, n int) (name string, answer []uint64) {
	c.Rand = rand.New(rand.NewPCG(seed, uint64(n)))
	topic := c.topics[seed%uint64(len(c.topics))]
	var k randomCall
	for range 10 {
		if n < len(topic.first) {
			k = topic.first[n]
		} else {
			k = topic.calls[c.IntN(len(topic.calls))]
		}
		c.say("%2d %s(", n, k.name)
		if answer = noOperands; !slices.Contains(fuzzAvoid, functionOf(k.name)) {
			answer = k.call(c)
		}
		if !slices.Equal(answer, noOperands) {
			break
		}
		c.say(") left out\n")
	}
	if c.poison = c.wait(); c.poison != ok {
		answer = append(slices.Clone(answer), 1<<32|uint64(c.poison))
	}
	c.say(") = %x\n", answer)
	return k.name, answer
}

// made returns the calls of the sequence, without those that were left out.
func (c *caller) made() string {
	var b strings.Builder
	for line := range strings.Lines(c.log.String()) {
		if !strings.HasSuffix(line, "left out\n") && !strings.HasPrefix(line, ") = ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// tried returns the call with this number, and those that were left out before it.
func (c *caller) tried(n int) string {
	var b strings.Builder
	for line := range strings.Lines(c.log.String()) {
		if strings.HasPrefix(line, fmt.Sprintf("%2d ", n)) {
			fmt.Fprintf(&b, "\t%s", line)
		}
	}
	return b.String()
}

// end destroys what the sequence has created.
func (c *caller) end() error {
	var errs []error
	must := func(what string, r driver.Result) { errs = append(errs, errorOf(what, r)) }
	for _, x := range c.execs {
		must("cuGraphExecDestroy", c.GraphExecDestroy(c.at, x.exec))
	}
	for _, g := range c.graphs {
		must("cuGraphDestroy", c.GraphDestroy(c.at, g.graph))
	}
	for _, o := range c.objects {
		must("cuUserObjectRelease", c.UserObjectRelease(c.at, o.object, o.references))
	}
	for _, e := range c.events {
		must("cuEventDestroy", c.EventDestroy(c.at, e))
	}
	for _, l := range c.links {
		must("cuLinkDestroy", c.LinkDestroy(c.at, l.state))
	}
	for _, m := range c.modules {
		must("cuModuleUnload", c.ModuleUnload(c.at, m))
	}
	for _, g := range c.greens {
		for _, s := range g.streams {
			must("cuStreamDestroy", c.StreamDestroy(c.at, s))
		}
		must("cuGreenCtxDestroy", c.GreenCtxDestroy(c.at, g.ctx))
	}
	for _, l := range c.libraries {
		must("cuLibraryUnload", c.LibraryUnload(c.at, l.lib))
	}
	for _, b := range c.blocks {
		if b.kind == ofHost {
			must("cuMemFreeHost", c.MemFreeHost(c.at, driver.HostPtr(b.at)))
		} else {
			must("cuMemFree", c.MemFree(c.at, b.at))
		}
	}
	if c.locked[1] != 0 {
		must("cuMemHostUnregister", c.MemHostUnregister(c.at, c.ownAt(c.locked[0])))
	}
	for _, v := range c.ranges {
		if v.mapped > 0 {
			must("cuMemUnmap", c.MemUnmap(c.at, v.at, v.mapped))
		}
		must("cuMemAddressFree", c.MemAddressFree(c.at, v.at, v.size))
	}
	for _, x := range c.externals {
		must("cuDestroyExternalMemory", c.DestroyExternalMemory(c.at, x.mem))
	}
	for _, p := range c.physics {
		must("cuMemRelease", c.MemRelease(c.at, p.handle))
	}
	for _, s := range c.streams {
		must("cuStreamDestroy", c.StreamDestroy(c.at, s))
	}
	for _, p := range c.pools {
		must("cuMemPoolDestroy", c.MemPoolDestroy(c.at, p))
	}
	must("cuCtxSynchronize", c.wait())
	c.calls.Store(0)
	for _, f := range c.fns {
		c.FuncSetAttribute(c.at, f, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 48<<10)
		c.FuncSetAttribute(c.at, f, driver.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, -1)
		c.FuncSetCacheConfig(c.at, f, driver.CU_FUNC_CACHE_PREFER_NONE)
	}
	c.handles = handles{}
	return errors.Join(errs...)
}

func (c *caller) ownAt(i int) driver.HostPtr { return driver.HostPtr(unsafe.Pointer(&c.own[i])) }

// difference is a call that two drivers answer differently.
type difference struct {
	kind string // the same for calls that differ in the same way, as far as is known
	text string
}

func (d *difference) Error() string { return d.text }

// errPoisoned says that work of a sequence has failed, so that no other sequence can be made.
var errPoisoned = errors.New("the context is poisoned")

// sequence makes the calls of a seed on two callers, and returns a *difference if their answers
// differ.
func sequence(pair [2]*caller, seed uint64, count tally) error {
	for _, c := range pair {
		c.log.Reset()
	}
	for n := range callCount {
		name, a := "", noOperands
		other, b := name, a
		if !slices.Contains(fuzzWithout, n) {
			name, a = pair[0].step(seed, n)
			other, b = pair[1].step(seed, n)
		}
		if name != other { // the driver of one caller had made it leave out another call
			return &difference{
				kind: fmt.Sprintf("%s, or %s", name, other),
				text: fmt.Sprintf("call %d: %s makes\n%s\tand %s\n%s", n, pair[0].name, pair[0].tried(n), pair[1].name,
					pair[1].tried(n)),
			}
		}
		if !slices.Equal(a, b) {
			lines := strings.Split(strings.TrimSpace(pair[1].log.String()), "\n")
			return &difference{
				kind: fmt.Sprintf("%s %x %x", name, a[:min(1, len(a))], b[:min(1, len(b))]),
				text: fmt.Sprintf("call %d, %s: %s answers %x, and %s %x\n\t%s", n, name, pair[0].name, a, pair[1].name, b,
					lines[len(lines)-1]),
			}
		}
		if pair[0].poison != ok {
			return fmt.Errorf("call %d, %s: %w, %v", n, name, errPoisoned, pair[0].poison)
		}
		if !slices.Equal(a, noOperands) {
			count.add(name, a[0] == 0)
		}
		if n%10 == 9 {
			if text := otherMemory(pair); text != "" {
				return &difference{kind: "memory after " + name,
					text: fmt.Sprintf("after call %d, %s: %s", n, name, text)}
			}
		}
	}
	for _, c := range pair {
		if err := c.end(); err != nil {
			return fmt.Errorf("%s, at the end: %w", c.name, err)
		}
	}
	return nil
}

// softCaller returns a caller of a new software driver.
func softCaller(name string, virtual bool) *caller {
	var opts []cusim.Option
	if virtual {
		opts = append(opts, cusim.VirtualTime())
	}
	sim := cusim.New(opts...)
	return &caller{Table: driver.NewSoftware(sim.Software()), name: name, soft: sim, virtual: virtual}
}

// TestCalls makes random calls on two software drivers. If PURECU_TEST_GPU is set, it makes them on a
// software driver and NVIDIA's.
func TestCalls(t *testing.T) {
	if path := os.Getenv(callsEnv); path != "" { // this is one of the processes of callsOnGPU
		callsOfBatch(t, path, besideGPU(t))
		return
	}
	topics := []string{*fuzzTopic}
	if *fuzzTopic == "" {
		topics = slices.AppendSeq(topics, maps.Keys(denseTopics))
	}
	t.Run("software", func(t *testing.T) {
		for _, topic := range topics {
			t.Run(cmp.Or(topic, "many topics"), func(t *testing.T) {
				n := max(count()/20, 100)
				switch {
				case *fuzzSeed != 0:
					n = 1
				case topic != "":
					n /= 5
				}
				pair := [2]*caller{softCaller("virtual", true), softCaller("real", false)}
				report(t, topic, runCalls(t, topic, pair, firstSeed(), n, func(uint64) {}))
			})
		}
	})
	if os.Getenv("PURECU_TEST_GPU") == "" {
		return
	}
	t.Run("gpu", func(t *testing.T) {
		if *fuzzSeed != 0 {
			report(t, *fuzzTopic, runCalls(t, *fuzzTopic, besideGPU(t), *fuzzSeed, 1, func(uint64) {}))
			return
		}
		report(t, *fuzzTopic, callsOnGPU(t, *fuzzFrom, count()))
	})
}

// firstSeed returns the seed of the first sequence.
func firstSeed() uint64 {
	if *fuzzSeed != 0 {
		return *fuzzSeed
	}
	return *fuzzFrom
}

// callResults are the results of sequences.
type callResults struct {
	Done     int // sequences
	Next     uint64
	Failures []callFailure
	Counts   tally
}

// callFailure is a sequence that fails.
type callFailure struct {
	Seed       uint64
	Kind, Text string
}

// add adds the results of other sequences.
func (r *callResults) add(other callResults) {
	r.Done += other.Done
	r.Failures = append(r.Failures, other.Failures...)
	r.Counts.addAll(other.Counts)
}

// kinds returns the seeds of the failures of each kind.
func (r *callResults) kinds() map[string][]uint64 {
	kinds := make(map[string][]uint64)
	for _, f := range r.Failures {
		kinds[f.Kind] = append(kinds[f.Kind], f.Seed)
	}
	return kinds
}

// runCalls makes n sequences. It ends before that if there are differences of as many kinds as can be explained, if its
// time is over, or if work has failed. If a driver is NVIDIA's, a failure also ends it: what the sequence leaves is not
// known then. It calls begin before each sequence.
func runCalls(t *testing.T, topic string, pair [2]*caller, from uint64, n int, begin func(seed uint64)) callResults {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pair[1].loud = *fuzzLoud
	for _, f := range fuzzAvoid {
		if !slices.Contains(allFunctions(), f) {
			t.Fatalf("-fuzz.avoid: %s is not called", f)
		}
	}
	for _, c := range pair {
		c.topics = topicsOf(t, topic)
		if err := c.open(); err != nil {
			t.Fatal(err)
		}
	}
	results := callResults{Next: from, Counts: make(tally)}
	begun := time.Now()
	for results.Done < n && len(results.kinds()) < *fuzzMost && (*fuzzFor == 0 || time.Since(begun) < *fuzzFor) {
		seed := results.Next
		// Contexts take seconds on a machine where other processes use the GPU.
		hanging := time.AfterFunc(3*hang, func() {
			fmt.Fprintf(os.Stderr, "%s: seed %d hangs\n", t.Name(), seed)
			os.Exit(2)
		})
		begin(seed)
		err := sequence(pair, seed, results.Counts)
		hanging.Stop()
		results.Done++
		results.Next++
		if err == nil {
			continue
		}
		kind := "other"
		if d, is := errors.AsType[*difference](err); is {
			kind = d.kind
		}
		results.Failures = append(results.Failures, callFailure{seed, kind, err.Error()})
		if errors.Is(err, errPoisoned) || pair[1].soft == nil {
			break
		}
		for _, c := range pair {
			c.end() // some of it fails
		}
	}
	if *fuzzSeed != 0 {
		t.Logf("seed %d:\n%s", from, pair[1].made())
		if len(results.Failures) > 0 && *fuzzShrink {
			shorten(t, pair, results.Failures[0])
		}
	}
	for _, c := range pair {
		if err := c.close(); err != nil && len(results.Failures) == 0 {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	return results
}

// report reports the first failure of each kind, and, unless only some are made, whether there were enough calls.
func report(t *testing.T, topic string, r callResults) {
	reported := make(map[string]bool)
	for _, f := range r.Failures {
		if !reported[f.Kind] {
			t.Errorf("seed %d: %s", f.Seed, f.Text)
		}
		reported[f.Kind] = true
	}
	kinds := r.kinds()
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("%d times: %s, seeds %d", len(kinds[kind]), kind, kinds[kind])
	}
	t.Logf("%d sequences, %d differences; to go on from here: -fuzz.from=%d", r.Done, len(r.Failures), r.Next)
	if topic != "" || len(fuzzAvoid) > 0 {
		return
	}
	t.Log(r.Counts)
	if r.Done >= 1000 { // otherwise there are too few calls
		for _, err := range r.Counts.wrong() {
			t.Error(err)
		}
	}
}
