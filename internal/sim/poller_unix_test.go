//go:build darwin || freebsd || linux || netbsd

package sim

import (
	"fmt"
	"os"
	osexec "os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/purecu/purecu/driver"
)

// TestFirstTimer uses up the descriptors of a process that has started no timer.
func TestFirstTimer(t *testing.T) {
	for _, when := range []string{"before cuInit", "after cuInit"} {
		cmd := osexec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), descriptorsEnv+"="+when)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%.2000s", when, err, out)
		}
	}
}

// withoutDescriptors is the process of TestFirstTimer. It returns the exit status.
func withoutDescriptors() int {
	var limit syscall.Rlimit
	status := 0
	check := func(what string, is bool) {
		if !is {
			fmt.Println(what)
			status = 1
		}
	}
	check("the limit", syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil)
	none := limit
	none.Cur = 3 // as many are open
	set := func(l syscall.Rlimit) { check("a limit", syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) == nil) }
	d := New()
	if os.Getenv(descriptorsEnv) == "before cuInit" {
		set(none)
		check("cuInit without descriptors", d.Init(nil, 0) == driver.ResultOperatingSystem)
		set(limit)
		check("cuInit with descriptors", d.Init(nil, 0) == ok)
		return status
	}
	check("cuInit", d.Init(nil, 0) == ok)
	set(none)
	time.Sleep(time.Millisecond)
	at := new(driver.Thread)
	c, r := d.DevicePrimaryCtxRetain(at, 0)
	check("the context", r == ok && d.CtxSetCurrent(at, c) == ok)
	e, r := d.EventCreate(at, driver.CU_EVENT_INTERPROCESS|driver.CU_EVENT_DISABLE_TIMING)
	if r == ok {
		_, r = d.IpcGetEventHandle(at, e)
	}
	check("an event of another process", r != ok)
	set(limit)
	return status
}
