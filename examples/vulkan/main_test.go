//go:build linux && !cu_static

package main

import (
	"bytes"
	"errors"
	"log"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/graph"
	"github.com/purecu/purecu/cu/interop"
	"github.com/purecu/purecu/cutest"
)

// TestMain is also the program, for the tests that run it: C reads the environment of a process.
func TestMain(m *testing.M) {
	switch os.Getenv("PURECU_TEST_VULKAN") {
	case "main":
		main()
	case "open": // as main does after it has opened CUDA
		log.SetFlags(0)
		log.SetPrefix("vulkan: ")
		v, err := openVulkan([16]byte{})
		check(err)
		check(v.close())
	default:
		os.Exit(m.Run())
	}
}

// TestLayout compares the structs with what a C compiler makes of vulkan_core.h.
func TestLayout(t *testing.T) {
	for _, tt := range []struct {
		is      reflect.Type
		size    uintptr
		offsets []uintptr
	}{
		{reflect.TypeFor[applicationInfo](), 48, []uintptr{0, 8, 16, 24, 32, 40, 44}},
		{reflect.TypeFor[instanceCreateInfo](), 64, []uintptr{0, 8, 16, 24, 32, 40, 48, 56}},
		{reflect.TypeFor[physicalDeviceProperties2](), 840, []uintptr{0, 8, 16, 20, 24, 28, 32, 36, 292}},
		{reflect.TypeFor[physicalDeviceIDProperties](), 64, []uintptr{0, 8, 16, 32, 48, 56, 60}},
		{reflect.TypeFor[physicalDeviceMemoryProperties](), 520, []uintptr{0, 4, 260, 264}},
		{reflect.TypeFor[deviceQueueCreateInfo](), 40, []uintptr{0, 8, 16, 20, 24, 32}},
		{reflect.TypeFor[physicalDeviceTimelineSemaphoreFeatures](), 24, []uintptr{0, 8, 16}},
		{reflect.TypeFor[deviceCreateInfo](), 72, []uintptr{0, 8, 16, 20, 24, 32, 40, 48, 56, 64}},
		{reflect.TypeFor[externalMemoryBufferCreateInfo](), 24, []uintptr{0, 8, 16}},
		{reflect.TypeFor[bufferCreateInfo](), 56, []uintptr{0, 8, 16, 24, 32, 36, 40, 48}},
		{reflect.TypeFor[memoryRequirements](), 24, []uintptr{0, 8, 16}},
		{reflect.TypeFor[exportMemoryAllocateInfo](), 24, []uintptr{0, 8, 16}},
		{reflect.TypeFor[memoryAllocateInfo](), 32, []uintptr{0, 8, 16, 24}},
		{reflect.TypeFor[semaphoreTypeCreateInfo](), 32, []uintptr{0, 8, 16, 24}},
		{reflect.TypeFor[exportSemaphoreCreateInfo](), 24, []uintptr{0, 8, 16}},
		{reflect.TypeFor[semaphoreCreateInfo](), 24, []uintptr{0, 8, 16}},
		{reflect.TypeFor[memoryGetFdInfoKHR](), 32, []uintptr{0, 8, 16, 24}},
		{reflect.TypeFor[semaphoreGetFdInfoKHR](), 32, []uintptr{0, 8, 16, 24}},
		{reflect.TypeFor[commandPoolCreateInfo](), 24, []uintptr{0, 8, 16, 20}},
		{reflect.TypeFor[commandBufferAllocateInfo](), 32, []uintptr{0, 8, 16, 24, 28}},
		{reflect.TypeFor[commandBufferBeginInfo](), 32, []uintptr{0, 8, 16, 24}},
		{reflect.TypeFor[bufferMemoryBarrier](), 56, []uintptr{0, 8, 16, 20, 24, 28, 32, 40, 48}},
		{reflect.TypeFor[bufferCopy](), 24, []uintptr{0, 8, 16}},
		{reflect.TypeFor[timelineSemaphoreSubmitInfo](), 48, []uintptr{0, 8, 16, 24, 32, 40}},
		{reflect.TypeFor[submitInfo](), 72, []uintptr{0, 8, 16, 24, 32, 40, 48, 56, 64}},
		{reflect.TypeFor[semaphoreSignalInfo](), 32, []uintptr{0, 8, 16, 24}},
		{reflect.TypeFor[semaphoreWaitInfo](), 40, []uintptr{0, 8, 16, 20, 24, 32}},
	} {
		var offsets []uintptr
		for i := range tt.is.NumField() {
			offsets = append(offsets, tt.is.Field(i).Offset)
		}
		if tt.is.Size() != tt.size || !slices.Equal(offsets, tt.offsets) {
			t.Errorf("%v has %d bytes, and fields at %d; want %d, and %d", tt.is, tt.is.Size(), offsets, tt.size, tt.offsets)
		}
	}
}

