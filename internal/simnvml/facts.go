package simnvml

import (
	"fmt"
	"maps"
	"strings"

	"github.com/purecu/purecu/internal/profile"
)

// recordingOf returns what a GPU answers: what an H200 was recorded to answer, with the facts of the GPU in place of
// its own, and without the functions that the GPU lacks. That other GPUs lack these, and no others, is unverified.
func recordingOf(g *profile.GPU) recording {
	if g == profile.Default() {
		return h200Profile()
	}
	p := maps.Clone(h200Profile())
	change := func(name string, f func(rows map[string]answer)) {
		old := p[name]
		if old == nil {
			return
		}
		changed := *old
		changed.rows = maps.Clone(old.rows)
		f(changed.rows)
		p[name] = &changed
	}
	for name, facts := range parse(strings.Join(facts(g), "")) {
		change(name, func(rows map[string]answer) { maps.Copy(rows, facts.rows) })
	}
	for _, name := range lacking(g) {
		change(name, func(rows map[string]answer) {
			for args, a := range rows {
				if a.result == "0" {
					rows[args] = answer{result: notSupported}
				}
			}
		})
	}
	if g.Memory.Rows == 0 { // pages are retired, and here none
		for _, name := range []string{"DeviceGetRetiredPages", "DeviceGetRetiredPagesV2",
			"DeviceGetRetiredPagesPendingStatus"} {
			change(name, func(rows map[string]answer) {
				for args, a := range rows {
					if a.result == notSupported {
						rows[args] = answer{result: "0", outs: []string{"0"}}
					}
				}
			})
		}
	}
	return p
}

// notSupported is NVML_ERROR_NOT_SUPPORTED.
const notSupported = "3"

// lacking returns the functions that a GPU lacks, apart from those about MIG.
func lacking(g *profile.GPU) (names []string) {
	if g.Memory.Rows == 0 {
		names = append(names, "DeviceGetRemappedRows", "DeviceGetRemappedRowsV2", "DeviceGetRowRemapperHistogram")
	}
	if g.Architecture < 7 {
		names = append(names, "DeviceSetMemoryLockedClocks", "DeviceResetMemoryLockedClocks")
	}
	if g.Architecture < 9 {
		names = append(names, "GpmSampleGet", "GpmMigSampleGet", "GpmQueryIfStreamingEnabled", "GpmSetStreamingEnabled",
			"DeviceGetGpuFabricInfo", "DeviceGetGpuFabricInfoV", "DeviceGetC2cModeInfoV")
	}
	return names
}

// aboutMIG reports whether only GPUs that can be divided have a function.
func aboutMIG(name string) bool {
	return strings.Contains(name, "MigMode") || strings.Contains(name, "GpuInstance") ||
		strings.Contains(name, "ComputeInstance")
}

// facts returns the rows of the table that the facts of a GPU decide.
func facts(g *profile.GPU) (rows []string) {
	add := func(name, args, outs string, a ...any) {
		rows = append(rows, fmt.Sprintf("initialized\t%s\t%s\t0%s\n", name, args, fmt.Sprintf(outs, a...)))
	}
	add("DeviceGetName", "device #512", "\t%q", g.Product)
	add("DeviceGetArchitecture", "device *", "\t%d", g.Architecture)
	if g.Minor() == 0 {
		add("DeviceGetCudaComputeCapability", "device * *", "\t%d", g.Major())
	} else {
		add("DeviceGetCudaComputeCapability", "device * *", "\t%d\t%d", g.Major(), g.Minor())
	}
	add("DeviceGetNumGpuCores", "device *", "\t%d", g.Multiprocessors*g.Cores)
	add("DeviceGetMemoryBusWidth", "device *", "\t%d", g.Memory.BusWidth)
	add("DeviceGetConfComputeMemSizeInfo", "device *", "\t{UnprotectedMemSizeKib:%d}", (g.Memory.Size-driverMemory)>>10)
	const used = 1703936 // of what the processor can address, without a program
	add("DeviceGetBAR1MemoryInfo", "device *", "\t{Bar1Total:%d Bar1Free:%d Bar1Used:%d}", g.Memory.BAR1,
		g.Memory.BAR1-used, used)
	add("DeviceGetRowRemapperHistogram", "device *", "\t{Max:%d}", g.Memory.Rows)
	add("DeviceGetVbiosVersion", "device #512", "\t%q", g.Board.VBIOS)
	add("DeviceGetBoardPartNumber", "device #512", "\t%q", g.Board.Part)
	add("DeviceGetInforomImageVersion", "device #512", "\t%q", g.Board.Image)
	add("DeviceGetInforomVersion", "device 0 #512", "\t%q", g.Board.OEM)
	add("DeviceGetInforomVersion", "device 0 #8", "\t%q", g.Board.OEM)
	add("DeviceGetInforomVersion", "device 1 #512", "\t%q", g.Board.ECC)
	for sensor, celsius := range []int32{g.Temperatures.Shutdown, g.Temperatures.Slowdown, g.Temperatures.Memory,
		g.Temperatures.Most} {
		args := fmt.Sprintf("device %d *", sensor)
		if add("DeviceGetTemperatureThreshold", args, "\t%d", celsius); celsius == 0 {
			rows[len(rows)-1] = "initialized\tDeviceGetTemperatureThreshold\t" + args + "\t" + notSupported + "\n"
		}
	}
	if g.Architecture < 9 {
		add("GpmQueryDeviceSupport", "device *", "")
	}
	rows = append(rows, pciFacts(g)...)
	rows = append(rows, powerFacts(g)...)
	rows = append(rows, clockFacts(g)...)
	return append(rows, migFacts(g)...)
}

