//go:build !cu_static

package ccall

import "github.com/ebitengine/purego"

// The functions in this file use purego directly.

func init() {
	ways = append(ways,
		way{"SyscallN", "", func(c *cfuncs, n int) {
			for range n {
				if r, _, _ := purego.SyscallN(c.query, 1); int32(r) != 0 {
					panic(wrong)
				}
			}
		}},
		way{"RegisterFunc", "", func(c *cfuncs, n int) {
			for range n {
				if c.registered(1) != 0 {
					panic(wrong)
				}
			}
		}},
	)
}

// register makes a Go function with purego.
func register(c *cfuncs) { purego.RegisterFunc(&c.registered, c.query) }

// dlopen loads a library without this package.
func dlopen(path string) error {
	_, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	return err
}