// run runs the program, or what PURECU_TEST_VULKAN says otherwise, and compares what it prints and
// its exit status.
func run(t *testing.T, what, says string, status int, environ ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), "PURECU_TEST_VULKAN="+what), environ...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if cmd.ProcessState.ExitCode() != status || !regexp.MustCompile(says).Match(out) {
		t.Errorf("%v: %s; want %s", cmd.ProcessState, out, says)
	}
	t.Logf("%s", out)
}

// TestNoVulkan checks what the program says where something is missing.
func TestNoVulkan(t *testing.T) {
	const none = "^vulkan: there is no Vulkan for the GPU: "
	run(t, "main", none+"the software driver is no device of Vulkan's; unset PURECU_DRIVER\n$", 2, "PURECU_DRIVER=soft")
	run(t, "main", "(?s)^vulkan: cu: Open: no CUDA driver: .*/nonexistent", 2,
		"PURECU_DRIVER=", "CUDA_DRIVER_LIBRARY=/nonexistent")
	if _, err := loadVulkan(); err != nil {
		run(t, "open", none+".*; install Vulkan's loader, .*\n$", 2)
		return
	}
	const install = "; install NVIDIA's driver for Vulkan .*\n$"
	run(t, "open", none+"Vulkan has no driver"+install, 2, "VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent")
	v, err := openInstance()
	if err == nil {
		v.DestroyInstance(v.instance, nil)
		run(t, "open", none+"no device of Vulkan has CUDA's UUID 0{32}"+install, 2)
	} else if !errors.Is(err, errNoVulkan) {
		t.Error(err)
	}
}

// more are functions that only the tests call.
type more struct {
	GetSemaphoreCounterValue func(device uintptr, semaphore uint64, value *uint64) result
	SignalSemaphore          func(device uintptr, info *semaphoreSignalInfo) result
	WaitSemaphores           func(device uintptr, info *semaphoreWaitInfo, nanoseconds uint64) result
	MapMemory                func(device uintptr, memory, offset, size uint64, flags uint32, at **[size]byte) result
}

type semaphoreSignalInfo struct {
	SType     uint32 // 1000207005
	PNext     uintptr
	Semaphore uint64
	Value     uint64
}

type semaphoreWaitInfo struct {
	SType          uint32 // 1000207004
	PNext          uintptr
	Flags          uint32
	SemaphoreCount uint32
	PSemaphores    *uint64
	PValues        *uint64
}

// A rig is a device with the functions of the tests.
type rig struct {
	*testing.T
	*vulkan
	more
}

