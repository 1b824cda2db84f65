package library

import (
	"bytes"
	"fmt"
	"runtime"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/internal/codeimage"
	"github.com/purecu/purecu/internal/drivercall"
	"github.com/purecu/purecu/internal/loaded"
	"github.com/purecu/purecu/internal/subject"
)

// Input is code that [Link] links with other code: PTX, a cubin, a fatbin, an object file or
// an archive of object files. The driver finds the kind by the first bytes.
type Input struct {
	// Name is what the linker's messages call the code, such as the name of a file.
	Name string
	Data []byte
}

// Linked is the result of [Link].
type Linked struct {
	// Image is what [cu.Context.LoadModule] and [Load] load. With a GPU it is a cubin for the
	// context's device.
	Image []byte
	// Log has the messages of the compiler and the linker, if [cu.JITVerbose] or a problem caused some.
	Log string
}

// Link compiles and links several pieces of code, which may use functions and variables of each other
// (cuLinkCreate, cuLinkAddData, cuLinkComplete). If it fails, the error contains the linker's log, which
// names the input. It does not wait for the GPU. The software driver links PTX only.
//
// This package checks binary inputs as [cu.Context.LoadModule] does. It cannot detect other corruption of
// these, which may crash the process, as PTX with a mistake may.
func Link(c *cu.Context, inputs []Input, opts ...cu.JITOption) (*Linked, error) {
	const op = "cuLinkAddData"
	cc, err := subject.EnterContext(c, op)
	if err != nil {
		return nil, err
	}
	defer subject.LeaveContext(c)
	if len(inputs) == 0 {
		return nil, drivercall.BadValue("cuLinkComplete", cc, "there is no input: pass at least one")
	}
	raw := make([]driver.LinkInput, len(inputs))
	for i, in := range inputs {
		if wrong := codeimage.Check(in.Data); wrong != "" {
			return nil, drivercall.BadValue(op, cc, fmt.Sprintf("input %d, %q: %s", i, in.Name, wrong))
		}
		raw[i] = driver.LinkInput{Type: inputType(in.Data), Name: in.Name, Data: in.Data}
		if raw[i].Type == driver.CU_JIT_INPUT_PTX {
			raw[i].Data = append(bytes.Clone(in.Data), 0)
		}
	}
	at := driver.At{Context: cc.Raw}
	image, log, failed, input, res := cc.Drv.Table().Link(at, raw, subject.JITOptions(opts))
	runtime.KeepAlive(inputs)
	if res == driver.ResultUnknown && log.Error != "" {
		// So an H200's driver (580) sometimes answers about what it has put into the log. It must not
		// count as a sign of a lost device.
		res = driver.ResultInvalidSource
	}
	if res != driver.ResultSuccess {
		e := cc.CallError(failed, 0, res)
		if res == driver.ResultInvalidSource { // the usual advice is about images
			e.Detail = ""
		}
		e = loaded.Compiled(e, log)
		if input >= 0 {
			e.Detail = drivercall.JoinText(fmt.Sprintf("input %d, %q", input, inputs[input].Name), e.Detail)
		}
		return nil, e
	}
	return &Linked{image, log.Info}, nil
}

// inputType returns the kind of code for the linker.
func inputType(data []byte) int32 {
	const machine, gpu = 18, 190 // where an ELF file has its machine, and the number of NVIDIA's GPUs
	switch {
	case bytes.HasPrefix(data, []byte("!<arch>\n")):
		return driver.CU_JIT_INPUT_LIBRARY
	case codeimage.IsPTX(data):
		return driver.CU_JIT_INPUT_PTX
	case !bytes.HasPrefix(data, []byte("\x7fELF")):
		return driver.CU_JIT_INPUT_FATBINARY
	case data[machine] == gpu:
		return driver.CU_JIT_INPUT_CUBIN
	}
	return driver.CU_JIT_INPUT_OBJECT
}
