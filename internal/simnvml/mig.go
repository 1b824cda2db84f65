package simnvml

import (
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/nvml/raw"
)

// mig is how a GPU is divided. The profiles of GPU instances and their placements were recorded. All else about MIG
// follows the documentation: no GPU in MIG mode was asked.
type mig struct {
	on, pending bool
	instances   []*gpuInstance
}

// gpuInstance is a part of a GPU with memory of its own.
type gpuInstance struct {
	handle  raw.GpuInstance
	gpu     *gpu
	id      uint32
	profile raw.GpuInstanceProfileInfoV2
	at      raw.GpuInstancePlacement
	parts   []*computeInstance
}

// computeInstance is a part of a GPU instance with multiprocessors of its own. It is also a MIG device, with a state as
// that of a GPU.
type computeInstance struct {
	handle  raw.ComputeInstance
	parent  *gpuInstance
	id      uint32
	profile raw.ComputeInstanceProfileInfoV2
	at      raw.ComputeInstancePlacement
	number  uint32 // among the MIG devices of the GPU
	device  *gpu
}

// memorySlices is how many slices of memory a GPU has, and mostMIG how many MIG devices.
const memorySlices, mostMIG = 8, 7

// The ways in which functions answer about MIG devices.
const (
	asGPU = iota + 1 // as about a GPU, from the share of the GPU that the device has
	asMIG            // about MIG devices only
)

// ofMIG are the functions that can be asked about a MIG device.
var ofMIG = map[string]int{
	"DeviceGetName": asGPU, "DeviceGetUUID": asGPU, "DeviceGetIndex": asGPU, "DeviceIsMigDeviceHandle": asGPU,
	"DeviceGetMemoryInfo": asGPU, "DeviceGetMemoryInfoV2": asGPU, "DeviceGetBAR1MemoryInfo": asGPU,
	"DeviceGetComputeRunningProcesses": asGPU, "DeviceGetComputeRunningProcessesV2": asGPU,
	"DeviceGetComputeRunningProcessesV3": asGPU,
	"DeviceGetAttributes":                asMIG, "DeviceGetAttributesV2": asMIG, "DeviceGetGpuInstanceId": asMIG,
	"DeviceGetComputeInstanceId": asMIG, "DeviceGetDeviceHandleFromMigDeviceHandle": asMIG,
}

// notInMIG are the functions that cannot be asked about a GPU in MIG mode.
var notInMIG = []string{"DeviceGetUtilizationRates", "DeviceGetEncoderUtilization", "DeviceGetDecoderUtilization",
	"DeviceGetJpgUtilization", "DeviceGetOfaUtilization", "DeviceGetProcessUtilization",
	"DeviceGetProcessesUtilizationInfo", "DeviceGetNumGpuCores", "DeviceSetAccountingMode"}

// migResult returns the result of a call that the answers do not know, because of MIG.
func (s *state) migResult(name string, args []any) (r raw.Return, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var g *gpu
	for _, arg := range args {
		if h, ok := arg.(raw.Device); ok && (g == nil || g.part == nil) {
			g = s.device(h)
		}
	}
	switch {
	case g == nil:
		return 0, false
	case g.part == nil:
		return raw.NVML_ERROR_NOT_SUPPORTED, g.mig.on && slices.Contains(notInMIG, name)
	case ofMIG[name] == asGPU:
		return 0, false
	case ofMIG[name] == 0:
		return raw.NVML_ERROR_NOT_SUPPORTED, true
	case reflect.ValueOf(args[1]).IsNil():
		return raw.NVML_ERROR_INVALID_ARGUMENT, true
	}
	return raw.NVML_SUCCESS, true
}

// devices returns the MIG devices of a GPU, in the order of their numbers. The caller holds mu.
func (g *gpu) devices() (list []*computeInstance) {
	for _, i := range g.mig.instances {
		list = append(list, i.parts...)
	}
	slices.SortFunc(list, func(a, b *computeInstance) int { return int(a.number) - int(b.number) })
	return list
}

// user returns the MIG device that programs use, or nil. It is the first, as CUDA finds it. The caller holds mu.
func (g *gpu) user() *computeInstance {
	if list := g.devices(); len(list) > 0 {
		return list[0]
	}
	return nil
}

// view returns what the machine knows of a GPU or a MIG device. The caller holds mu.
func (g *gpu) view(now GPU) GPU {
	c := g.part
	if c == nil {
		return now
	}
	v := GPU{Profile: now.Profile, Name: now.Name + " " + c.name(), UUID: c.uuid(now.UUID),
		Memory: c.parent.profile.MemorySizeMB << 20, Settings: now.Settings}
	if c.parent.gpu.user() == c {
		v.Used, v.Processes = min(now.Used, v.Memory), now.Processes
	}
	return v
}

// ids returns the numbers of the instances that the processes of a GPU or of a MIG device use. The caller holds mu.
func (g *gpu) ids() (gpuID, computeID uint32) {
	c := g.part
	if c == nil {
		c = g.user()
	}
	if c == nil {
		return none, none
	}
	return c.parent.id, c.id
}

