package races

import (
	"fmt"
	"strings"
	"testing"
)

// TestStreamPrograms holds the detector to what PyTorch's CUDA Sanitizer reports: kernels on streams,
// events, and waits of the host. A step is "read 1 a" or "write 1 ab" (the stream 1 uses the memory a
// and b), "record 1 x" and "wait 2 x" for the event x, "destroy x", or a wait of the host: "done x",
// "idle 1", or "synchronize". "stream 3" is where the program creates the stream: others are there from
// the beginning.
func TestStreamPrograms(t *testing.T) {
	reads := func(streams, waits int) string {
		var steps []string
		for i := 1; i <= streams; i++ {
			steps = append(steps, fmt.Sprintf("read %d a; record %d %c", i, i, 'p'+i))
		}
		for i := 1; i <= waits; i++ {
			steps = append(steps, fmt.Sprintf("wait 0 %c", 'p'+i))
		}
		return strings.Join(append(steps, "write 0 a"), "; ")
	}
	chain := "write 0 a"
	for i := range 8 {
		chain += fmt.Sprintf("; record %d x; wait %d x", i, i+1)
	}
	for _, tt := range []struct {
		name, steps string
		races       int
	}{
		{"reads", "read 1 a; read 2 a", 0},
		{"a write after a read", "read 1 a; write 2 a", 1},
		{"a read after a write", "write 1 a; read 2 a", 1},
		{"an event", "read 1 a; record 1 x; wait 2 x; write 2 a", 0},
		{"each read, not only the first", "write 1 a; record 1 x; wait 2 x; read 2 a; read 3 a", 1},
		{"two readers", "write 1 a; record 1 x; wait 2 x; wait 3 x; read 2 a; read 3 a", 0},
		{"a write beside a reader", "write 1 a; record 1 x; wait 2 x; wait 3 x; read 2 a; read 3 a; write 2 a", 1},
		{"a chain", chain + "; write 8 a", 0},
		{"a chain that ends too early", chain + "; write 7 a; write 8 a", 1},
		{"a record that came too early", "read 1 a; record 1 x; read 1 a; wait 2 x; write 2 a", 1},
		{"an event that was destroyed", "read 1 a; record 1 x; destroy x; wait 2 x; write 2 a", 1},
		{"all reads", reads(7, 7), 0},
		{"all reads but one", reads(7, 6), 1},
		{"several pieces, for one reason", "write 0 abcdefgh; write 1 abcdefgh", 1},
		{"waits for each other", "write 1 a; write 2 b; record 1 x; record 2 y; write 1 a; write 2 b; wait 2 x; wait 1 y;" +
			"record 2 z; wait 1 z; write 1 ab", 0},
		{"waits for each other, and one is missing", "write 1 a; write 2 b; record 1 x; record 2 y; write 1 a; write 2 b;" +
			"wait 2 x; wait 1 y; write 1 ab", 1},
		{"an event that is recorded again", "read 1 a; read 2 b; record 1 x; record 2 x; wait 3 x; write 3 a", 1},
		{"two waits for a record", "write 1 a; record 1 x; wait 2 x; wait 3 x; read 2 a; read 3 a", 0},
		{"the host waits for all", "write 1 a; write 2 b; synchronize; write 3 ab", 0},
		{"the host waits for a stream", "write 1 a; idle 1; write 2 a", 0},
		{"the host waits for another stream", "write 1 a; idle 2; write 2 a", 1},
		{"the host waits for a stream that has waited", "write 1 a; record 1 x; wait 2 x; idle 2; write 3 a", 0},
		{"the host waits for an event", "write 1 a; record 1 x; write 1 b; done x; read 2 a", 0},
		{"the host waits for an event before", "write 1 a; record 1 x; write 1 b; done x; read 2 b", 1},
		{"a new stream", "write 1 a; stream 3; read 3 a", 1},
		{"a new stream after the host has waited", "write 1 a; synchronize; stream 3; read 3 a", 0},
		{"a new stream after the host has waited for an event", "write 1 a; record 1 x; done x; stream 3; read 3 a", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var found []Race
			d := New(func(r Race) { found = append(found, r) })
			stream := func(name string) Stream { return Stream{Context: 1, Handle: uintptr(name[0])} }
			for i := range 9 {
				if name := fmt.Sprint(i); !strings.Contains(tt.steps, "stream "+name) {
					d.NewStream(stream(name), true, true)
				}
			}
			for step := range strings.SplitSeq(tt.steps, ";") {
				w := append(strings.Fields(step), "")
				e := uintptr(w[len(w)-2][0])
				switch w[0] {
				case "stream":
					d.NewStream(stream(w[1]), true, true)
				case "read", "write":
					var uses []Use
					for _, m := range w[2] {
						uses = append(uses, Use{Addr: uint64(m) * 16, Size: 16, Write: w[0] == "write"})
					}
					d.Enqueue(stream(w[1]), "cuLaunchKernel", "", uses)
				case "record":
					d.Record(stream(w[1]), e, PlainEvent)
				case "wait":
					d.Wait(stream(w[1]), e, PlainEvent)
				case "destroy":
					d.EventDestroyed(e)
				case "done":
					d.EventDone(e, PlainEvent)
				case "idle":
					d.StreamDone(stream(w[1]))
				case "synchronize":
					d.ContextDone(1)
				default:
					t.Fatalf("there is no step %q", step)
				}
			}
			d.Report()
			if len(found) != tt.races {
				t.Errorf("%d races, want %d: %+v", len(found), tt.races, found)
			}
		})
	}
}
