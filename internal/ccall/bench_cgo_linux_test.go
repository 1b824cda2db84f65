//go:build cgo

package ccall

import "github.com/purecu/purecu/internal/ccall/internal/cgocost"

func init() {
	ways = append(ways, way{"cgo", "", func(c *cfuncs, n int) {
		for range n {
			if cgocost.Query(c.query, 1) != 0 {
				panic(wrong)
			}
		}
	}})
}