// name returns the name of the profile, such as MIG 1c.3g.71gb. If all of the GPU instance is used, it is that of the
// GPU instance.
func (c *computeInstance) name() string { return text(c.profile.Name[:]) }

// uuid returns the UUID of the MIG device. It is the same whenever the same instances are made.
func (c *computeInstance) uuid(gpu string) string {
	h := fnv.New128a()
	fmt.Fprintf(h, "%s/%d/%d", gpu, c.parent.id, c.id)
	b := h.Sum(nil)
	b[6], b[8] = b[6]&0xf|0x50, b[8]&0x3f|0x80 // of version 5, as NVIDIA's are
	return "MIG-" + strings.TrimPrefix(hexUUID(b), "GPU-")
}

// gpuProfile returns what a GPU instance of a profile has, and where it can be.
func (g *gpu) gpuProfile(id uint32) (p raw.GpuInstanceProfileInfoV2, places []raw.GpuInstancePlacement, r raw.Return) {
	args := []string{"device", strconv.FormatUint(uint64(id), 10), "#512", "=512"}
	row, _ := g.answers["DeviceGetGpuInstancePossiblePlacementsV2"].find(args)
	if row.result != "0" {
		k, _ := strconv.Atoi(row.result)
		return p, nil, raw.Return(k)
	}
	places = make([]raw.GpuInstancePlacement, memorySlices)
	k, _ := Read(row.outs[0], reflect.ValueOf(places))
	row, _ = g.answers["DeviceGetGpuInstanceProfileInfoByIdV"].find(append(args[:2], "*"))
	_, _ = Read(row.outs[0], reflect.ValueOf(&p))
	return p, places[:k], raw.NVML_SUCCESS
}

// slicesOf are how many slices compute instances have, by their profiles, which have the same number as their kinds.
var slicesOf = [...]uint32{1, 2, 3, 4, 7}

// computeProfile returns what a compute instance of a profile has, and where it can be.
func (i *gpuInstance) computeProfile(id uint32) (p raw.ComputeInstanceProfileInfoV2,
	places []raw.ComputeInstancePlacement, r raw.Return) {
	g := &i.profile
	switch {
	case id >= raw.NVML_COMPUTE_INSTANCE_PROFILE_COUNT:
		return p, nil, raw.NVML_ERROR_INVALID_ARGUMENT
	case id >= uint32(len(slicesOf)), slicesOf[id] > g.SliceCount, slicesOf[id] == 3 && g.SliceCount == 4:
		return p, nil, raw.NVML_ERROR_NOT_SUPPORTED
	}
	size := slicesOf[id]
	align := size
	if size == 3 {
		align = 4
	}
	for start := uint32(0); start+size <= g.SliceCount; start += align {
		places = append(places, raw.ComputeInstancePlacement{Start: start, Size: size})
	}
	p = raw.ComputeInstanceProfileInfoV2{Id: id, SliceCount: size, InstanceCount: uint32(len(places)),
		MultiprocessorCount: i.gpu.profile.MIG.Slice * size, SharedCopyEngineCount: g.CopyEngineCount,
		SharedDecoderCount: g.DecoderCount,
		SharedEncoderCount: g.EncoderCount, SharedJpegCount: g.JpegCount, SharedOfaCount: g.OfaCount}
	name := text(g.Name[:])
	if size == g.SliceCount {
		p.MultiprocessorCount = g.MultiprocessorCount
	} else {
		name = fmt.Sprintf("MIG %dc.%s", size, strings.TrimPrefix(name, "MIG "))
	}
	setChars(p.Name[:], name)
	return p, places, r
}

// free returns the places that nothing has, at most as many as there may yet be of the profile. used has the start and
// the size of what is there.
func free[P ~struct{ Start, Size uint32 }](places, used []P, most int) []P {
	type place = struct{ Start, Size uint32 }
	list := slices.DeleteFunc(slices.Clone(places), func(p P) bool {
		a := place(p)
		return slices.ContainsFunc(used, func(u P) bool {
			b := place(u)
			return a.Start < b.Start+b.Size && b.Start < a.Start+a.Size
		})
	})
	return list[:max(0, min(len(list), most))]
}

// free returns the places for more GPU instances of a profile. The caller holds mu.
func (m *mig) free(p *raw.GpuInstanceProfileInfoV2, places []raw.GpuInstancePlacement) []raw.GpuInstancePlacement {
	var used []raw.GpuInstancePlacement
	most := int(p.InstanceCount)
	for _, i := range m.instances {
		used = append(used, i.at)
		if i.profile.Id == p.Id {
			most--
		}
	}
	return free(places, used, most)
}

// free returns the places for more compute instances. The caller holds mu.
func (i *gpuInstance) free(places []raw.ComputeInstancePlacement) []raw.ComputeInstancePlacement {
	var used []raw.ComputeInstancePlacement
	for _, c := range i.parts {
		used = append(used, c.at)
	}
	return free(places, used, len(places))
}

