package entries

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/purecu/purecu/driver"
)

// otherCalls are about the log, and attributes of memory.
func otherCalls() []call {
	return with(0,
		alone("cuLogsDumpToFile", func(w W, at A) R {
			path := filepath.Join(os.TempDir(), fmt.Sprint("purecu-log-", os.Getpid()))
			defer os.Remove(path)
			return w.LogsDumpToFile(at, new(uint32), path, 0)
		}),
		alone("cuPointerSetAttribute", func(w W, at A) R {
			return w.PointerSetAttribute(at, 0, driver.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, w.memory)
		}),
	)
}
