package nvml

import (
	"bytes"
	"unsafe"

	"github.com/purecu/purecu/nvml/raw"
)

// VgpuMetadata describes a vGPU. OpaqueData is what only the library understands.
type VgpuMetadata struct {
	nvmlVgpuMetadata
	OpaqueData []byte
}

// VgpuPgpuMetadata describes a GPU that has vGPUs. OpaqueData is what only the library understands.
type VgpuPgpuMetadata struct {
	nvmlVgpuPgpuMetadata
	OpaqueData []byte
}

// opaque is the length of the data that structs of C have at their end. There may be more in memory.
const opaque = 4

// metadata makes a call with longer and longer memory, which begins with *p, and returns what is behind it.
func metadata[T any](p *T, call func(memory []byte, n *uint32) raw.Return) ([]byte, Return) {
	head := int(unsafe.Sizeof(*p)) - opaque
	for length := opaque; ; length *= 2 {
		memory := make([]byte, head+length)
		n := uint32(len(memory))
		switch ret := result(call(memory, &n)); ret {
		case SUCCESS:
			copy(asBytes(p), memory)
			return memory[head:max(head, min(int(n), len(memory)))], ret
		case ERROR_INSUFFICIENT_SIZE:
		default:
			return nil, ret
		}
	}
}

// GetMetadata calls nvmlVgpuInstanceGetMetadata.
func (vgpuInstance nvmlVgpuInstance) GetMetadata() (m VgpuMetadata, ret Return) {
	m.OpaqueData, ret = metadata(&m.nvmlVgpuMetadata, func(memory []byte, n *uint32) raw.Return {
		return native().VgpuInstanceGetMetadata(raw.VgpuInstance(vgpuInstance), memory, n)
	})
	return m, ret
}

// GetVgpuMetadata calls nvmlDeviceGetVgpuMetadata.
func (device nvmlDevice) GetVgpuMetadata() (m VgpuPgpuMetadata, ret Return) {
	m.OpaqueData, ret = metadata(&m.nvmlVgpuPgpuMetadata, func(memory []byte, n *uint32) raw.Return {
		return native().DeviceGetVgpuMetadata(device.Handle, memory, n)
	})
	return m, ret
}

// GetVgpuCompatibility calls nvmlGetVgpuCompatibility.
func (l *library) GetVgpuCompatibility(vgpuMetadata *VgpuMetadata,
	pgpuMetadata *VgpuPgpuMetadata) (VgpuPgpuCompatibility, Return) {
	var c VgpuPgpuCompatibility
	vgpu := withOpaque(&vgpuMetadata.nvmlVgpuMetadata, vgpuMetadata.OpaqueData)
	pgpu := withOpaque(&pgpuMetadata.nvmlVgpuPgpuMetadata, pgpuMetadata.OpaqueData)
	ret := result(native().GetVgpuCompatibility(raw.At[raw.VgpuMetadata](vgpu), raw.At[raw.VgpuPgpuMetadata](pgpu),
		as[raw.VgpuPgpuCompatibility](&c)))
	return c, ret
}

// withOpaque returns memory with a struct and then the data, which may be longer than their place in the struct.
func withOpaque[T any](p *T, data []byte) []byte {
	memory := bytes.Clone(asBytes(p))
	if len(data) == 0 {
		return memory
	}
	memory = append(memory[:len(memory)-opaque], data...)
	return append(memory, make([]byte, opaque)...)
}
