package nvml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// XID is the number of an error that the driver writes into the kernel's log ("NVRM: Xid (PCI:0000:17:00): 79, …") and
// reports as an [EventXIDCritical]. An XID does not prove a cause: bad hardware can look like a mistake in a program,
// and the other way round. NVIDIA describes the numbers at https://docs.nvidia.com/deploy/xid-errors/.
type XID uint32

// String returns the number and what has happened, such as "XID 79: the GPU has fallen off the bus".
func (x XID) String() string {
	s := "XID " + strconv.FormatUint(uint64(x), 10)
	if f, known := x.facts(); known {
		s += ": " + f.title
	}
	return s
}

// Meaning returns what has happened, and what it means, in one or two sentences.
func (x XID) Meaning() string {
	f, known := x.facts()
	if !known {
		return "This package does not know the number. The kernel's log has more about it."
	}
	return f.meaning
}

// Action returns what to do first. It is for GPUs of datacenters, since Ampere. For XIDs that this package does not
// know it is [ActionUnknown].
func (x XID) Action() XIDAction {
	f, _ := x.facts()
	return f.action // the zero action is ActionUnknown
}

// XIDAction is what to do after an [XID].
type XIDAction uint8

// What to do after an XID. If the same XID comes again on the same GPU, have its hardware checked.
const (
	// ActionUnknown says that this package does not know the XID.
	ActionUnknown XIDAction = iota
	// ActionNone says that nothing has to be done: the XID is a note, or the driver has dealt with it.
	ActionNone
	// ActionFollowOther says that the XID is the consequence of another one of the same GPU, which says what to do.
	ActionFollowOther
	// ActionAskDriver says that the driver knows what to do: nvidia-smi -q shows it as the GPU's recovery action, and
	// [FieldGetGPURecoveryAction] has it.
	ActionAskDriver
	// ActionRestartApplication says that the program that used the GPU must be started again. Other programs go on.
	ActionRestartApplication
	// ActionResetGPU says that the GPU must be reset, after all programs that use it have ended.
	ActionResetGPU
	// ActionRestartVM says that the virtual machine must be started again.
	ActionRestartVM
	// ActionRestartMachine says that the machine must be started again, best with its power off in between.
	ActionRestartMachine
	// ActionCheckLinks says that the kernel's log must be read for details of an NVLink, and the GPU reset unless these
	// say that this is not needed. If it comes again, check the link's connectors and cables.
	ActionCheckLinks
	// ActionCheckCables says that the GPU's power cables and its seat must be checked.
	ActionCheckCables
	// ActionUpdateSoftware says that the driver, the firmware or the manager of virtual GPUs must be updated.
	ActionUpdateSoftware
	// ActionReportHardware says that no more work should be given to the GPU until its hardware was checked.
	ActionReportHardware
)

// actionTexts are in the order of the constants.
var actionTexts = [...]string{
	"look the XID up at https://docs.nvidia.com/deploy/xid-errors/",
	"nothing has to be done",
	"look for another XID of the same GPU and time, and follow that",
	"do what the driver recommends: nvidia-smi -q shows the recovery action of the GPU",
	"restart the program that used the GPU",
	"end all programs that use the GPU, and reset it: nvidia-smi -r",
	"restart the virtual machine",
	"drain the machine and restart it, best with its power off in between",
	"reset the GPU, unless the kernel's log says that the error was not fatal; check the link's connectors and cables",
	"check the power cables and the seat of the GPU",
	"update the driver, the firmware or the manager of virtual GPUs",
	"give the GPU no more work, and have its hardware checked",
}

// String returns the action as a request, such as "restart the program that used the GPU".
func (a XIDAction) String() string {
	if int(a) < len(actionTexts) {
		return actionTexts[a]
	}
	return fmt.Sprintf("XIDAction(%d)", uint8(a))
}

// xidFacts is what this package knows about XIDs, of which one has a row, or several that follow each other.
type xidFacts struct {
	first, last    XID
	action         XIDAction
	title, meaning string
}

// facts returns the row of x, if this package knows it.
func (x XID) facts() (f xidFacts, known bool) {
	i, found := slices.BinarySearchFunc(xids, x, func(f xidFacts, x XID) int {
		if f.last < x {
			return -1
		}
		return cmp.Compare(max(f.first, x), x)
	})
	if !found {
		return xidFacts{}, false
	}
	return xids[i], true
}
