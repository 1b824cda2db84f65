package cu_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purecu/purecu/cu"
)

// A program that works without a GPU too asks what is missing.
func ExampleOpen() {
	_, err := cu.Open(cu.WithLibrary("/nowhere/libcuda.so.1"))
	switch {
	case errors.Is(err, cu.ErrNoDriver):
		fmt.Println("no driver: going on without a GPU")
	case errors.Is(err, cu.ErrNoDevice):
		fmt.Println("no device: going on without a GPU")
	case err != nil:
		fmt.Println(err)
	}
	// Output: no driver: going on without a GPU
}

func ExampleResult() {
	var err error = cu.ResultInvalidHandle
	fmt.Println(err)
	fmt.Println(cu.ResultIllegalAddress.Name(), cu.ResultIllegalAddress.Sticky())
	fmt.Println(cu.Result(12345))
	// Output:
	// CUDA_ERROR_INVALID_HANDLE (400): invalid resource handle
	// CUDA_ERROR_ILLEGAL_ADDRESS true
	// CUresult 12345
}

// The zero Event is ready to use. It is complete, as nothing was recorded.
func ExampleEvent() {
	var e cu.Event
	st, err := e.Query()
	fmt.Println(st, err)
	fmt.Println(e.Wait(context.Background()), e.Close())
	// Output:
	// complete <nil>
	// <nil> <nil>
}

func ExampleError() {
	var e cu.Event
	err := e.Record(nil)
	fmt.Println(err)
	fmt.Println(errors.Is(err, cu.ErrNil), errors.Is(err, cu.ResultInvalidHandle))
	// Output:
	// cu: cuEventRecord: nil object; the stream is nil: check the error of the call that should have made it
	// true true
}

// Polling never meets an error while work is under way.
func ExampleEvent_Query() {
	poll := func(done *cu.Event) error {
		for {
			st, err := done.Query()
			if err != nil || st == cu.Complete {
				return err
			}
			time.Sleep(time.Millisecond) // or do something useful
		}
	}
	fmt.Println(poll(new(cu.Event)))
	// Output: <nil>
}

// Two streams, of which one waits for the other on the GPU.
func ExampleStream_WaitEvent() {
	pipeline := func(gpu *cu.Context, produce, consume *cu.Function, buf *cu.DeviceMem) error {
		producer, err := gpu.NewStream(cu.StreamNonBlocking)
		if err != nil {
			return err
		}
		defer producer.Close()
		consumer, err := gpu.NewStream(cu.StreamNonBlocking)
		if err != nil {
			return err
		}
		defer consumer.Close()

		cfg := cu.LaunchConfig{Grid: cu.Dim3{X: 64}, Block: cu.Dim3{X: 256}}
		if err := produce.Launch(producer, cfg, cu.Ptr(buf), cu.U32(1<<14)); err != nil {
			return err
		}
		var produced cu.Event // created by its first record
		defer produced.Close()
		if err := produced.Record(producer); err != nil {
			return err
		}
		if err := consumer.WaitEvent(&produced); err != nil {
			return err
		}
		if err := consume.Launch(consumer, cfg, cu.Ptr(buf), cu.U32(1<<14)); err != nil {
			return err
		}
		return consumer.Synchronize()
	}
	_ = pipeline // it needs a GPU
}
