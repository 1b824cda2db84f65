package simnvml

import (
	"fmt"

	"github.com/purecu/purecu/nvml/raw"
)

// DeviceGetCount returns the number of GPUs.
func (n *model) DeviceGetCount(count *uint32) raw.Return { return n.DeviceGetCountV2(count) }

// DeviceGetCountV2 returns the number of GPUs.
func (n *model) DeviceGetCountV2(count *uint32) raw.Return {
	r := n.answers.DeviceGetCountV2(count)
	if r == raw.NVML_SUCCESS {
		*count = uint32(len(n.gpus))
	}
	return r
}

// lookUp sets a device to the GPU or the MIG device that is found. checks is the result of a call of the answers that
// checks the other arguments, and none the result if there is no such GPU.
func (n *model) lookUp(checks, none raw.Return, device *raw.Device, found func(g *gpu, now GPU) bool) raw.Return {
	if checks != raw.NVML_SUCCESS {
		return checks
	}
	*device = 0
	all := n.machine.GPUs()
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, g := range n.gpus {
		list := []*gpu{g}
		for _, c := range g.devices() {
			list = append(list, c.device)
		}
		for _, d := range list {
			if !found(d, d.view(all[i])) {
				continue
			}
			if g.lost {
				return raw.NVML_ERROR_GPU_IS_LOST
			}
			*device = d.handle
			return raw.NVML_SUCCESS
		}
	}
	return none
}

// byIndex finds a GPU by its number.
func byIndex(index uint32) func(*gpu, GPU) bool {
	return func(g *gpu, _ GPU) bool { return g.part == nil && uint32(g.index) == index }
}

// DeviceGetHandleByIndex returns a GPU by its number.
func (n *model) DeviceGetHandleByIndex(index uint32, device *raw.Device) raw.Return {
	return n.lookUp(n.answers.DeviceGetHandleByIndex(0, device), raw.NVML_ERROR_INVALID_ARGUMENT, device,
		byIndex(index))
}

// DeviceGetHandleByIndexV2 returns a GPU by its number.
func (n *model) DeviceGetHandleByIndexV2(index uint32, device *raw.Device) raw.Return {
	return n.lookUp(n.answers.DeviceGetHandleByIndexV2(0, device), raw.NVML_ERROR_INVALID_ARGUMENT, device,
		byIndex(index))
}

// DeviceGetHandleByUUID returns a GPU by its UUID.
func (n *model) DeviceGetHandleByUUID(uuid string, device *raw.Device) raw.Return {
	return n.lookUp(n.checked("DeviceGetHandleByUUID", device), raw.NVML_ERROR_NOT_FOUND, device,
		func(_ *gpu, now GPU) bool { return now.has(uuid) })
}

// has reports whether a text is the UUID. As with an H200, the prefix may be left out.
func (g *GPU) has(uuid string) bool { return uuid == g.UUID || uuid == g.UUID[len("GPU-"):] }

// DeviceGetHandleByUUIDV returns a GPU by its UUID, as text or as bytes.
func (n *model) DeviceGetHandleByUUIDV(uuid *raw.UUID, device *raw.Device) raw.Return {
	r := n.answers.DeviceGetHandleByUUIDV(uuid, device)
	if r != raw.NVML_ERROR_INVALID_ARGUMENT || uuid == nil || device == nil {
		return r
	}
	return n.lookUp(raw.NVML_SUCCESS, r, device, func(_ *gpu, now GPU) bool {
		return uuid.Type == 1 && now.has(text(uuid.Value.Str()[:])) ||
			uuid.Type == 2 && now.has(hexUUID(uuid.Value.Bytes()[:])[len("GPU-"):])
	})
}

// DeviceGetHandleBySerial returns a GPU by its serial number.
func (n *model) DeviceGetHandleBySerial(serial string, device *raw.Device) raw.Return {
	return n.lookUp(n.checked("DeviceGetHandleBySerial", device), raw.NVML_ERROR_NOT_FOUND, device,
		func(g *gpu, _ GPU) bool { return g.part == nil && serialOf(g.index) == serial })
}

