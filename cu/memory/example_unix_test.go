//go:build unix

package memory_test

import (
	"fmt"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/memory"
	"github.com/purecu/purecu/cusim"
)

// A process exports a pool and memory of it, and another one opens both. The file goes there by os/exec.Cmd.ExtraFiles
// or over a Unix socket, and the handle as bytes. Here, a second driver stands for the other process.
func ExamplePool_Export() {
	open := func() *cu.Context {
		return must(must(must(cu.Open(cu.WithSoftware(cusim.New()))).Device(0)).PrimaryContext())
	}
	gpu, elsewhere := open(), open()
	defer gpu.Close()
	defer elsewhere.Close()
	s := must(gpu.NewStream(cu.StreamNonBlocking))
	defer s.Close()

	pool := must(memory.NewPool(gpu, memory.PoolOptions{Shareable: true}))
	defer pool.Close()
	mem := must(pool.Alloc(s, 4))
	defer mem.Close()
	check(s.Memset(mem, 7))
	check(s.Synchronize()) // or an event that both processes use: Event.IPCHandle
	file := must(pool.Export())
	defer file.Close()
	handle := must(memory.PoolHandleOf(mem))

	imported := must(memory.ImportPool(elsewhere, file.Fd()))
	defer imported.Close()
	same := must(imported.Open(handle))
	defer same.Close() // before the memory is closed where it was allocated
	b := make([]byte, same.Size())
	check(same.CopyTo(b))
	fmt.Println(b)
	// Output: [7 7 7 7]
}
