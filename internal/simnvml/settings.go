package simnvml

import (
	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/nvml/raw"
)

// settings are what a program can set. They are kept until the process ends.
type settings struct {
	powerLimit  uint32 // in milliwatts
	persistence raw.EnableState
	reasons     uint64 // why clocks are not higher
}

func newSettings(p *profile.GPU) settings {
	return settings{powerLimit: p.Power.Most, persistence: raw.NVML_FEATURE_ENABLED}
}

// change makes a call that changes a GPU.
func (n *model) change(method string, device raw.Device, f func(g *gpu) raw.Return, args ...any) raw.Return {
	return about(n, n.find, method, device, func(g *gpu, _ []GPU) raw.Return { return f(g) }, args...)
}

// DeviceSetPowerManagementLimit sets how much power the GPU may draw.
func (n *model) DeviceSetPowerManagementLimit(device raw.Device, limit uint32) raw.Return {
	return n.change("DeviceSetPowerManagementLimit", device, func(g *gpu) raw.Return {
		if limit < g.profile.Power.Least || limit > g.profile.Power.Most {
			return raw.NVML_ERROR_INVALID_ARGUMENT
		}
		g.powerLimit = limit
		return raw.NVML_SUCCESS
	}, limit)
}

// DeviceGetPowerManagementLimit returns how much power the GPU may draw.
func (n *model) DeviceGetPowerManagementLimit(device raw.Device, limit *uint32) raw.Return {
	return n.then(n.answers.DeviceGetPowerManagementLimit(device, limit), device,
		func(g *gpu, _ GPU) { *limit = g.powerLimit })
}

// DeviceGetEnforcedPowerLimit returns how much power the GPU may draw.
func (n *model) DeviceGetEnforcedPowerLimit(device raw.Device, limit *uint32) raw.Return {
	return n.then(n.answers.DeviceGetEnforcedPowerLimit(device, limit), device,
		func(g *gpu, _ GPU) { *limit = g.powerLimit })
}

// DeviceSetPersistenceMode keeps the GPU initialized while nobody uses it, or not.
func (n *model) DeviceSetPersistenceMode(device raw.Device, mode raw.EnableState) raw.Return {
	return n.change("DeviceSetPersistenceMode", device, func(g *gpu) raw.Return {
		if mode > raw.NVML_FEATURE_ENABLED {
			return raw.NVML_ERROR_INVALID_ARGUMENT
		}
		g.persistence = mode
		return raw.NVML_SUCCESS
	}, mode)
}

// DeviceGetPersistenceMode reports whether the GPU is kept initialized.
func (n *model) DeviceGetPersistenceMode(device raw.Device, mode *raw.EnableState) raw.Return {
	return n.then(n.answers.DeviceGetPersistenceMode(device, mode), device, func(g *gpu, _ GPU) { *mode = g.persistence })
}