// pciFacts are the rows about the PCI bus.
func pciFacts(g *profile.GPU) (rows []string) {
	add := func(name, format string, a ...any) {
		rows = append(rows, fmt.Sprintf("initialized\t%s\tdevice *\t0\t", name)+fmt.Sprintf(format, a...)+"\n")
	}
	ids := fmt.Sprintf("PciDeviceId:%d PciSubSystemId:%d", g.PCI.Device, g.PCI.Subsystem)
	add("DeviceGetPciInfo", `{BusIdLegacy:"0000:00:06.0" Device:6 PciDeviceId:%d}`, g.PCI.Device)
	add("DeviceGetPciInfoExt", `{Device:6 %s BaseClass:3 SubClass:2 BusId:"00000000:00:06.0"}`, ids)
	add("DeviceGetPciInfoV2", `{BusIdLegacy:"0000:00:06.0" Device:6 %s}`, ids)
	add("DeviceGetPciInfoV3", `{BusIdLegacy:"0000:00:06.0" Device:6 %s BusId:"00000000:00:06.0"}`, ids)
	for _, name := range []string{"DeviceGetCurrPcieLinkGeneration", "DeviceGetGpuMaxPcieLinkGeneration",
		"DeviceGetMaxPcieLinkGeneration", "DeviceGetPcieLinkMaxSpeed"} {
		add(name, "%d", g.PCI.Generation)
	}
	add("DeviceGetPcieSpeed", "%d", 1000<<g.PCI.Generation)
	return rows
}

// powerFacts are the rows about power.
func powerFacts(g *profile.GPU) (rows []string) {
	for _, name := range []string{"DeviceGetEnforcedPowerLimit", "DeviceGetPowerManagementDefaultLimit",
		"DeviceGetPowerManagementLimit"} {
		rows = append(rows, fmt.Sprintf("initialized\t%s\tdevice *\t0\t%d\n", name, g.Power.Most))
	}
	rows = append(rows, fmt.Sprintf("initialized\tDeviceGetPowerManagementLimitConstraints\tdevice * *\t0\t%d\t%d\n",
		g.Power.Least, g.Power.Most))
	for field, value := range map[int]uint32{188: g.Power.Most, 189: g.Power.Most, 190: g.Power.Most, 187: g.Power.Least,
		192: g.Power.Most} {
		rows = append(rows, fmt.Sprintf("initialized\tDeviceGetFieldValues\tdevice [{FieldId:%d ScopeId:0}]\t0\t"+
			"[{ValueType:1 Value:[%d]}]\n", field, value))
	}
	return rows
}