func newRig(t *testing.T, v *vulkan) *rig {
	r := &rig{T: t, vulkan: v}
	r.ok(bind(&r.more, v.ofDevice))
	return r
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// signal signals a timeline semaphore on the host.
func (r *rig) signal(s *semaphore, value uint64) {
	r.Helper()
	info := semaphoreSignalInfo{SType: 1000207005, Semaphore: s.handle, Value: value}
	r.ok(failed("vkSignalSemaphore", r.SignalSemaphore(r.device, &info)))
}

// wait waits for a timeline semaphore on the host, and reports whether it gets the value in time.
func (r *rig) wait(s *semaphore, value uint64, within time.Duration) bool {
	r.Helper()
	const timeout result = 2
	info := semaphoreWaitInfo{SType: 1000207004, SemaphoreCount: 1, PSemaphores: &s.handle, PValues: &value}
	res := r.WaitSemaphores(r.device, &info, uint64(within))
	r.ok(failed("vkWaitSemaphores", res))
	return res != timeout
}

// counter checks the value of a timeline semaphore.
func (r *rig) counter(s *semaphore, want uint64) {
	r.Helper()
	var got uint64
	r.ok(failed("vkGetSemaphoreCounterValue", r.GetSemaphoreCounterValue(r.device, s.handle, &got)))
	if got != want {
		r.Errorf("the semaphore has the value %d; want %d", got, want)
	}
}

// visible returns a buffer in memory that the host sees, and its bytes.
func (r *rig) visible() (*buffer, []byte) {
	r.Helper()
	b, err := r.newBuffer(size, memoryHostVisible|memoryHostCoherent)
	r.ok(err)
	var at *[size]byte
	r.ok(failed("vkMapMemory", r.MapMemory(r.device, b.memory, 0, size, 0, &at)))
	return b, at[:]
}

// TestProcessor makes the calls of Vulkan on a processor, with Mesa's llvmpipe, which cannot share
// semaphores.
func TestProcessor(t *testing.T) {
	v, err := openInstance()
	if errors.Is(err, errNoVulkan) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	devices, err := v.physicalDevices()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(devices, func(d physicalDevice) bool { return strings.Contains(d.name, "llvmpipe") })
	if i < 0 {
		t.Skipf("there is no llvmpipe among %d devices", len(devices))
	}
	if err := v.openDevice(devices[i].handle, memoryFd); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, v)
	b, host := r.visible()
	f, err := b.file()
	r.ok(err)
	r.ok(f.Close())
	s, err := v.newSemaphore(semaphoreTimeline, 0)
	r.ok(err)
	commands, err := v.newCopy(b, bufferCopy{DstOffset: half, Size: half})
	r.ok(err)

	for i := range uint64(3) {
		for at := range host[:half] {
			host[at] = byte(at) + byte(i)
		}
		r.ok(v.submit(commands, s, 2*i+1, 2*i+2))
		if r.wait(s, 2*i+2, 50*time.Millisecond) {
			t.Error("Vulkan did not wait")
		}
		if slices.Equal(host[:half], host[half:]) {
			t.Error("Vulkan copied before the signal")
		}
		r.signal(s, 2*i+1)
		if !r.wait(s, 2*i+2, time.Minute) {
			t.Fatal("Vulkan did not signal")
		}
		r.counter(s, 2*i+2)
		if !slices.Equal(host[:half], host[half:]) {
			t.Error("Vulkan copied something else")
		}
	}
	s.close()
	b.close()
	r.ok(v.close())
}

// TestGPUVulkan shares memory and semaphores with the machine's GPU.
func TestGPUVulkan(t *testing.T) {
	if os.Getenv(cutest.Environment) == "" {
		t.Skip(cutest.Environment + " is not set")
	}
	drv := cutest.Driver(t)
	dev, err := drv.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	newShared(t, dev).vulkan.close() // skips the test if there is no Vulkan
	for _, tt := range []struct {
		name string
		test func(*shared)
	}{
		{"Host", testHost}, {"Order", testOrder}, {"Binary", testBinary}, {"Visible", testVisible},
		{"VulkanFirst", testVulkanFirst}, {"CUDAFirst", testCUDAFirst}, {"CloseWaits", testCloseWaits},
		{"Graph", testGraph}, {"Capture", testCapture}, {"Abandoned", testAbandoned},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.test(newShared(t, dev)) })
	}
	t.Run("Program", func(t *testing.T) {
		run(t, "main", `^Vulkan and CUDA share 1048576 bytes and a semaphore of .+\n`+
			`CUDA's stream fills the first half with 1 and signals 1\n`+
			`Vulkan's queue waits for 1, copies it to the second half and signals 2\n`+
			`CUDA's stream waited for 2 and read 524288 bytes of 1\n`+
			`a round trip took \S+, and \S+ later\n$`, 0)
	})
}