// DeviceGetHandleByPciBusId returns a GPU by its place on the PCI bus.
func (n *model) DeviceGetHandleByPciBusId(id string, device *raw.Device) raw.Return {
	return n.byPCI("DeviceGetHandleByPciBusId", id, device)
}

// DeviceGetHandleByPciBusIdV2 returns a GPU by its place on the PCI bus.
func (n *model) DeviceGetHandleByPciBusIdV2(id string, device *raw.Device) raw.Return {
	return n.byPCI("DeviceGetHandleByPciBusIdV2", id, device)
}

// byPCI returns a GPU by its place on the PCI bus, with or without the domain.
func (n *model) byPCI(method, id string, device *raw.Device) raw.Return {
	none := raw.NVML_ERROR_NOT_FOUND
	var domain, bus, slot, function uint32
	var more string
	if k, _ := fmt.Sscanf(id, "%x:%x:%x.%x%s", &domain, &bus, &slot, &function, &more); k != 4 {
		domain = 0
		if k, _ := fmt.Sscanf(id, "%x:%x.%x%s", &bus, &slot, &function, &more); k != 3 {
			none = raw.NVML_ERROR_INVALID_ARGUMENT
		}
	}
	return n.lookUp(n.checked(method, device), none, device, func(g *gpu, now GPU) bool {
		return g.part == nil && none == raw.NVML_ERROR_NOT_FOUND && domain|slot|function == 0 && now.Bus == bus
	})
}

// checked checks the arguments of a function that takes a text, which is not checked.
func (n *model) checked(method string, device *raw.Device) raw.Return {
	r := n.answer(method, "", device)
	if device != nil && (r == raw.NVML_ERROR_NOT_FOUND || r == raw.NVML_ERROR_INVALID_ARGUMENT) {
		return raw.NVML_SUCCESS
	}
	return r
}

