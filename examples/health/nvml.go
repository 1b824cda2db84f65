package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/purecu/purecu/loader"
)

// These are constants and types of nvml.h.
const (
	notSupported   = 3
	noPermission   = 4
	driverMissing  = 9
	timedOut       = 10
	deviceLost     = 15
	otherRelease   = 18
	eventECC       = 2 // an uncorrectable error of memory
	eventXID       = 8
	textSize       = 96
	gpuTemperature = 0
)

type (
	device      uintptr
	memory      struct{ Total, Free, Used uint64 } // in bytes
	utilization struct{ GPU, Memory uint32 }       // in percent
	event       struct {
		Device                           device
		Type, Data                       uint64 // of an XID its number is the data
		GPUInstanceID, ComputeInstanceID uint32
	}
)

// nvml has the functions of NVML that this program calls.
type nvml struct {
	init, shutdown func() error
	errorString    func(status int32) (string, error)
	driverVersion  func(text []byte, size uint32) error
	count          func(n *uint32) error
	handle         func(index uint32, d *device) error
	name, uuid     func(d device, text []byte, size uint32) error
	temperature    func(d device, sensor int32, celsius *uint32) error
	power          func(d device, milliwatts *uint32) error
	memory         func(d device, m *memory) error
	utilization    func(d device, u *utilization) error
	eccErrors      func(d device, uncorrected, aggregate int32, n *uint64) error
	newEventSet    func(set *uintptr) error
	freeEventSet   func(set uintptr) error
	registerEvents func(d device, types uint64, set uintptr) error
	waitForEvents  func(set uintptr, e *event, milliseconds uint32) error
}

// open loads and initializes NVML. The environment variable PURECU_NVML_LIBRARY may name the library.
func open() (*nvml, error) {
	lib, err := loader.OpenLibrary(loader.NVML, "")
	if err != nil {
		return nil, err
	}
	n := new(nvml)
	for name, function := range map[string]any{
		"nvmlInit_v2": &n.init, "nvmlShutdown": &n.shutdown, "nvmlErrorString": &n.errorString,
		"nvmlSystemGetDriverVersion": &n.driverVersion,
		"nvmlDeviceGetCount_v2":      &n.count, "nvmlDeviceGetHandleByIndex_v2": &n.handle,
		"nvmlDeviceGetName": &n.name, "nvmlDeviceGetUUID": &n.uuid, "nvmlDeviceGetTemperature": &n.temperature,
		"nvmlDeviceGetPowerUsage": &n.power, "nvmlDeviceGetMemoryInfo": &n.memory,
		"nvmlDeviceGetUtilizationRates": &n.utilization, "nvmlDeviceGetTotalEccErrors": &n.eccErrors,
		"nvmlEventSetCreate": &n.newEventSet, "nvmlEventSetFree": &n.freeEventSet,
		"nvmlDeviceRegisterEvents": &n.registerEvents, "nvmlEventSetWait_v2": &n.waitForEvents,
	} {
		err = errors.Join(err, lib.Bind(function, name)) // which says what a library that is too old lacks
	}
	if err != nil {
		return nil, err
	}
	if err := n.init(); err != nil {
		return nil, n.explain(err)
	}
	return n, nil
}

// is reports whether NVML returned this status.
func is(err error, status int32) bool {
	s, ok := errors.AsType[*loader.StatusError](err)
	return ok && s.Status == status
}

// explain adds NVML's text for a status, and what to do about it.
func (n *nvml) explain(err error) error {
	s, ok := errors.AsType[*loader.StatusError](err)
	if !ok {
		return err
	}
	if text, terr := n.errorString(s.Status); terr == nil {
		err = fmt.Errorf("%w: %s", err, text)
	}
	remedy, ok := map[int32]string{
		noPermission:  "run it as a user who may open /dev/nvidia*",
		driverMissing: "load the kernel module nvidia; cuprobe doctor finds out why it is missing",
		deviceLost:    "restart the machine",
		otherRelease:  "the library and the kernel module are of different releases: restart the machine, or the container",
	}[s.Status]
	if ok {
		err = fmt.Errorf("%w; %s", err, remedy)
	}
	return err
}

// text calls a function that writes a text.
func text(f func(b []byte, size uint32) error) (string, error) {
	b := make([]byte, textSize)
	err := f(b, textSize)
	s, _, _ := strings.Cut(string(b), "\x00")
	return s, err
}

// An xid is an event of a device. XIDs are numbers of errors, which the kernel's log has too.
type xid struct {
	device device
	number uint64 // 0 for an uncorrectable error of memory
}

// String returns the number and, if the XID is a frequent one, its meaning.
func (x xid) String() string {
	if x.number == 0 {
		return "uncorrectable ECC error"
	}
	return strings.TrimRight(fmt.Sprintf("XID %d %s", x.number, map[uint64]string{
		13: "a kernel made an error", 31: "a kernel accessed memory that it may not", 43: "the GPU stopped processing",
		48: "an uncorrectable ECC error", 63: "a memory row was remapped", 64: "a memory row could not be remapped",
		74: "an NVLink error", 79: "the GPU has fallen off the bus", 94: "a contained ECC error",
		95: "an uncontained ECC error", 119: "the GPU's system processor does not answer",
	}[x.number]), " ")
}

// watch calls report for each event of the devices until the context ends.
func (n *nvml) watch(ctx context.Context, devices []device, report func(xid)) error {
	var set uintptr
	if err := n.newEventSet(&set); err != nil {
		return n.explain(err)
	}
	defer n.freeEventSet(set)
	for _, d := range devices {
		err := n.registerEvents(d, eventXID|eventECC, set)
		if is(err, notSupported) { // without ECC
			err = n.registerEvents(d, eventXID, set)
		}
		if err != nil {
			return n.explain(err)
		}
	}
	for ctx.Err() == nil { // NVML cannot end a wait, so each one is short
		var e event
		switch err := n.waitForEvents(set, &e, 200); {
		case is(err, timedOut):
		case err != nil:
			return n.explain(err)
		case e.Type == eventXID:
			report(xid{e.Device, e.Data})
		case e.Type == eventECC:
			report(xid{e.Device, 0})
		}
	}
	return nil
}
