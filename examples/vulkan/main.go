//go:build linux && !cu_static

// Command vulkan shares memory and a timeline semaphore between Vulkan and CUDA, without cgo.
// Vulkan creates both, and CUDA imports them. CUDA fills the memory, Vulkan copies it, and CUDA
// reads the copy. Each waits on the GPU for the other's signal. It needs a GPU of NVIDIA's with its
// driver for Vulkan: the software driver is no device of Vulkan's. It is a module of its own, as it
// calls Vulkan through purego, which programs with -tags cu_static cannot do.
//
// It exits with 1 after an error, and with 2 if there is no driver, or no Vulkan for the GPU.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/interop"
)

const (
	size  = 1 << 20
	half  = size / 2
	trips = 100
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("vulkan: ")
	if os.Getenv("PURECU_DRIVER") == "soft" {
		check(fmt.Errorf("%w: the software driver is no device of Vulkan's; unset PURECU_DRIVER", errNoVulkan))
	}
	dev := must(must(cu.Open()).Device(0))
	v := must(openVulkan(must(dev.UUID())))
	buf, sem := must(v.newBuffer(size, memoryDeviceLocal)), must(v.newSemaphore(semaphoreTimeline, handleOpaqueFd))
	toSecondHalf := must(v.newCopy(buf, bufferCopy{DstOffset: half, Size: half}))

	gpu := must(dev.PrimaryContext())
	mem, signal := must(importMem(gpu, buf)), must(importSemaphore(gpu, sem, interop.SemaphoreTimelineFD))
	s, read := must(gpu.NewStream(cu.StreamNonBlocking)), must(cu.AllocHostFor[byte](gpu, half, cu.HostDefault))
	fmt.Printf("Vulkan and CUDA share %d bytes and a semaphore of %s\n", size, must(dev.Name()))

	var times []time.Duration
	for i := range uint64(trips) {
		value, filled, copied := byte(i+1), 2*i+1, 2*i+2
		start := time.Now()
		check(errors.Join(s.Memset(mem.Span(0, half), value), interop.Signal(s, signal.At(filled))))
		say(i, "CUDA's stream fills the first half with %d and signals %d\n", value, filled)
		check(v.submit(toSecondHalf, sem, filled, copied))
		say(i, "Vulkan's queue waits for %d, copies it to the second half and signals %d\n", filled, copied)
		check(errors.Join(interop.Wait(s, signal.At(copied)), s.Copy(read, mem.Span(half, half)), s.Synchronize()))
		times = append(times, time.Since(start))
		check(cu.View(read, func(b []byte) error {
			if n := bytes.Count(b, []byte{value}); n != half {
				return fmt.Errorf("trip %d: %d of %d bytes are %d", i, n, half, value)
			}
			return nil
		}))
		say(i, "CUDA's stream waited for %d and read %d bytes of %d\n", copied, half, value)
	}
	fmt.Printf("a round trip took %v, and %v later\n", times[0], slices.Min(times))
	check(errors.Join(read.Close(), s.Close(), signal.Close(), mem.Close(), gpu.Close()))
	sem.close()
	buf.close()
	check(v.close())
}

// say prints the steps of the first trip.
func say(trip uint64, format string, args ...any) {
	if trip == 0 {
		fmt.Printf(format, args...)
	}
}

// importMem imports the memory of a buffer into CUDA.
func importMem(gpu *cu.Context, b *buffer) (*cu.DeviceMem, error) {
	f, err := b.file()
	if err != nil {
		return nil, err
	}
	defer f.Close() // CUDA has a duplicate
	return interop.ImportMem(gpu, interop.MemHandle{Type: interop.MemOpaqueFD, Handle: f.Fd()}, b.size)
}

// importSemaphore imports a semaphore into CUDA.
func importSemaphore(gpu *cu.Context, s *semaphore, kind interop.SemaphoreType) (*interop.Semaphore, error) {
	f, err := s.file()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return interop.ImportSemaphore(gpu, interop.SemaphoreHandle{Type: kind, Handle: f.Fd()})
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err == nil {
		return
	}
	log.Print(err)
	if errors.Is(err, errNoVulkan) || errors.Is(err, cu.ErrNoDriver) || errors.Is(err, cu.ErrNoDevice) {
		os.Exit(2)
	}
	os.Exit(1)
}