// hexUUID returns the text of a UUID.
func hexUUID(b []byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// serialOf returns the serial number of a GPU.
func serialOf(index int) string { return fmt.Sprintf("16500000000%02d", index) }

// DeviceGetIndex returns the number of a GPU, or of a MIG device among those of its GPU.
func (n *model) DeviceGetIndex(device raw.Device, index *uint32) raw.Return {
	return n.then(n.answers.DeviceGetIndex(device, index), device, func(g *gpu, _ GPU) {
		if *index = uint32(g.index); g.part != nil {
			*index = g.part.number
		}
	})
}

// DeviceGetMinorNumber returns the number in the name of the GPU's file.
func (n *model) DeviceGetMinorNumber(device raw.Device, minor *uint32) raw.Return {
	return n.then(n.answers.DeviceGetMinorNumber(device, minor), device, func(g *gpu, _ GPU) { *minor = uint32(g.index) })
}

// DeviceGetModuleId returns the GPU's place on the baseboard.
func (n *model) DeviceGetModuleId(device raw.Device, id *uint32) raw.Return {
	return n.then(n.answers.DeviceGetModuleId(device, id), device, func(g *gpu, _ GPU) { *id = uint32(g.index + 1) })
}

// DeviceGetBoardId returns the number of the board.
func (n *model) DeviceGetBoardId(device raw.Device, id *uint32) raw.Return {
	return n.then(n.answers.DeviceGetBoardId(device, id), device, func(_ *gpu, now GPU) { *id = now.Bus << 8 })
}

// chars sets the text of a GPU if the answers have accepted the call, or have found the buffer too short for theirs.
func (n *model) chars(r raw.Return, device raw.Device, to []byte, value func(*gpu, GPU) string) raw.Return {
	if r == raw.NVML_ERROR_INSUFFICIENT_SIZE {
		r = raw.NVML_SUCCESS
	}
	return n.check(r, device, func(g *gpu, now GPU) raw.Return { return setText(to, value(g, now)) })
}

// DeviceGetName returns the name of the product.
func (n *model) DeviceGetName(device raw.Device, name []byte) raw.Return {
	return n.chars(n.answers.DeviceGetName(device, name), device, name, func(_ *gpu, now GPU) string { return now.Name })
}

// DeviceGetUUID returns the UUID.
func (n *model) DeviceGetUUID(device raw.Device, uuid []byte) raw.Return {
	return n.chars(n.answers.DeviceGetUUID(device, uuid), device, uuid, func(_ *gpu, now GPU) string { return now.UUID })
}

// DeviceGetSerial returns the serial number.
func (n *model) DeviceGetSerial(device raw.Device, serial []byte) raw.Return {
	return n.chars(n.answers.DeviceGetSerial(device, serial), device, serial,
		func(g *gpu, _ GPU) string { return serialOf(g.index) })
}

// setPCI sets the place of a GPU.
func (n *model) setPCI(r raw.Return, device raw.Device, pci *raw.PciInfo) raw.Return {
	return n.then(r, device, func(_ *gpu, now GPU) {
		pci.Domain, pci.Bus, pci.Device = 0, now.Bus, 0
		setChars(pci.BusIdLegacy[:], fmt.Sprintf("0000:%02X:00.0", now.Bus))
		if pci.BusId[0] != 0 { // the older functions leave it alone
			setChars(pci.BusId[:], busID(now.Bus))
		}
	})
}

// busID returns the text of a place on the PCI bus.
func busID(bus uint32) string { return fmt.Sprintf("00000000:%02X:00.0", bus) }

// DeviceGetPciInfo returns the place of a GPU on the PCI bus.
func (n *model) DeviceGetPciInfo(device raw.Device, pci *raw.PciInfo) raw.Return {
	return n.setPCI(n.answers.DeviceGetPciInfo(device, pci), device, pci)
}

// DeviceGetPciInfoV2 returns the place of a GPU on the PCI bus.
func (n *model) DeviceGetPciInfoV2(device raw.Device, pci *raw.PciInfo) raw.Return {
	return n.setPCI(n.answers.DeviceGetPciInfoV2(device, pci), device, pci)
}

// DeviceGetPciInfoV3 returns the place of a GPU on the PCI bus.
func (n *model) DeviceGetPciInfoV3(device raw.Device, pci *raw.PciInfo) raw.Return {
	return n.setPCI(n.answers.DeviceGetPciInfoV3(device, pci), device, pci)
}

// DeviceGetPciInfoExt returns the place of a GPU on the PCI bus.
func (n *model) DeviceGetPciInfoExt(device raw.Device, pci *raw.PciInfoExt) raw.Return {
	return n.then(n.answers.DeviceGetPciInfoExt(device, pci), device, func(_ *gpu, now GPU) {
		pci.Domain, pci.Bus, pci.Device = 0, now.Bus, 0
		setChars(pci.BusId[:], busID(now.Bus))
	})
}

// DeviceGetPdi returns the number that identifies the chip.
func (n *model) DeviceGetPdi(device raw.Device, pdi *raw.Pdi) raw.Return {
	return n.then(n.answers.DeviceGetPdi(device, pdi), device, func(g *gpu, _ GPU) {
		pdi.Value = 0x5ca1ab1e<<32 | uint64(g.index)
	})
}

// SystemGetCudaDriverVersion returns the version of CUDA.
func (n *model) SystemGetCudaDriverVersion(version *int32) raw.Return {
	return n.setVersion(n.answers.SystemGetCudaDriverVersion(version), version)
}

// SystemGetCudaDriverVersionV2 returns the version of CUDA.
func (n *model) SystemGetCudaDriverVersionV2(version *int32) raw.Return {
	return n.setVersion(n.answers.SystemGetCudaDriverVersionV2(version), version)
}

func (n *model) setVersion(r raw.Return, version *int32) raw.Return {
	if r == raw.NVML_SUCCESS {
		*version = int32(n.machine.DriverVersion())
	}
	return r
}
