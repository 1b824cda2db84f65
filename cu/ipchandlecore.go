package cu

import (
	"encoding/hex"
	"fmt"

	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/mistake"
)

// ipcHandle is a handle by which other processes open an object.
type ipcHandle = [driver.CU_IPC_HANDLE_SIZE]byte

// ipcHandles encodes and decodes the handles of a type. Its fields are for the errors: the type, what
// a handle names, and where handles come from.
type ipcHandles struct{ typ, names, from string }

var (
	eventHandles = ipcHandles{"IPCEventHandle", "event", "Event.IPCHandle"}
	memHandles   = ipcHandles{"IPCMemHandle", "memory", "DeviceMem.IPCHandle"}
)

// check refuses the zero handle.
func (k *ipcHandles) check(op string, h ipcHandle) error {
	if h == (ipcHandle{}) {
		return misuse(op, nil, mistake.ErrNil,
			"the handle is zero, and names no "+k.names+": pass one that "+k.from+" has returned")
	}
	return nil
}

func (k *ipcHandles) string(h ipcHandle) string {
	if h == (ipcHandle{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

func (k *ipcHandles) appendBinary(b []byte, h ipcHandle) ([]byte, error) {
	if err := k.check(k.typ+".AppendBinary", h); err != nil {
		return b, err
	}
	return append(b, h[:]...), nil
}

func (k *ipcHandles) unmarshalBinary(h *ipcHandle, data []byte) error {
	op := k.typ + ".UnmarshalBinary"
	if h == nil {
		return errNil(op, "handle")
	}
	if len(data) != len(h) {
		return badValue(op, nil,
			fmt.Sprintf("there are %d bytes, and a handle has %d: pass the result of MarshalBinary", len(data), len(h)))
	}
	return k.set(op, h, ipcHandle(data))
}

// set sets a handle, unless its new value is zero.
func (k *ipcHandles) set(op string, h *ipcHandle, got ipcHandle) error {
	if err := k.check(op, got); err != nil {
		return err
	}
	*h = got
	return nil
}

func (k *ipcHandles) appendText(b []byte, h ipcHandle) ([]byte, error) {
	if err := k.check(k.typ+".AppendText", h); err != nil {
		return b, err
	}
	return hex.AppendEncode(b, h[:]), nil
}

func (k *ipcHandles) unmarshalText(h *ipcHandle, text []byte) error {
	op := k.typ + ".UnmarshalText"
	if h == nil {
		return errNil(op, "handle")
	}
	if want := hex.EncodedLen(len(h)); len(text) != want {
		return badValue(op, nil,
			fmt.Sprintf("there are %d characters, and a handle has %d: "+
				"pass the result of MarshalText", len(text), want))
	}
	var got ipcHandle
	if _, err := hex.Decode(got[:], text); err != nil {
		return badValue(op, nil, fmt.Sprintf("%v: a handle's text has hexadecimal digits only", err))
	}
	return k.set(op, h, got)
}
