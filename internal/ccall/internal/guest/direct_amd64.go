//go:build cu_static && linux && !cgo && !go1.28

package guest

import "errors"

// noFSGSBASE says that programs may not set the thread pointer by themselves, so that
// the kernel has to be asked, which takes three system calls a direct call.
var noFSGSBASE bool

// detect finds out what the processor and the kernel allow.
func detect(aux auxv) { noFSGSBASE = aux.get(atHwcap2)&(1<<1) == 0 }

// gBelowFS reports whether g is where calls put it.
func gBelowFS() bool

// checkG finds out whether this program keeps g where Go's static programs do.
func checkG() error {
	if !gBelowFS() {
		return errors.New("this program was linked in a way that keeps Go's g elsewhere than static programs do: build it without -buildmode=pie and -linkmode=external")
	}
	return nil
}
