// Package auto makes package cusim's driver available to a program that knows nothing about it. The
// program imports auto for this effect, usually in its main package:
//
//	import _ "github.com/purecu/purecu/cusim/auto"
//
// Then the program runs without a GPU if the environment variable PURECU_DRIVER is soft. All calls of
// cu.Open in the process get the same software driver, with the options that [cusim.Environment] finds
// in the environment when it is first opened: CUSIM_DEVICES=2 gives it two devices, for example. If
// such a variable cannot be understood, cu.Open returns an error. Without PURECU_DRIVER the import
// changes nothing but the size of the program.
package auto

import (
	"os"
	"sync"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

func init() {
	var mu sync.Mutex
	var opened *cusim.Driver
	driver.Register("soft", func() driver.Provider {
		mu.Lock()
		defer mu.Unlock()
		if opened == nil {
			env, err := cusim.Environment(os.Environ())
			if err != nil {
				return driver.Failed(err)
			}
			opened = cusim.New(env)
		}
		return opened
	})
}
