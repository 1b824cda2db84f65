package nvml

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// Return is the result of a function of NVML (nvmlReturn_t). It is an error, and errors of this package match it.
type Return = raw.Return

// The results that programs look for, for errors.Is. All others are in package raw, as NVML_ERROR_….
const (
	// ErrNotSupported is the result of a call for what the device does not have. It matches [errors.ErrUnsupported].
	ErrNotSupported = raw.NVML_ERROR_NOT_SUPPORTED
	// ErrNoPermission is the result of a call for which the process lacks a right.
	ErrNoPermission = raw.NVML_ERROR_NO_PERMISSION
	// ErrNotFound is the result of a search that finds nothing.
	ErrNotFound = raw.NVML_ERROR_NOT_FOUND
	// ErrInvalidArgument is the result of a call with an argument that cannot be.
	ErrInvalidArgument = raw.NVML_ERROR_INVALID_ARGUMENT
	// ErrGPULost is the result of a call about a GPU that has fallen off the bus, or cannot be reached.
	ErrGPULost = raw.NVML_ERROR_GPU_IS_LOST
	// ErrResetRequired is the result of a call about a GPU that must be reset.
	ErrResetRequired = raw.NVML_ERROR_RESET_REQUIRED
	// ErrDriverNotLoaded is the result of Open if the kernel has not loaded the driver.
	ErrDriverNotLoaded = raw.NVML_ERROR_DRIVER_NOT_LOADED
	// ErrVersionMismatch is the result of Open if the library and the loaded driver have different versions.
	ErrVersionMismatch = raw.NVML_ERROR_LIB_RM_VERSION_MISMATCH
	// ErrInUse is the result of a change of a device that programs use.
	ErrInUse = raw.NVML_ERROR_IN_USE
)

// Mistakes and states that this package finds, for errors.Is.
var (
	// ErrClosed is matched by the errors of calls after [Library.Close] or [EventSet.Close], and of those about MIG
	// instances that were destroyed.
	ErrClosed = errors.New("closed")
	// ErrTimeout is matched by the errors of calls that were not answered within their bound.
	ErrTimeout = errors.New("no answer in time")
	// ErrNil is matched by the errors of methods of a nil *Library, *Device and the like.
	ErrNil = errors.New("nil")
)

// Error is a failed operation.
type Error struct {
	// Op is the function of C, or of this package if no call of C was made.
	Op string
	// Device is what the call was about, such as "device 0". It is empty for calls about the whole machine.
	Device string
	// Return is the result of the function. It is NVML_SUCCESS if the function was not called, or has not returned.
	Return Return
	// Err is the mistake or the state that this package has found, or nil.
	Err error
	// Detail says what to do.
	Detail string
}

