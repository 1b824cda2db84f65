package ipchandle

import (
	"encoding/hex"
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/mistake"
)

// Handle is a handle by which other processes open an object.
type Handle = [driver.CU_IPC_HANDLE_SIZE]byte

// kind encodes and decodes the handles of a type. Its fields are for the errors: the type, what
// a handle names, and where handles come from.
type kind struct{ typ, names, from string }

var (
	EventHandles = kind{"IPCEventHandle", "event", "Event.IPCHandle"}
	MemHandles   = kind{"memory.IPCHandle", "memory", "memory.IPCHandleOf"}
)

// Check refuses the zero handle.
func (k *kind) Check(op string, h Handle) error {
	if h == (Handle{}) {
		return drivercall.Misuse(op, nil, mistake.ErrNil,
			"the handle is zero, and names no "+k.names+": pass one that "+k.from+" has returned")
	}
	return nil
}

// String returns the handle as hexadecimal text.
func (k *kind) String(h Handle) string {
	if h == (Handle{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// AppendBinary appends the bytes of the handle.
func (k *kind) AppendBinary(b []byte, h Handle) ([]byte, error) {
	if err := k.Check(k.typ+".AppendBinary", h); err != nil {
		return b, err
	}
	return append(b, h[:]...), nil
}

// UnmarshalBinary sets the handle to the bytes of AppendBinary.
func (k *kind) UnmarshalBinary(h *Handle, data []byte) error {
	op := k.typ + ".UnmarshalBinary"
	if h == nil {
		return drivercall.NilError(op, "handle")
	}
	if len(data) != len(h) {
		return drivercall.BadValue(op, nil,
			fmt.Sprintf("there are %d bytes, and a handle has %d: pass the result of MarshalBinary", len(data), len(h)))
	}
	return k.set(op, h, Handle(data))
}

// set sets a handle, unless its new value is zero.
func (k *kind) set(op string, h *Handle, got Handle) error {
	if err := k.Check(op, got); err != nil {
		return err
	}
	*h = got
	return nil
}

// AppendText appends the text of the handle.
func (k *kind) AppendText(b []byte, h Handle) ([]byte, error) {
	if err := k.Check(k.typ+".AppendText", h); err != nil {
		return b, err
	}
	return hex.AppendEncode(b, h[:]), nil
}

// UnmarshalText sets the handle to the text of AppendText.
func (k *kind) UnmarshalText(h *Handle, text []byte) error {
	op := k.typ + ".UnmarshalText"
	if h == nil {
		return drivercall.NilError(op, "handle")
	}
	if want := hex.EncodedLen(len(h)); len(text) != want {
		return drivercall.BadValue(op, nil,
			fmt.Sprintf("there are %d characters, and a handle has %d: "+
				"pass the result of MarshalText", len(text), want))
	}
	var got Handle
	if _, err := hex.Decode(got[:], text); err != nil {
		return drivercall.BadValue(op, nil, fmt.Sprintf("%v: a handle's text has hexadecimal digits only", err))
	}
	return k.set(op, h, got)
}
