package checkpoint_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/purecu/purecu/cu"
	"github.com/purecu/purecu/cu/checkpoint"
	"github.com/purecu/purecu/cutest"
)

// TestGPUCheckpoint takes a process off the GPU and puts it back, also with a mapping of its GPUs, and
// looks whether its memory and its events are as they were.
func TestGPUCheckpoint(t *testing.T) {
	const inner = "PURECU_TEST_CHECKPOINT"
	if os.Getenv(inner) != "" {
		checkpointed(t)
		return
	}
	drv := cutest.Driver(t)
	if must(drv.Version())(t) < 12080 {
		t.Skip("the driver has no checkpoints: it is older than CUDA 12.8")
	}
	args := append(strings.Fields(os.Getenv("PURECU_TEST_EXEC")), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), inner+"=1"), os.Stderr
	in, out := must(cmd.StdinPipe())(t), must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	lines := bufio.NewScanner(out)
	expect := func(want string) {
		t.Helper()
		for lines.Scan() {
			t.Log("the other process: ", lines.Text())
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("the other process ended before it wrote %q", want)
	}
	expect("READY")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := checkpoint.Of(drv, cmd.Process.Pid)
	if tid, err := p.RestoreThread(); err != nil || tid <= 0 {
		t.Errorf("RestoreThread: %d, %v", tid, err)
	}
	type step struct {
		name string
		make func(context.Context) error
		want checkpoint.State
	}
	steps := []step{
		{"Lock", p.Lock, checkpoint.Locked},
		{"Checkpoint", p.Checkpoint, checkpoint.Checkpointed},
		{"Restore", p.Restore, checkpoint.Locked},
		{"Unlock", p.Unlock, checkpoint.Running},
	}
	if version := must(drv.Version())(t); version >= 13000 {
		same := make(map[cu.UUID]cu.UUID) // all GPUs, each on itself
		for _, dev := range must(drv.Devices())(t) {
			id := must(dev.UUID())(t)
			same[id] = id
		}
		again := func(ctx context.Context) error { return p.RestoreOn(ctx, same) }
		steps = append(steps, steps[0], steps[1], step{"RestoreOn", again, checkpoint.Locked}, steps[3])
	}
	for _, step := range steps {
		begin := time.Now()
		if err := step.make(ctx); err != nil {
			cmd.Process.Kill()
			t.Fatalf("%s: %v", step.name, err)
		}
		state, err := p.State()
		if err != nil || state != step.want {
			t.Errorf("after %s: %v, %v; want %v", step.name, state, err, step.want)
		}
		t.Logf("%s took %v", step.name, time.Since(begin))
	}
	if err := p.Unlock(ctx); err == nil {
		t.Error("a running process was unlocked")
	} else {
		t.Log(err)
	}
	io.WriteString(in, "go on\n")
	expect("UNCHANGED")
	t.Log("a process that does not exist: ", checkpoint.Of(drv, 1<<22).Lock(ctx))
}

// checkpointed is the process of which there is a checkpoint.
func checkpointed(t *testing.T) {
	gpu := cutest.Context(t)
	s := must(gpu.NewStream(cu.StreamNonBlocking))(t)
	defer s.Close()
	numbers := make([]uint32, 1<<20)
	for i := range numbers {
		numbers[i] = uint32(i * i)
	}
	mem := must(cu.AllocFrom(gpu, numbers))(t)
	defer mem.Close()
	start, stop := must(gpu.NewEvent(cu.EventDefault))(t), must(gpu.NewEvent(cu.EventDefault))(t)
	defer start.Close()
	defer stop.Close()
	for _, err := range []error{start.Record(s), s.Memset(mem.Span(0, 4), 0), stop.Record(s), s.Synchronize()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := must(cu.Elapsed(t.Context(), start, stop))(t)
	fmt.Println("READY")
	bufio.NewReader(os.Stdin).ReadString('\n') // meanwhile the checkpoint is made, and restored

	if st, err := stop.Query(); st != cu.Complete || err != nil {
		t.Errorf("the event: %v, %v", st, err)
	}
	if after, err := cu.Elapsed(t.Context(), start, stop); after != before || err != nil {
		t.Errorf("the time between the events was %v, and is %v, %v", before, after, err)
	}
	got := make([]uint32, len(numbers))
	if err := cu.CopyTo(mem, got); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if i > 0 && v != numbers[i] {
			t.Fatalf("number %d is %d", i, v)
		}
	}
	for _, err := range []error{start.Record(s), stop.Record(s), stop.Wait(t.Context())} { // and it all goes on
		if err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("UNCHANGED")
}
