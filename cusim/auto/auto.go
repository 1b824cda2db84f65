// Package auto makes package cusim's driver available to a program that knows nothing about it. The
// program imports auto for this effect, usually in its main package:
//
//	import _ "github.com/purecu/purecu/cusim/auto"
//
// Then the program runs without a GPU if the environment variable PURECU_DRIVER is soft. All calls of
// cu.Open in the process get the same software driver, with one device. Without the variable the
// import changes nothing but the size of the program.
package auto

import (
	"sync"

	"github.com/purecu/purecu/cusim"
	"github.com/purecu/purecu/driver"
)

func init() {
	driver.Register("soft", sync.OnceValue(func() driver.Provider { return cusim.New() }))
}