// A shared is a device that is open in Vulkan and in CUDA, with a stream.
type shared struct {
	*rig
	gpu    *cu.Context
	stream *cu.Stream
}

func newShared(t *testing.T, dev *cu.Device) *shared {
	uuid, err := dev.UUID()
	if err != nil {
		t.Fatal(err)
	}
	v, err := openVulkan(uuid)
	if errors.Is(err, errNoVulkan) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{rig: newRig(t, v)}
	s.gpu, err = dev.PrimaryContext()
	s.ok(err)
	s.stream, err = s.gpu.NewStream(cu.StreamNonBlocking)
	s.ok(err)
	t.Cleanup(func() {
		if t.Failed() {
			return // the stream may wait for a signal that never comes
		}
		if err := errors.Join(s.stream.Close(), s.gpu.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// memory returns a buffer, its memory in CUDA, and commands that copy its first half to the second.
func (s *shared) memory() (b *buffer, mem *cu.DeviceMem, toSecondHalf uintptr) {
	s.Helper()
	b, err := s.newBuffer(size, memoryDeviceLocal)
	s.ok(err)
	mem, err = importMem(s.gpu, b)
	s.ok(err)
	toSecondHalf, err = s.newCopy(b, bufferCopy{DstOffset: half, Size: half})
	s.ok(err)
	return b, mem, toSecondHalf
}

// timeline returns a timeline semaphore, and what CUDA has imported.
func (s *shared) timeline() (*semaphore, *interop.Semaphore) {
	s.Helper()
	return s.semaphore(semaphoreTimeline, interop.SemaphoreTimelineFD)
}

func (s *shared) semaphore(kind uint32, imported interop.SemaphoreType) (*semaphore, *interop.Semaphore) {
	s.Helper()
	sem, err := s.newSemaphore(kind, handleOpaqueFd)
	s.ok(err)
	in, err := importSemaphore(s.gpu, sem, imported)
	s.ok(err)
	return sem, in
}

// pending checks that the stream's work is not done, and does not get done soon.
func (s *shared) pending() {
	s.Helper()
	time.Sleep(20 * time.Millisecond)
	if st, err := s.stream.Query(); err != nil || st != cu.Pending {
		s.Errorf("the stream is %v, %v", st, err)
	}
}

// has checks that all bytes of memory have a value.
func (s *shared) has(m *cu.DeviceMem, want byte) {
	s.Helper()
	got := make([]byte, m.Size())
	s.ok(m.CopyTo(got))
	if n := bytes.Count(got, []byte{want}); n != len(got) {
		s.Errorf("%d of %d bytes are %d: %v…", n, len(got), want, got[:8])
	}
}

// testHost makes a stream wait until the host signals, and the host until a stream does.
func testHost(s *shared) {
	sem, in := s.timeline()
	s.ok(interop.Wait(s.stream, in.At(5)))
	s.signal(sem, 4)
	s.pending()
	s.signal(sem, 5)
	s.ok(s.stream.Synchronize())
	s.ok(interop.Wait(s.stream, in.At(3))) // which is in the past
	s.ok(interop.Signal(s.stream, in.At(9)))
	if !s.wait(sem, 9, time.Minute) {
		s.Error("CUDA did not signal")
	}
	s.counter(sem, 9)
	s.ok(s.stream.Synchronize())
	s.ok(in.Close())
	sem.close()
	s.ok(s.vulkan.close())
}

// testOrder makes Vulkan's queue wait before CUDA's stream has the work that it waits for.
func testOrder(s *shared) {
	sem, in := s.timeline()
	b, mem, commands := s.memory()
	s.ok(interop.Wait(s.stream, in.At(2)))
	s.ok(s.submit(commands, sem, 1, 2))
	s.pending()
	s.counter(sem, 0)
	other, err := s.gpu.NewStream(cu.StreamNonBlocking)
	s.ok(err)
	s.ok(errors.Join(other.Memset(mem.Span(0, half), 3), interop.Signal(other, in.At(1)), other.Synchronize()))
	s.ok(s.stream.Synchronize())
	s.counter(sem, 2)
	s.has(mem, 3)
	s.ok(errors.Join(other.Close(), mem.Close(), in.Close()))
	b.close()
	sem.close()
	s.ok(s.vulkan.close())
}

// testBinary passes a binary semaphore to and fro.
func testBinary(s *shared) {
	sem, in := s.semaphore(semaphoreBinary, interop.SemaphoreFD)
	s.ok(interop.Wait(s.stream, in.At(0)))
	s.pending()
	submit := func(info submitInfo) {
		info.SType = typeSubmitInfo
		s.ok(failed("vkQueueSubmit", s.QueueSubmit(s.queue, 1, &info, 0)))
	}
	submit(submitInfo{SignalSemaphoreCount: 1, PSignalSemaphores: &sem.handle})
	s.ok(s.stream.Synchronize())

	stage := uint32(stageTransfer)
	s.ok(interop.Signal(s.stream, in.At(0)))
	submit(submitInfo{WaitSemaphoreCount: 1, PWaitSemaphores: &sem.handle, PWaitDstStageMask: &stage})
	s.ok(failed("vkDeviceWaitIdle", s.DeviceWaitIdle(s.device)))
	s.ok(errors.Join(s.stream.Synchronize(), in.Close()))
	sem.close()
	s.ok(s.vulkan.close())
}

// testVisible shares memory that the host sees.
func testVisible(s *shared) {
	b, host := s.visible()
	for i := range host {
		host[i] = 7
	}
	mem, err := importMem(s.gpu, b)
	s.ok(err)
	s.has(mem, 7)
	s.ok(errors.Join(s.stream.Memset(mem, 9), s.stream.Synchronize()))
	if n := bytes.Count(host, []byte{9}); n != len(host) {
		s.Errorf("the host sees %d of %d bytes", n, len(host))
	}
	host[0] = 5 // an H200 then reads 9, from its cache
	got := make([]byte, 1)
	s.ok(mem.CopyTo(got))
	s.Logf("the host has written 5 after the GPU has written 9: the GPU reads %d", got[0])
	s.ok(mem.Close())
	b.close()
	s.ok(s.vulkan.close())
}

// testVulkanFirst destroys all of Vulkan, and goes on with what CUDA has imported.
func testVulkanFirst(s *shared) {
	b, mem, _ := s.memory()
	sem, in := s.timeline()
	s.ok(errors.Join(s.stream.Memset(mem, 4), interop.Signal(s.stream, in.At(1)), s.stream.Synchronize()))
	b.close()
	sem.close()
	s.ok(s.vulkan.close())
	s.has(mem, 4)
	s.ok(errors.Join(interop.Wait(s.stream, in.At(1)), s.stream.Memset(mem, 5), interop.Signal(s.stream, in.At(2)),
		interop.Wait(s.stream, in.At(2)), s.stream.Synchronize()))
	s.has(mem, 5)
	s.ok(errors.Join(in.Close(), mem.Close()))
}

// testCUDAFirst closes what CUDA has imported, and goes on with Vulkan.
func testCUDAFirst(s *shared) {
	b, mem, commands := s.memory()
	sem, in := s.timeline()
	s.ok(errors.Join(s.stream.Memset(mem.Span(0, half), 6), interop.Signal(s.stream, in.At(1)), s.stream.Synchronize()))
	s.ok(errors.Join(mem.Close(), in.Close()))
	if err := s.stream.Memset(mem, 1); !errors.Is(err, cu.ErrClosed) {
		s.Errorf("a set of closed memory: %v", err)
	}
	if err := interop.Signal(s.stream, in.At(9)); !errors.Is(err, cu.ErrClosed) {
		s.Errorf("a signal of a closed semaphore: %v", err)
	}
	s.ok(s.submit(commands, sem, 1, 2))
	if !s.wait(sem, 2, time.Minute) {
		s.Error("Vulkan did not signal")
	}
	mem, err := importMem(s.gpu, b) // again
	s.ok(err)
	s.has(mem, 6)
	s.ok(mem.Close())
	b.close()
	sem.close()
	s.ok(s.vulkan.close())
}

// testCloseWaits closes a semaphore while a stream waits for it.
func testCloseWaits(s *shared) {
	sem, in := s.timeline()
	s.ok(interop.Wait(s.stream, in.At(1)))
	s.pending()
	closed := make(chan error)
	go func() { closed <- in.Close() }()
	select {
	case err := <-closed:
		s.Logf("Close returns while the stream waits: %v", err)
		go func() { closed <- err }()
	case <-time.After(100 * time.Millisecond):
	}
	s.signal(sem, 1)
	s.ok(<-closed)
	s.ok(s.stream.Synchronize())
	sem.close()
	s.ok(s.vulkan.close())
}

// testGraph launches a graph whose nodes signal and wait, and changes their values.
func testGraph(s *shared) {
	b, mem, commands := s.memory()
	sem, in := s.timeline()
	g, err := graph.New(s.gpu)
	s.ok(err)
	set, err := g.Add(&graph.Memset{Dst: mem.Span(0, half), Value: 8})
	s.ok(err)
	signal, err := g.Add(&graph.ExternalSignal{Ops: []cu.ExternalOp{in.At(1)}}, set)
	s.ok(err)
	wait, err := g.Add(&graph.ExternalWait{Ops: []cu.ExternalOp{in.At(2)}}, signal)
	s.ok(err)
	x, err := g.Instantiate()
	s.ok(err)
	s.ok(x.Launch(s.stream))
	if !s.wait(sem, 1, time.Minute) {
		s.Error("the graph did not signal")
	}
	s.pending()
	s.ok(errors.Join(s.submit(commands, sem, 1, 2), s.stream.Synchronize()))
	s.has(mem, 8)

	s.ok(errors.Join(x.Set(set, &graph.Memset{Dst: mem.Span(0, half), Value: 11}), x.Set(signal, &graph.ExternalSignal{Ops: []cu.ExternalOp{in.At(3)}}),
		x.Set(wait, &graph.ExternalWait{Ops: []cu.ExternalOp{in.At(4)}}), x.Launch(s.stream)))
	s.pending()
	s.ok(errors.Join(s.submit(commands, sem, 3, 4), s.stream.Synchronize()))
	s.counter(sem, 4)
	s.has(mem, 11)
	s.ok(errors.Join(g.Close(), x.Close(), mem.Close(), in.Close()))
	b.close()
	sem.close()
	s.ok(s.vulkan.close())
}

// testCapture captures a signal and a wait.
func testCapture(s *shared) {
	b, mem, commands := s.memory()
	sem, in := s.timeline()
	g, err := graph.Capture(s.stream, graph.CaptureThreadLocal, func() error {
		return errors.Join(s.stream.Memset(mem.Span(0, half), 13), interop.Signal(s.stream, in.At(1)),
			interop.Wait(s.stream, in.At(2)))
	})
	s.ok(err)
	x, err := g.Instantiate()
	s.ok(err)
	s.counter(sem, 0)
	s.ok(x.Launch(s.stream))
	s.pending()
	s.counter(sem, 1)
	s.ok(errors.Join(s.submit(commands, sem, 1, 2), s.stream.Synchronize()))
	s.has(mem, 13)
	s.ok(errors.Join(g.Close(), x.Close(), mem.Close(), in.Close()))
	b.close()
	sem.close()
	s.ok(s.vulkan.close())
}
