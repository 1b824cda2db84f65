// Package simnvml is NVML in Go, for the devices of the software driver.
//
//	NVML      each function: it meets faults, and calls the method of the model
//	model     functions whose results change: they ask the answers first
//	answers   what a GPU was recorded to answer: checks of the arguments, and what never changes (profiles)
//	state     the objects: GPUs, event sets, samples
//	Machine   the software driver: memory, processes, and how long work ran
//
// A GPU has a simple model: utilization is the share of the last second in which work ran, and power, temperature and
// clocks follow from it.
//
// Functions that change a setting, and have no method of the model, return NVML_ERROR_NOT_SUPPORTED: nothing reports
// success that it did not have. A call that crashes NVIDIA's library, such as many with a NULL handle, returns
// NVML_ERROR_INVALID_ARGUMENT.
package simnvml

import (
	"strings"

	"github.com/purecu/purecu/nvml/raw"
)

// NVML is the software NVML of a machine. It is safe for concurrent use.
type NVML struct{ *model }

var _ raw.Software = (*NVML)(nil)

// model has the functions whose results change.
type model struct{ answers }

// New returns the NVML of a machine.
func New(m Machine) *NVML {
	n := &NVML{&model{answers{newState(m)}}}
	n.nvml = n
	return n
}

// Init begins a use of the library.
func (n *model) Init() raw.Return { return n.InitWithFlags(0) }

// InitV2 begins a use of the library.
func (n *model) InitV2() raw.Return { return n.InitWithFlags(0) }

// InitWithFlags begins a use of the library.
func (n *model) InitWithFlags(uint32) raw.Return {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opens++
	return raw.NVML_SUCCESS
}

// Shutdown ends a use of the library.
func (n *model) Shutdown() raw.Return {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opens == 0 {
		return raw.NVML_ERROR_UNINITIALIZED
	}
	if n.opens--; n.opens == 0 {
		clear(n.sets)
		clear(n.systems)
		clear(n.samples)
		n.broadcast()
	}
	return raw.NVML_SUCCESS
}

// then sets what a call about a GPU or a MIG device returns, if the answers have accepted the call. The state is locked
// then.
func (n *model) then(r raw.Return, h raw.Device, set func(g *gpu, now GPU)) raw.Return {
	if r != raw.NVML_SUCCESS {
		return r
	}
	all := n.machine.GPUs()
	n.mu.Lock()
	defer n.mu.Unlock()
	if g := n.device(h); g != nil {
		set(g, n.now(g, all))
	}
	return r
}

// now returns what the machine knows of a GPU, or of its part that a MIG device is. The caller holds mu.
func (n *model) now(g *gpu, all []GPU) GPU {
	whole := n.gpus[g.index]
	now := all[g.index]
	// A process that has ended takes its time with it, but the GPU has worked.
	whole.busy = max(whole.busy, now.Busy)
	now.Busy = whole.busy
	return g.view(now)
}

// check is then with a result of its own, which counts if the answers have accepted the call.
func (n *model) check(r raw.Return, h raw.Device, set func(g *gpu, now GPU) raw.Return) raw.Return {
	result := raw.NVML_SUCCESS
	if r := n.then(r, h, func(g *gpu, now GPU) { result = set(g, now) }); r != raw.NVML_SUCCESS {
		return r
	}
	return result
}

// setText sets a buffer to a text with a NUL.
func setText(buf []byte, text string) raw.Return {
	if len(buf) <= len(text) {
		return raw.NVML_ERROR_INSUFFICIENT_SIZE
	}
	clear(buf[copy(buf, text):])
	return raw.NVML_SUCCESS
}

// setChars sets the text of an array.
func setChars(array []byte, text string) {
	n := copy(array[:len(array)-1], text)
	clear(array[n:])
}

// text returns what a buffer has before its first NUL.
func text(buf []byte) string {
	s, _, _ := strings.Cut(string(buf), "\x00")
	return s
}
