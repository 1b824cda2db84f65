package main

import (
	"bytes"
	"fmt"
	"strings"
)

// mapTypes are the types of the tables of MIG profiles.
var mapTypes = map[string]string{
	"gi": "map[int]nvml.GpuInstanceProfileInfo", "ci": "map[int]map[int]nvml.ComputeInstanceProfileInfo",
	"giplace": "map[int][]nvml.GpuInstancePlacement", "ciplace": "map[int]map[int][]nvml.ComputeInstancePlacement",
}

// emitGPUs writes the GPUs of the mock servers, and the servers.
func emitGPUs(o output, file string) error {
	table, err := rows(file)
	if err != nil {
		return err
	}
	b := o.file("pkg/nvml/mock/gpus/zgpus.go", "package gpus\n\nimport \"github.com/NVIDIA/go-nvml/pkg/nvml\"\n\n")
	b.WriteString("// The GPUs.\nvar (\n")
	for _, r := range table {
		if r[0] == "gpu" {
			fmt.Fprintf(b, "%s = Config{Name: %q, Architecture: %s, Brand: %s, MemoryMB: %s, CudaMajor: %s, CudaMinor: %s, "+
				"PciDeviceId: %s, MIGProfiles: MIGProfileConfig{gi_%s, ci_%s, giplace_%[10]s, ciplace_%[10]s}}\n",
				r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10])
		}
	}
	b.WriteString(")\n")
	open, outer := "", ""
	for _, r := range append(table, []string{"", "", ""}) {
		typ, ok := mapTypes[r[0]]
		if name := r[0] + "_" + r[1]; name != open {
			if outer != "" {
				b.WriteString("},\n")
			}
			if open != "" {
				b.WriteString("}\n")
			}
			if open, outer = "", ""; !ok {
				continue
			}
			open = name
			fmt.Fprintf(b, "\nvar %s = %s{\n", name, typ)
		}
		key, inner, nested := strings.Cut(r[2], " ")
		if nested && key != outer {
			if outer != "" {
				b.WriteString("},\n")
			}
			outer = key
			fmt.Fprintf(b, "%s: {\n", key)
		}
		if nested {
			key = inner
		}
		values := ""
		if len(r) > 3 {
			values = r[3]
		}
		fmt.Fprintf(b, "%s: {%s},\n", key, literal(r[0], values))
	}
	for _, r := range table {
		if r[0] == "dgx" {
			emitDGX(o.file("pkg/nvml/mock/"+r[1]+"/z"+r[1]+".go", ""), r[1], r[2], r[3], r[4])
		}
	}
	return nil
}

// literal returns the fields of a profile, or placements.
func literal(kind, values string) string {
	var s []string
	for v := range strings.FieldsSeq(values) {
		if start, size, ok := strings.Cut(v, "+"); ok {
			v = fmt.Sprintf("{Start: %s, Size: %s}", start, size)
		}
		s = append(s, strings.Replace(v, "=", ": ", 1))
	}
	return strings.Join(s, ", ")
}

// dgxTemplate is a package of one mock server: its name, the GPU, the driver's version, and that of CUDA.
const dgxTemplate = `// Package %[1]s is a server of eight mocked GPUs.
package %[1]s

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// New returns the server.
func New() *server.Server { return NewWithGPUs(gpus.Multiple(8, gpus.%[2]s)...) }

// NewWithGPUs returns a server with other GPUs.
func NewWithGPUs(gpus ...gpus.Config) *server.Server {
	return server.NewServerWithGPUs(%[3]q, "12.%[3]s", %[4]s, gpus...)
}

// NewDevice returns a GPU.
func NewDevice(index int) *server.Device { return server.NewDeviceFromConfig(gpus.%[2]s, index) }

// NewGpuInstance returns a GPU instance.
func NewGpuInstance(info nvml.GpuInstanceInfo) *server.GpuInstance {
	return server.NewGpuInstanceFromInfo(info, gpus.%[2]s.MIGProfiles)
}

// NewComputeInstance returns a compute instance.
func NewComputeInstance(info nvml.ComputeInstanceInfo) *server.ComputeInstance {
	return server.NewComputeInstanceFromInfo(info)
}

// MIGProfiles are the profiles of the GPU.
var MIGProfiles = struct {
	GpuInstanceProfiles     map[int]nvml.GpuInstanceProfileInfo
	ComputeInstanceProfiles map[int]map[int]nvml.ComputeInstanceProfileInfo
}{gpus.%[2]s.MIGProfiles.GpuInstanceProfiles, gpus.%[2]s.MIGProfiles.ComputeInstanceProfiles}

// MIGPlacements are the placements of the GPU's instances.
var MIGPlacements = struct {
	GpuInstancePossiblePlacements     map[int][]nvml.GpuInstancePlacement
	ComputeInstancePossiblePlacements map[int]map[int][]nvml.ComputeInstancePlacement
}{gpus.%[2]s.MIGProfiles.GpuInstancePlacements, gpus.%[2]s.MIGProfiles.ComputeInstancePlacements}
`

func emitDGX(b *bytes.Buffer, name, gpu, driver, cuda string) {
	fmt.Fprintf(b, dgxTemplate, name, gpu, driver, cuda)
	if name == "dgxa100" {
		b.WriteString("\n// The types of the server. They are older than package server.\ntype (\n")
		for _, t := range []string{"ComputeInstance", "CudaComputeCapability", "Device", "GpuInstance", "Server"} {
			fmt.Fprintf(b, "%s = server.%[1]s\n", t)
		}
		b.WriteString(")\n")
	}
}
