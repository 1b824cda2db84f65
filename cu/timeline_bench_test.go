package cu_test

import (
	"testing"

	. "github.com/purecu/purecu/cu"
	. "github.com/purecu/purecu/internal/testrig"
)

// BenchmarkTimelineOpenClose creates a timeline, uses it, and closes it, on the software driver.
func BenchmarkTimelineOpenClose(b *testing.B) {
	r := NewSoft(b)
	benchTimelines(b, r.GPU, r.S)
}

// BenchmarkGPUTimelineOpenClose is that on a GPU.
func BenchmarkGPUTimelineOpenClose(b *testing.B) {
	gpu := GPUContext(b)
	s := Need(gpu.NewStream(StreamNonBlocking))(b)
	defer s.Close()
	benchTimelines(b, gpu, s)
}

func benchTimelines(b *testing.B, gpu *Context, s *Stream) {
	for _, bench := range []struct {
		name string
		use  func(tl *Timeline) error
	}{
		{"unused", func(*Timeline) error { return nil }},
		{"set", func(tl *Timeline) error { return tl.Set(1) }},
		{"signalled", func(tl *Timeline) error { return tl.Signal(s, 1) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				tl, err := gpu.NewTimeline(0)
				if err != nil {
					b.Fatal(err)
				}
				if err := bench.use(tl); err != nil {
					b.Fatal(err)
				}
				if err := tl.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
		if err := s.Synchronize(); err != nil {
			b.Fatal(err)
		}
	}
}
