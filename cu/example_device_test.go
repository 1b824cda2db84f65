package cu_test

import (
	"fmt"
	"log"

	"github.com/purecu/purecu/cu"
)

func ExampleDevice() {
	name, err := dev.Name()
	if err != nil {
		log.Fatal(err)
	}
	major, minor, err := dev.ComputeCapability()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, compute capability %d.%d\n", name, major, minor)
}

func ExampleDevice_Attribute() {
	sms, err := dev.Attribute(cu.DeviceAttributeMultiprocessorCount)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sms, "multiprocessors")
}

func ExampleDevice_Attributes() {
	all, err := dev.Attributes()
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range []cu.DeviceAttribute{cu.DeviceAttributeWarpSize, cu.DeviceAttributeMaxThreadsPerBlock} {
		if v, known := all[a]; known {
			fmt.Println(a, "=", v)
		}
	}
}

func ExampleDeviceAttribute() {
	fmt.Println(cu.DeviceAttributeMultiprocessorCount)
	fmt.Println(cu.DeviceAttribute(12345)) // of some later CUDA version
	// Output:
	// multiprocessor_count
	// 12345
}

// The UUID stays with the GPU from one boot to the next.
func ExampleDevice_UUID() {
	id, err := dev.UUID()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id)
}

func ExampleUUID() {
	fmt.Println(cu.UUID{0: 0x01, 15: 0xef})
	// Output: GPU-01000000-0000-0000-0000-0000000000ef
}

// Whoever retains the primary context shares it, CUDA's runtime included, and
// what is made in it mixes.
func ExampleDevice_PrimaryContext() {
	a, err := dev.PrimaryContext()
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	b, err := dev.PrimaryContext()
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	fmt.Println(a.Handle() == b.Handle())
}

// A context of one's own keeps the primary one free of this work's errors and
// limits, at the price of taking turns on the GPU.
func ExampleDevice_NewContext() {
	own, err := dev.NewContext(cu.ContextSchedBlockingSync)
	if err != nil {
		log.Fatal(err)
	}
	defer own.Close()
	flags, err := own.Flags()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(flags&cu.ContextSchedBlockingSync != 0)
}

func ExampleDevice_PrimaryContextState() {
	flags, active, err := dev.PrimaryContextState()
	if err != nil {
		log.Fatal(err)
	}
	if active {
		fmt.Println("somebody retains it; its flags are", flags)
	}
}

// Synchronize is to sleep instead of spinning.
func ExampleDevice_SetPrimaryContextFlags() {
	if err := dev.SetPrimaryContextFlags(cu.ContextSchedBlockingSync); err != nil {
		log.Fatal(err)
	}
	gpu, err := dev.PrimaryContext()
	if err != nil {
		log.Fatal(err)
	}
	defer gpu.Close()
}

func ExampleDevice_CanAccessPeer() {
	devs, err := drv.Devices()
	if err != nil {
		log.Fatal(err)
	}
	for _, peer := range devs {
		if peer == dev {
			continue
		}
		can, err := dev.CanAccessPeer(peer)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("from %d to %d: %v\n", dev.Ordinal(), peer.Ordinal(), can)
	}
}

func ExampleDevice_P2PAttribute() {
	peer, err := drv.Device(1)
	if err != nil {
		log.Fatal(err)
	}
	rank, err := dev.P2PAttribute(cu.P2PAttributePerformanceRank, peer)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("performance rank of the link:", rank)
}
