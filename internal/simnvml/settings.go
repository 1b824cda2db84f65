package simnvml

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"

	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/nvml/raw"
)

// setting is the number of something that a program can set of a GPU.
type setting int

const (
	powerLimit setting = iota // in milliwatts; it is never 0
	persistence
	computeMode
	eccMode
	eccPending // the mode after the next reset
	accounting
	gpmStreaming
	leastClock // between which the multiprocessors' clock is locked, in MHz, or 0
	mostClock
	leastMemoryClock // the same of the memory
	mostMemoryClock
	appClock // that programs get, or 0: then a GPU that works has its highest clock
	appMemoryClock
	accountsFrom  // when accounting was switched on, in nanoseconds
	accountsAfter // when the accounts of ended processes were deleted
	settingCount
)

// Settings are what programs can set of a GPU. Which values are valid, and what else happens, follows the
// documentation: no GPU was asked.
type Settings [settingCount]uint64

// NewSettings returns the settings of a GPU that nobody has changed.
func NewSettings(p *profile.GPU) Settings {
	return Settings{powerLimit: uint64(p.Power.Most), persistence: 1, eccMode: 1, eccPending: 1,
		appMemoryClock: uint64(p.Clocks.Memory)}
}

// get returns the value of a setting.
func (s *Settings) get(which setting, p *profile.GPU) uint64 {
	if which == appClock {
		return cmp.Or(s[appClock], uint64(p.Clocks.Applications))
	}
	return s[which]
}

// getters are the functions that return settings, with the numbers among their arguments.
var getters = map[string][]setting{
	"DeviceGetPowerManagementLimit": {powerLimit},
	"DeviceGetEnforcedPowerLimit":   {powerLimit},
	"DeviceGetPersistenceMode":      {persistence},
	"DeviceGetComputeMode":          {computeMode},
	"DeviceGetEccMode":              {eccMode, eccPending},
	"DeviceGetAccountingMode":       {accounting},
	"GpmQueryIfStreamingEnabled":    {gpmStreaming},
	"DeviceGetApplicationsClock 0":  {appClock},
	"DeviceGetApplicationsClock 1":  {appClock},
	"DeviceGetApplicationsClock 2":  {appMemoryClock},
	"DeviceGetClock 0 1":            {appClock},
	"DeviceGetClock 1 1":            {appClock},
	"DeviceGetClock 2 1":            {appMemoryClock},
}

// settingFields are the fields that have settings.
var settingFields = map[uint32]setting{
	raw.NVML_FI_DEV_POWER_CURRENT_LIMIT:   powerLimit,
	raw.NVML_FI_DEV_POWER_REQUESTED_LIMIT: powerLimit,
	raw.NVML_FI_DEV_ECC_CURRENT:           eccMode,
	raw.NVML_FI_DEV_ECC_PENDING:           eccPending,
}

// setter is a function that changes settings.
type setter struct {
	settings []setting // the values are the arguments behind the device
	// check returns why the values are wrong. It may change them. nil sets the values of a GPU that nobody has changed.
	check func(p *profile.GPU, v []uint32) raw.Return
	// also changes further settings, at a time. It may be nil.
	also func(before Settings, s *Settings, now uint64)
}

