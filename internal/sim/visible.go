package sim

import (
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/purecu/purecu/driver"
)

// The environment variables of NVIDIA's driver that say which devices a process sees, and in which order.
const (
	VisibleVariable = "CUDA_VISIBLE_DEVICES"
	OrderVariable   = "CUDA_DEVICE_ORDER"
)

// Lookup makes the driver read the environment variables of NVIDIA's driver with a function such as
// os.LookupEnv. As on an H200, cuInit does that, each time until it succeeds, and fails for ever after an order
// that does not exist.
func Lookup(variable func(name string) (value string, set bool)) Option {
	return func(d *Driver) { d.lookup = variable }
}

// VisibleDevices is cusim.VisibleDevices.
func VisibleDevices(list string) Option {
	return Lookup(func(name string) (string, bool) { return list, name == VisibleVariable })
}

// These are the lengths of the longest values that are read. An H200 takes a variable with a longer one for one that is
// not set.
const (
	longestList  = 2624
	longestOrder = 1023
)

// variable returns the value of an environment variable.
func (d *Driver) variable(name string, longest int) (value string, set bool) {
	value, set = d.lookup(name)
	return value, set && len(value) <= longest
}

// see finds the devices that the program sees, and numbers them. The result is that of cuInit.
func (d *Driver) see() driver.Result {
	d.devices = d.installed
	if d.lookup != nil {
		// The devices are alike, so both orders are the same.
		order, set := d.variable(OrderVariable, longestOrder)
		if d.disordered = d.disordered || set && order != "PCI_BUS_ID" && order != "FASTEST_FIRST"; d.disordered {
			return driver.ResultInvalidDevice
		}
		if list, set := d.variable(VisibleVariable, longestList); set {
			var ids []driver.UUID
			for _, v := range d.installed {
				ids = append(ids, v.uuid())
			}
			seen, r := visible(list, ids)
			if r != ok {
				return r
			}
			d.devices = nil
			for _, i := range seen {
				d.devices = append(d.devices, d.installed[i])
			}
		}
	}
	if len(d.devices) == 0 {
		return driver.ResultNoDevice
	}
	for i, v := range d.devices {
		v.ordinal = i
	}
	return ok
}

// visible returns the indices of the devices that a value of CUDA_VISIBLE_DEVICES names, in its order. ids are
// the UUIDs of all devices. The first entry says whether entries are UUIDs or indices. An entry that names no
// device ends the list. Two entries before that for one device are an error.
func visible(list string, ids []driver.UUID) (seen []int, r driver.Result) {
	find := func(entry string) int { return byIndex(entry, len(ids)) }
	if isUUID(list) {
		find = func(entry string) int { return byUUID(entry, ids) }
	}
	for entry := range strings.SplitSeq(list, ",") {
		i := find(entry)
		switch {
		case i < 0:
			return seen, ok
		case slices.Contains(seen, i):
			return nil, driver.ResultInvalidDevice
		}
		seen = append(seen, i)
	}
	return seen, ok
}

// byIndex returns the index at the beginning of an entry, as C's strtoull reads it, or -1 if there is no device
// with this index. What follows the number does not count, and of the number only its lower 32 bits do.
func byIndex(entry string, devices int) int {
	s := strings.TrimLeft(entry, " \t\n\v\f\r")
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	n, err := strconv.ParseUint(s[:len(s)-len(strings.TrimLeft(s, "0123456789"))], 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange): // n is the largest number
	case err != nil:
		return -1
	case negative:
		n = -n
	}
	if i := int32(n); i >= 0 && int(i) < devices {
		return int(i)
	}
	return -1
}

const (
	gpuPrefix = "GPU-"
	migPrefix = "MIG-"
)

// isUUID reports whether an entry is a UUID.
func isUUID(entry string) bool {
	return strings.HasPrefix(entry, gpuPrefix) || strings.HasPrefix(entry, migPrefix)
}

// byUUID returns the index of the only device whose UUID begins with the hexadecimal digits of an entry, or
// -1. The case of the digits and hyphens between them do not count, nor does what follows a complete UUID. The
// UUID of a GPU without MIG devices may also follow MIG-. There are no MIG devices, so entries for them name
// none: MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/2, and MIG- with a UUID of their own. That these name MIG
// devices is known from NVIDIA's documentation only.
func byUUID(entry string, ids []driver.UUID) int {
	if !isUUID(entry) || strings.HasPrefix(entry, migPrefix+gpuPrefix) {
		return -1
	}
	digits := strings.ToLower(strings.ReplaceAll(entry[len(gpuPrefix):], "-", ""))
	found := -1
	for i, id := range ids {
		whole := hex.EncodeToString(id[:])
		if !strings.HasPrefix(whole, digits[:min(len(digits), len(whole))]) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}

// uuid returns the device's UUID. Those of neighbours differ in the first digit.
func (v *device) uuid() driver.UUID {
	return driver.UUID{0xc5 + 0x11*byte(v.index), 0x51, 0x40, 15: byte(v.index)}
}
