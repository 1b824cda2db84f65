// Package auto makes package cusim's driver available to a program that knows nothing about it. The
// program imports auto for this effect, usually in its main package:
//
//	import _ "github.com/purecu/purecu/cusim/auto"
//
// Then the program runs without a GPU if the environment variable PURECU_DRIVER is soft. All calls of
// cu.Open and nvml.Open in the process get the same software driver, with the options that [cusim.Environment] finds
// in the environment when it is first opened: CUSIM_DEVICES=2 gives it two devices, for example. If
// such a variable cannot be understood, Open returns an error. Without PURECU_DRIVER the import
// changes nothing but the size of the program.
package auto

import (
	"os"
	"sync"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
	"github.com/purecu/purecu/nvml/raw"
)

func init() {
	open := sync.OnceValues(func() (*cusim.Driver, error) {
		env, err := cusim.Environment(os.Environ())
		if err != nil {
			return nil, err
		}
		return cusim.New(env), nil
	})
	driver.Register("soft", func() driver.Provider {
		d, err := open()
		if err != nil {
			return driver.Failed(err)
		}
		return d
	})
	raw.Register("soft", func() (*raw.Library, error) {
		d, err := open()
		if err != nil {
			return nil, err
		}
		return raw.NewSoftware(d.NVML()), nil
	})
}