// setters are the functions that change settings.
var setters = map[string]setter{
	"DeviceSetPowerManagementLimit": {[]setting{powerLimit},
		func(p *profile.GPU, v []uint32) raw.Return {
			return valid(p.Power.Least <= v[0] && v[0] <= p.Power.Most)
		}, nil},
	"DeviceSetPersistenceMode": {[]setting{persistence}, onOff, nil},
	"DeviceSetComputeMode": {[]setting{computeMode}, func(_ *profile.GPU, v []uint32) raw.Return {
		if v[0] == uint32(raw.NVML_COMPUTEMODE_EXCLUSIVE_THREAD) { // deprecated
			return raw.NVML_ERROR_NOT_SUPPORTED
		}
		return valid(v[0] <= uint32(raw.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS))
	}, nil},
	"DeviceSetEccMode":           {[]setting{eccPending}, onOff, nil},
	"DeviceSetAccountingMode":    {[]setting{accounting}, onOff, beginAccounts},
	"DeviceClearAccountingPids":  {nil, nil, func(_ Settings, s *Settings, now uint64) { s[accountsAfter] = now }},
	"GpmSetStreamingEnabled":     {[]setting{gpmStreaming}, onOff, nil},
	"DeviceSetGpuLockedClocks":   {[]setting{leastClock, mostClock}, lockedClocks, nil},
	"DeviceResetGpuLockedClocks": {[]setting{leastClock, mostClock}, nil, nil},
	"DeviceSetMemoryLockedClocks": {[]setting{leastMemoryClock, mostMemoryClock}, func(p *profile.GPU,
		v []uint32) raw.Return {
		return valid(v[0] <= v[1] && isMemoryClock(p, v[0]) && isMemoryClock(p, v[1]))
	}, nil},
	"DeviceResetMemoryLockedClocks": {[]setting{leastMemoryClock, mostMemoryClock}, nil, nil},
	"DeviceSetApplicationsClocks": {[]setting{appMemoryClock, appClock}, func(p *profile.GPU, v []uint32) raw.Return {
		idle, full := uint32(p.Clocks.Idle), uint32(p.Clocks.Graphics)
		return valid(isMemoryClock(p, v[0]) && idle <= v[1] && v[1] <= full && (full-v[1])%uint32(p.Clocks.Step) == 0)
	}, nil},
	"DeviceResetApplicationsClocks": {[]setting{appMemoryClock, appClock}, nil, nil},
}

// lockedClocks checks two clocks between which that of the multiprocessors is locked. Both or none of them are symbols:
// the TDP is the highest clock here. Without a limit for both the clock is not locked.
func lockedClocks(p *profile.GPU, v []uint32) raw.Return {
	const tdp, unlimited = uint32(raw.NVML_CLOCK_LIMIT_ID_TDP), uint32(raw.NVML_CLOCK_LIMIT_ID_UNLIMITED)
	isSymbol := func(v uint32) bool { return v == tdp || v == unlimited }
	highest := uint32(p.Clocks.Graphics)
	switch least, most := v[0], v[1]; {
	case !isSymbol(least) && !isSymbol(most):
		return valid(uint32(p.Clocks.Idle) <= least && least <= most && most <= highest)
	case !isSymbol(least) || !isSymbol(most):
		return raw.NVML_ERROR_INVALID_ARGUMENT
	case least == tdp:
		v[0], v[1] = highest, highest
	case most == tdp:
		v[0], v[1] = 0, highest
	default:
		v[0], v[1] = 0, 0
	}
	return raw.NVML_SUCCESS
}

func isMemoryClock(p *profile.GPU, mhz uint32) bool {
	return mhz != 0 && (mhz == uint32(p.Clocks.Memory) || mhz == uint32(p.Clocks.SlowMemory))
}

func onOff(_ *profile.GPU, v []uint32) raw.Return {
	return valid(v[0] <= uint32(raw.NVML_FEATURE_ENABLED))
}

func valid(ok bool) raw.Return {
	if !ok {
		return raw.NVML_ERROR_INVALID_ARGUMENT
	}
	return raw.NVML_SUCCESS
}

// set makes a call that changes settings of a GPU. Without one the answers know the result.
func (a answers) set(name string, args []any) (r raw.Return, ok bool) {
	s, ok := setters[name]
	if !ok {
		return r, false
	}
	index, ok := a.indexOf(args[0])
	if !ok {
		return r, false
	}
	v, p := make([]uint32, len(s.settings)), a.gpus[index].profile
	if slices.Contains(lacking(p), name) {
		return raw.NVML_ERROR_NOT_SUPPORTED, true
	}
	for i, usual := range s.settings {
		v[i] = uint32(NewSettings(p)[usual])
		if s.check != nil {
			v[i] = uint32(reflect.ValueOf(args[1+i]).Uint())
		}
	}
	if s.check != nil {
		if r := s.check(p, v); r != raw.NVML_SUCCESS {
			return r, true
		}
	}
	now := uint64(a.machine.Clock().Now().UnixNano())
	err := a.machine.Change(index, func(all *Settings) {
		before := *all
		for i, changed := range s.settings {
			all[changed] = uint64(v[i])
		}
		if s.also != nil {
			s.also(before, all, now)
		}
	})
	switch {
	case errors.Is(err, fs.ErrPermission):
		return raw.NVML_ERROR_NO_PERMISSION, true
	case err != nil:
		a.machine.Misuse(export(name), err.Error())
		return raw.NVML_ERROR_UNKNOWN, true
	}
	return raw.NVML_SUCCESS, true
}

