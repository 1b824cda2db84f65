package compile

import (
	"strings"
	"testing"

	"github.com/purecu/purecu/internal/ptx/vm"
)

// TestWatchedKernels executes what nvcc has made of the sources in testdata/kernels for one architecture in
// other orders, with counts and a trace, which does not change the results. A thread that is traced has
// executed all that a launch of one thread has counted.
func TestWatchedKernels(t *testing.T) {
	files := recordedKernels(t)
	for _, base := range textsOf(files) {
		if !strings.Contains(base, "sm_90") {
			continue
		}
		t.Run(base, func(t *testing.T) {
			for seed := range uint64(3) {
				s, err := newScene(files[base+".ptx"])
				if err != nil {
					t.Fatal(err)
				}
				s.module.Note(files[base+".ptx"])
				steps, exits := 0, 0
				s.watch = func(k *vm.Kernel) *vm.Watch {
					return &vm.Watch{Seed: seed, Seeded: seed > 0, Counts: make([]vm.Count, len(k.Notes.Insts)),
						Trace: &vm.Trace{Step: func(s vm.Step) {
							if steps++; !s.Skipped && (s.Text == "ret" || s.Text == "exit") {
								exits++
							}
							if s.Ended && !s.Skipped && len(s.Writes) != len(s.Inst.Writes) ||
								len(s.Reads) != len(s.Inst.Reads) {
								t.Errorf("line %d: %s: %d, %d values", s.Line, s.Text, s.Reads, s.Writes)
							}
						}}}
				}
				why, err := s.wrong(files, base)
				if err != nil {
					t.Fatal(err)
				}
				if why != "" {
					t.Errorf("seed %d: %s", seed, why)
				}
				if steps == 0 || exits == 0 && s.fault == nil {
					t.Errorf("%d steps, %d exits", steps, exits)
				}
			}
		})
	}
}