// choose returns the place that is asked for, or any that is free.
func choose[P comparable](places, free []P, asked *P) (at P, r raw.Return) {
	switch {
	case asked != nil && !slices.Contains(places, *asked):
		return at, raw.NVML_ERROR_INVALID_ARGUMENT
	case asked != nil && slices.Contains(free, *asked):
		return *asked, raw.NVML_SUCCESS
	case asked != nil || len(free) == 0:
		return at, raw.NVML_ERROR_INSUFFICIENT_RESOURCES
	}
	return free[0], raw.NVML_SUCCESS
}

// lowest returns the lowest number that is not taken.
func lowest[T any](list []T, number func(T) uint32) uint32 {
	n := uint32(0)
	for slices.ContainsFunc(list, func(e T) bool { return number(e) == n }) {
		n++
	}
	return n
}

// createGPU makes a GPU instance. The caller holds mu.
func (n *model) createGPU(g *gpu, id uint32, asked *raw.GpuInstancePlacement, instance *raw.GpuInstance) raw.Return {
	p, places, r := g.gpuProfile(id)
	switch {
	case instance == nil:
		return raw.NVML_ERROR_INVALID_ARGUMENT
	case !g.mig.on:
		return raw.NVML_ERROR_NOT_SUPPORTED
	case r != raw.NVML_SUCCESS:
		return r
	}
	at, r := choose(places, g.mig.free(&p, places), asked)
	if r != raw.NVML_SUCCESS {
		return r
	}
	// The numbers are those of a tree: 0 is the whole GPU, 1 and 2 are its halves, and so on.
	i := &gpuInstance{raw.GpuInstance(n.newHandle()), g, memorySlices/at.Size - 1 + at.Start/at.Size, p, at, nil}
	g.mig.instances = append(g.mig.instances, i)
	*instance = i.handle
	n.happens(g, raw.EventMigConfigChange, 0)
	return raw.NVML_SUCCESS
}

// createCompute makes a compute instance. The caller holds mu.
func (n *model) createCompute(i *gpuInstance, id uint32, asked *raw.ComputeInstancePlacement,
	instance *raw.ComputeInstance) raw.Return {
	p, places, r := i.computeProfile(id)
	if r != raw.NVML_SUCCESS || instance == nil {
		return max(r, raw.NVML_ERROR_INVALID_ARGUMENT)
	}
	at, r := choose(places, i.free(places), asked)
	if r != raw.NVML_SUCCESS {
		return r
	}
	c := &computeInstance{handle: raw.ComputeInstance(n.newHandle()), parent: i, profile: p, at: at,
		id:     lowest(i.parts, func(c *computeInstance) uint32 { return c.id }),
		number: lowest(i.gpu.devices(), func(c *computeInstance) uint32 { return c.number })}
	c.device = &gpu{profile: i.gpu.profile, answers: i.gpu.answers, index: i.gpu.index,
		handle: raw.Device(n.newHandle()), part: c}
	i.parts = append(i.parts, c)
	*instance = c.handle
	n.happens(i.gpu, raw.EventMigConfigChange, 0)
	return raw.NVML_SUCCESS
}

// destroyGPU removes a GPU instance. The caller holds mu.
func (n *model) destroyGPU(i *gpuInstance) raw.Return {
	if len(i.parts) > 0 {
		return raw.NVML_ERROR_IN_USE
	}
	m := &i.gpu.mig
	m.instances = slices.DeleteFunc(m.instances, func(other *gpuInstance) bool { return other == i })
	n.happens(i.gpu, raw.EventMigConfigChange, 0)
	return raw.NVML_SUCCESS
}

// destroyCompute removes a compute instance. The caller holds mu.
func (n *model) destroyCompute(c *computeInstance, now GPU) raw.Return {
	i := c.parent
	if len(now.Processes) > 0 && i.gpu.user() == c {
		return raw.NVML_ERROR_IN_USE
	}
	i.parts = slices.DeleteFunc(i.parts, func(other *computeInstance) bool { return other == c })
	n.happens(i.gpu, raw.EventMigConfigChange, 0)
	return raw.NVML_SUCCESS
}

// setMIG changes the mode, or says why it is not active yet. The caller holds mu.
func (g *gpu) setMIG(mode uint32, status *raw.Return, now GPU) raw.Return {
	if mode > raw.NVML_DEVICE_MIG_ENABLE || status == nil {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	m := &g.mig
	m.pending = mode == raw.NVML_DEVICE_MIG_ENABLE
	*status = raw.NVML_SUCCESS
	if m.pending == m.on {
		return raw.NVML_SUCCESS
	}
	if len(now.Processes) > 0 || len(m.instances) > 0 {
		*status = raw.NVML_ERROR_IN_USE
		return raw.NVML_SUCCESS
	}
	m.on = m.pending
	return raw.NVML_SUCCESS
}