// get sets the settings that a call returns which has succeeded.
func (a answers) get(name string, args []any) {
	key := name
	var outs []reflect.Value
	for _, arg := range args {
		switch v := reflect.ValueOf(arg); v.Kind() {
		case reflect.Pointer:
			outs = append(outs, v.Elem())
		case reflect.Int32, reflect.Uint32:
			key += " " + Text(v)
		}
	}
	list, ok := getters[key]
	if !ok {
		return
	}
	if index, ok := a.indexOf(args[0]); ok {
		now := a.machine.GPUs()[index]
		for i, s := range list {
			outs[i].SetUint(now.Settings.get(s, now.Profile))
		}
	}
}

// indexOf returns the number of the GPU with this handle.
func (s *state) indexOf(handle any) (index int, ok bool) {
	h, _ := handle.(raw.Device)
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.find(h)
	if g == nil {
		return 0, false
	}
	return g.index, true
}

// needECC are the functions that need the mode in which the memory's errors are found.
var needECC = []string{"DeviceGetTotalEccErrors", "DeviceGetDetailedEccErrors", "DeviceGetMemoryErrorCounter"}

// withoutECC reports whether a function of a GPU needs the mode, which is off.
func (a answers) withoutECC(name string, args []any) bool {
	if !slices.Contains(needECC, name) {
		return false
	}
	index, ok := a.indexOf(args[0])
	return ok && a.machine.GPUs()[index].Settings[eccMode] == 0
}

// change makes a call that changes a GPU.
func (n *model) change(method string, device raw.Device, f func(g *gpu) raw.Return, args ...any) raw.Return {
	return about(n, n.find, method, device, func(g *gpu, _ []GPU) raw.Return { return f(g) }, args...)
}

// DeviceSetPowerManagementLimitV2 sets how much power the GPU may draw.
func (n *model) DeviceSetPowerManagementLimitV2(device raw.Device, limit *raw.PowerValueV2) raw.Return {
	if _, ok := n.indexOf(device); !ok || limit == nil {
		return n.answers.DeviceSetPowerManagementLimitV2(device, limit)
	}
	switch {
	case limit.Version != raw.PowerValueV2Version:
		return raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
	case limit.PowerScope > raw.NVML_POWER_SCOPE_MEMORY:
		return raw.NVML_ERROR_INVALID_ARGUMENT
	case limit.PowerScope != raw.NVML_POWER_SCOPE_GPU:
		return raw.NVML_ERROR_NOT_SUPPORTED
	}
	return n.DeviceSetPowerManagementLimit(device, limit.PowerValueMw)
}

// Reset resets a GPU that no program uses: what waits for a reset takes effect, and what was set is undone, except the
// ECC mode, the MIG mode and the persistence mode. Instances are not there any more.
func (n *model) Reset(index int) {
	all := n.machine.GPUs()
	used, done := false, false
	n.at(index, func(g *gpu) {
		if used = len(all[index].Processes) > 0; used {
			return
		}
		done = true
		g.errors.volatile, g.errors.pending = [2]uint64{}, false
		for i := range g.links {
			l := &g.links[i]
			*l = link{remote: l.remote, linkKind: l.linkKind}
		}
		g.mig.on, g.mig.instances = g.mig.pending, nil
	})
	switch {
	case used:
		n.machine.Misuse("NVML", fmt.Sprintf("programs use GPU %d, so it is not reset", index))
	case done:
		err := n.machine.Change(index, func(s *Settings) {
			before := *s
			*s = NewSettings(all[index].Profile)
			s[eccMode], s[eccPending], s[persistence] = before[eccPending], before[eccPending], before[persistence]
		})
		if err != nil {
			n.machine.Misuse("NVML", err.Error())
		}
	}
}