// Error returns the operation, the device, the cause and the remedy.
func (e *Error) Error() string {
	if e == nil {
		return "nvml: no error"
	}
	var b strings.Builder
	b.WriteString("nvml: " + e.Op)
	if e.Device != "" {
		b.WriteString("(" + e.Device + ")")
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Return != raw.NVML_SUCCESS {
		b.WriteString(": " + e.Return.Error())
	}
	if e.Detail != "" {
		b.WriteString("; " + e.Detail)
	}
	return b.String()
}

// Unwrap returns Return and Err, unless they are success and nil.
func (e *Error) Unwrap() (errs []error) {
	if e == nil {
		return nil
	}
	if e.Return != raw.NVML_SUCCESS {
		errs = append(errs, e.Return)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

func nilError(op string) error {
	return &Error{Op: op, Err: ErrNil,
		Detail: "the method was called on nothing: check the error of the call that returned the value"}
}

// nilArgument returns the error of a call with an argument that is nil, such as "type".
func (o *object) nilArgument(op, what string) error {
	return &Error{Op: op, Device: o.name, Err: ErrNil,
		Detail: "the " + what + " is nil: check the error of the call that returned it"}
}

// invalid returns the error of a call with an argument that is refused before the library sees it.
func (o *object) invalid(op, detail string) error {
	return &Error{Op: op, Device: o.name, Err: ErrInvalidArgument, Detail: detail}
}

// fail returns the error of a call that the library has answered.
func (o *object) fail(op string, r raw.Return) error {
	if r == destroyed {
		return &Error{Op: op, Device: o.name, Err: ErrClosed, Detail: "the instance was destroyed: create another one"}
	}
	return &Error{Op: op, Device: o.name, Return: r, Detail: remedy(op, r)}
}

// exceeded returns the error of a call that was not answered within its bound, and counts it unless the caller has
// ended it.
func (o *object) exceeded(op string) error {
	var err, detail = error(ErrTimeout), "a GPU that fails can block NVML for minutes: look for an XID in the kernel's log"
	if ctx := o.bound.ctx; ctx != nil && ctx.Err() != nil {
		if err = contextError(ctx); errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", ErrTimeout, err)
		} else {
			detail = "the caller's context has ended before NVML has answered"
		}
	}
	if errors.Is(err, ErrTimeout) {
		o.lib.exceeded.Add(1)
	}
	if silent, lasts := o.lane.silent(); silent != "" {
		detail = fmt.Sprintf("%s has not returned for %s; %s", silent, lasts.Round(time.Millisecond), detail)
	}
	return &Error{Op: op, Device: o.name, Err: err, Detail: detail}
}

// contextError returns the error of a context that has ended, and its cause.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// remedies are what to do after the results for which this does not depend on the function.
var remedies = [...]struct {
	result raw.Return
	text   string
}{
	{raw.NVML_ERROR_UNINITIALIZED, "other code of this process has called nvmlShutdown too often"},
	{raw.NVML_ERROR_INVALID_ARGUMENT, "the device does not know one of the arguments, or a handle has become invalid"},
	{raw.NVML_ERROR_NOT_FOUND, "nothing on this machine has this name: compare it with " +
		"nvidia-smi -L, and with the devices that the container has"},
	{raw.NVML_ERROR_INSUFFICIENT_POWER, "check the external power cables of the GPU"},
	{raw.NVML_ERROR_DRIVER_NOT_LOADED, "load the kernel module nvidia, or start the container with access to the GPUs"},
	{raw.NVML_ERROR_TIMEOUT, "no answer came in the time that the call allows"},
	{raw.NVML_ERROR_IRQ_ISSUE, "the kernel has a problem with the GPU's interrupts: read its log"},
	{raw.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "the driver was updated while its kernel module was loaded: " +
		"restart the machine, or unload and load the module"},
	{raw.NVML_ERROR_GPU_IS_LOST, "the GPU has fallen off the bus: look for XID 79 in the " +
		"kernel's log, drain the machine and restart it"},
	{raw.NVML_ERROR_RESET_REQUIRED, "end all programs that use the GPU, and reset it: nvidia-smi -r"},
	{raw.NVML_ERROR_OPERATING_SYSTEM, "the operating system has refused the call: check the rights " +
		"and the container's devices"},
	{raw.NVML_ERROR_IN_USE, "end the programs that use the GPU, which nvidia-smi lists, and try again"},
	{raw.NVML_ERROR_UNKNOWN, "the driver has failed, and does not say why: read the kernel's log"},
	{raw.NVML_ERROR_NOT_READY, "the driver does not have the value yet: ask again later"},
	{raw.NVML_ERROR_GPU_NOT_FOUND, "the driver sees no GPU: look for one with lspci, and read the kernel's log"},
	{raw.NVML_ERROR_NO_DATA, "the driver has no samples of this: ask again later"},
	{raw.NVML_ERROR_FREQ_NOT_SUPPORTED, "choose one of the supported clocks"},
	{raw.NVML_ERROR_CORRUPTED_INFOROM, "the InfoROM of the GPU is damaged: have the hardware checked"},
	{raw.NVML_ERROR_INSUFFICIENT_SIZE, "the library and this package have different sizes or " +
		"versions: update the older of the two"},
	{raw.NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "the library and this package have different sizes or " +
		"versions: update the older of the two"},
	{raw.NVML_ERROR_ALREADY_INITIALIZED, "the library has replaced this function"},
	{raw.NVML_ERROR_DEPRECATED, "the library has replaced this function"},
	{raw.NVML_ERROR_LIBRARY_NOT_FOUND, "the installation of the driver lacks something: install the " +
		"driver again, all of one release"},
	{raw.NVML_ERROR_FUNCTION_NOT_FOUND, "the installation of the driver lacks something: install the " +
		"driver again, all of one release"},
	{raw.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, "switch ECC off for virtual GPUs of this type, or choose another type"},
	{raw.NVML_ERROR_INVALID_STATE, "the GPU or the instance is in another mode than the call needs"},
	{raw.NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, "restart the machine instead"},
	{raw.NotCalled, "end other programs, or raise the limit of processes: ulimit -u"},
	{raw.NVML_ERROR_MEMORY, "the machine or the driver lacks memory or other resources"},
	{raw.NVML_ERROR_INSUFFICIENT_RESOURCES, "the machine or the driver lacks memory or other resources"},
}

// remedy returns what to do after a result of a function, or "".
func remedy(op string, r raw.Return) string {
	changes := false
	reads := strings.Contains(op, "Get") || strings.Contains(op, "EventSet") // here, Set is no verb
	for word := range strings.SplitSeq("Set Clear Create Destroy Reset Remove Modify Discover Activate Update", " ") {
		changes = changes || !reads && strings.Contains(op, word)
	}
	switch {
	case r == raw.NVML_ERROR_NOT_SUPPORTED && changes:
		return "this device, or its present mode, does not allow the change"
	case r == raw.NVML_ERROR_NOT_SUPPORTED:
		return "this device, or its present mode, does not have this value: leave it out"
	case r == raw.NVML_ERROR_NO_PERMISSION && changes:
		return "changes need root, or CAP_SYS_ADMIN in the container"
	case r == raw.NVML_ERROR_NO_PERMISSION:
		return "the value needs root, or is hidden in this container or virtual machine"
	}
	for _, known := range remedies {
		if known.result == r {
			return known.text
		}
	}
	return ""
}
