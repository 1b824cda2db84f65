// Package double is a project whose tests run on the GPUs of the action.
package double

import (
	"slices"
	"strings"
	"testing"

	"github.com/purecu/purecu/cu"
)

const ptx = `.version 7.0
.target sm_75
.address_size 64
.visible .entry double(.param .u64 numbers) {
	.reg .u64 %p, %at;
	.reg .u32 %i, %n;
	ld.param.u64 %p, [numbers];
	mov.u32 %i, %tid.x;
	mul.wide.u32 %at, %i, 4;
	add.u64 %p, %p, %at;
	ld.global.u32 %n, [%p];
	add.u32 %n, %n, %n;
	st.global.u32 [%p], %n;
	ret;
}`

// TestDouble doubles numbers on each GPU.
func TestDouble(t *testing.T) {
	drv, err := cu.Open()
	if err != nil {
		t.Fatal(err)
	}
	n, err := drv.DeviceCount()
	if err != nil || n != 2 {
		t.Fatalf("%d GPUs, %v; want 2", n, err)
	}
	for i, model := range []string{"A100", "T4"} {
		gpu, err := drv.Device(i)
		if err != nil {
			t.Fatal(err)
		}
		if name, err := gpu.Name(); err != nil || !strings.Contains(name, model) {
			t.Errorf("GPU %d is %s, %v; want %s", i, name, err, model)
		}
		got, err := double(gpu, []uint32{1, 2, 3, 40})
		if err != nil || !slices.Equal(got, []uint32{2, 4, 6, 80}) {
			t.Errorf("GPU %d has computed %v, %v", i, got, err)
		}
	}
}

// double returns the double of each number.
func double(gpu *cu.Device, numbers []uint32) ([]uint32, error) {
	ctx, err := gpu.PrimaryContext()
	if err != nil {
		return nil, err
	}
	defer ctx.Close()
	mod, err := ctx.LoadModule([]byte(ptx))
	if err != nil {
		return nil, err
	}
	defer mod.Close()
	kernel, err := mod.Function("double")
	if err != nil {
		return nil, err
	}
	stream, err := ctx.NewStream(cu.StreamNonBlocking)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	memory, err := cu.AllocFrom(ctx, numbers)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	shape := cu.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: uint32(len(numbers))}}
	if err := kernel.Launch(stream, shape, cu.Ptr(memory)); err != nil {
		return nil, err
	}
	if err := stream.Synchronize(); err != nil {
		return nil, err
	}
	return numbers, cu.CopyTo(memory, numbers)
}