// clockFacts are the rows about clocks.
func clockFacts(g *profile.GPU) (rows []string) {
	c := g.Clocks
	add := func(name, args string, values ...int32) {
		row := fmt.Sprintf("initialized\t%s\t%s\t0", name, args)
		for _, v := range values {
			row += fmt.Sprintf("\t%d", v)
		}
		rows = append(rows, row+"\n")
	}
	slow, kinds := c.SlowMemory, []string{"0", "1"} // of the multiprocessors
	if slow == 0 {
		slow = c.Memory
	}
	for _, kind := range kinds {
		add("DeviceGetApplicationsClock", "device "+kind+" *", c.Applications)
		add("DeviceGetDefaultApplicationsClock", "device "+kind+" *", c.Applications)
		add("DeviceGetClock", "device "+kind+" 0 *", c.Idle)
		add("DeviceGetClock", "device "+kind+" 1 *", c.Applications)
		add("DeviceGetClock", "device "+kind+" 2 *", c.Applications)
		add("DeviceGetClock", "device "+kind+" 3 *", c.Graphics)
		add("DeviceGetClockInfo", "device "+kind+" *", c.Idle)
		add("DeviceGetMaxClockInfo", "device "+kind+" *", c.Graphics)
		add("DeviceGetMaxCustomerBoostClock", "device "+kind+" *", c.Graphics)
		add("DeviceGetMinMaxClockOfPState", "device "+kind+" 0 * *", c.Idle, c.Graphics)
		add("DeviceGetMinMaxClockOfPState", "device "+kind+" 2 * *", c.Idle, c.Graphics)
	}
	for _, name := range []string{"DeviceGetApplicationsClock", "DeviceGetDefaultApplicationsClock", "DeviceGetClockInfo",
		"DeviceGetMaxClockInfo"} {
		add(name, "device 2 *", c.Memory)
	}
	for _, id := range []string{"0", "1", "2"} {
		add("DeviceGetClock", "device 2 "+id+" *", c.Memory)
	}
	add("DeviceGetClock", "device 3 0 *", c.IdleVideo)
	add("DeviceGetClockInfo", "device 3 *", c.IdleVideo)
	add("DeviceGetMaxClockInfo", "device 3 *", c.Video)
	add("DeviceGetMinMaxClockOfPState", "device 2 0 * *", c.Memory, c.Memory)
	add("DeviceGetMinMaxClockOfPState", "device 2 2 * *", slow, slow)
	add("DeviceGetMinMaxClockOfPState", "device 3 0 * *", c.IdleVideo, c.Video)
	add("DeviceGetMinMaxClockOfPState", "device 3 2 * *", c.IdleVideo, c.Video)
	if c.SlowMemory != 0 {
		rows = append(rows, fmt.Sprintf("initialized\tDeviceGetSupportedMemoryClocks\tdevice =512 #512\t0\t2\t[%d %d]\n",
			c.Memory, slow))
	} else {
		rows = append(rows, fmt.Sprintf("initialized\tDeviceGetSupportedMemoryClocks\tdevice =512 #512\t0\t1\t[%d]\n",
			c.Memory))
	}
	state := func(memory int32) string {
		return fmt.Sprintf("nvclock=%d, nvclockmin=%[1]d, nvclockmax=%d, nvclockeditable=0, memclock=%d, memclockmin=%[3]d, "+
			"memclockmax=%[3]d, memclockeditable=0, memTransferRate=%d, memTransferRatemin=%[4]d, memTransferRatemax=%[4]d, "+
			"memTransferRateeditable=0", c.Idle, c.Graphics, memory, 2*memory)
	}
	return append(rows,
		fmt.Sprintf("initialized\tDeviceGetCurrentClockFreqs\tdevice *\t0\t{Str:%q}\n", state(c.Memory)),
		fmt.Sprintf("initialized\tDeviceGetPerformanceModes\tdevice *\t0\t{Str:%q}\n",
			"perf=0, "+state(slow)+" ; perf=1, "+state(c.Memory)))
}

// migFacts are the rows about GPU instances.
func migFacts(g *profile.GPU) (rows []string) {
	if g.MIG == nil {
		return nil
	}
	for _, i := range g.MIG.Instances {
		info, name := "", fmt.Sprintf("Name:%q", "MIG "+i.Name)
		for _, member := range []struct {
			name  string
			value uint64
		}{{"Id", uint64(i.ID)}, {"SliceCount", uint64(i.Slices)}, {"InstanceCount", uint64(i.Count)},
			{"MultiprocessorCount", uint64(i.Multiprocessors)}, {"CopyEngineCount", uint64(i.Copy)},
			{"DecoderCount", uint64(i.Decoders)}, {"EncoderCount", uint64(i.Encoders)}, {"JpegCount", uint64(i.JPEG)},
			{"OfaCount", uint64(i.OFA)}, {"MemorySizeMB", i.Memory}} {
			if member.value != 0 {
				info += fmt.Sprintf("%s:%d ", member.name, member.value)
			}
		}
		rows = append(rows,
			fmt.Sprintf("initialized\tDeviceGetGpuInstanceProfileInfo\tdevice %d *\t0\t{%s}\n", i.Profile,
				strings.TrimSuffix(info, " ")),
			fmt.Sprintf("initialized\tDeviceGetGpuInstanceProfileInfoV\tdevice %d *\t0\t{%s}\n", i.Profile, info+name),
			fmt.Sprintf("initialized\tDeviceGetGpuInstanceProfileInfoByIdV\tdevice %d *\t0\t{%s}\n", i.ID, info+name))
	}
	return rows
}
