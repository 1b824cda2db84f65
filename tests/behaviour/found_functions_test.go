package behaviour

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/purecu/purecu/driver"
)

// famFunctions is for functions that few programs call.
const famFunctions family = "rare functions"

// foundFunctions are about functions that few programs call.
func foundFunctions() []found {
	const syncMemOps = driver.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
	return []found{
		{famFunctions, "load-fatbin", "an image that is no fatbin", func(c *raw) {
			c.setup()
			c.res("ptx", bare(c.ModuleLoadFatBinary(c.at, []byte(countText))))
			c.res("text", bare(c.ModuleLoadFatBinary(c.at, []byte("text\x00"))))
		}},
		{famFunctions, "first-value-calls", "the functions of CUDA 8 that wait for and write words", func(c *raw) {
			c.setup()
			s, g := c.stream(nonBlocking), c.gate()
			c.res("wait-32", c.StreamWaitValue32V1(c.at, s, g.dev, 0, driver.CU_STREAM_WAIT_VALUE_GEQ))
			c.res("wait-64", c.StreamWaitValue64V1(c.at, s, g.dev, 0, driver.CU_STREAM_WAIT_VALUE_GEQ))
			c.res("write-32", c.StreamWriteValue32V1(c.at, s, g.dev, 1, 0))
			c.res("write-64", c.StreamWriteValue64V1(c.at, s, g.dev, 1, 0))
			c.res("wait-for-nothing", c.StreamWaitValue32V1(c.at, s, 0, 0, driver.CU_STREAM_WAIT_VALUE_GEQ))
			c.res("write-nothing", c.StreamWriteValue32V1(c.at, s, 0, 1, 0))
			c.res("other-flags", c.StreamWriteValue32V1(c.at, s, g.dev, 1, 1<<20))
		}},
		{famFunctions, "log-to-file", "what the file with the driver's log has, and has not any more", func(c *raw) {
			c.setup()
			dir, err := os.MkdirTemp("", "purecu-log-")
			if err != nil {
				c.fatal("a folder: %v", err)
			}
			defer os.RemoveAll(dir)
			path := filepath.Join(dir, "log")
			lines := func(step string) {
				text, _ := os.ReadFile(path)
				c.val(step, bytes.Count(text, []byte("cuLogsDumpToMemory")) > 0)
			}
			at, res := c.LogsCurrent(c.at, 0)
			c.must("cuLogsCurrent", res)
			begin := at
			_, _, res = c.LogsDumpToMemory(c.at, at, nil, 0) // writes to the log
			c.res("a-call-that-fails", res)
			c.res("dump", c.LogsDumpToFile(c.at, &at, path, 0))
			lines("dump-has-the-call")
			c.val("position-is-the-newest", at > begin)
			c.res("dump-the-rest", c.LogsDumpToFile(c.at, &at, path, 0))
			lines("the-rest-replaces-the-file")
			c.res("dump-all", c.LogsDumpToFile(c.at, nil, path, 0))
			lines("all-has-the-call")
			c.res("with-flags", c.LogsDumpToFile(c.at, &at, path, 1))
			c.res("no-such-folder", c.LogsDumpToFile(c.at, &at, filepath.Join(dir, "none", "log"), 0))
			c.res("a-folder", c.LogsDumpToFile(c.at, &at, dir, 0))
			c.res("no-path", c.LogsDumpToFile(c.at, &at, "", 0))
		}},
		{famFunctions, "synchronous-sets", "which memory may have the attribute, and which calls wait then", func(c *raw) {
			_, ctx := c.setup()
			p := c.memory()
			get := func(step string) {
				v, res := c.PointerGetAttribute(c.at, syncMemOps, p)
				c.must("cuPointerGetAttribute", res)
				c.val(step, uint32(v[0]))
			}
			c.res("another-attribute", c.PointerSetAttribute(c.at, 1, driver.CU_POINTER_ATTRIBUTE_MAPPED, p))
			c.res("no-memory", c.PointerSetAttribute(c.at, 1, syncMemOps, 16))
			host, res := c.MemHostAlloc(c.at, 64, 0)
			c.must("cuMemHostAlloc", res)
			c.res("pinned-memory", c.PointerSetAttribute(c.at, 1, syncMemOps, driver.DevicePtr(host)))
			managed, res := c.MemAllocManaged(c.at, 64, driver.CU_MEM_ATTACH_GLOBAL)
			c.must("cuMemAllocManaged", res)
			c.res("managed-memory", c.PointerSetAttribute(c.at, 1, syncMemOps, managed))
			waits := func(step string, call func(*raw) driver.Result) {
				_, gate := c.held(0)
				waited, res := c.waits(ctx, gate, call)
				c.val(step+"-waits", waited)
				c.res(step, res)
				c.must("cuCtxSynchronize", c.CtxSynchronize(c.at))
			}
			set := func(c *raw) driver.Result { return c.MemsetD8(c.at, p, 1, 64) }
			waits("memset", set)
			waits("set-the-attribute", func(c *raw) driver.Result { return c.PointerSetAttribute(c.at, 2, syncMemOps, p+8) })
			get("attribute")
			waits("memset-then", set)
			c.res("unset", c.PointerSetAttribute(c.at, 0, syncMemOps, p))
			get("attribute-afterwards")
			waits("memset-afterwards", set)
		}},
	}
}
