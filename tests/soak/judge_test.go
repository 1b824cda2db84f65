package soak

import "testing"

// TestJudge checks which series of samples count as growth.
func TestJudge(t *testing.T) {
	const resident, events = "process: KB resident", "stats: Waits"
	series := func(name string, values ...int) (samples []sample) {
		for _, v := range values {
			samples = append(samples, sample{name: v})
		}
		return samples
	}
	for _, c := range []struct {
		name     string
		samples  []sample
		complain bool
	}{
		{"a leak", series(resident, 0, 20<<10, 40<<10, 60<<10, 80<<10, 100<<10, 120<<10, 140<<10), true},
		{"a leak in every second phase", series(resident, 0, 0, 80<<10, 80<<10, 160<<10, 160<<10, 240<<10,
			240<<10, 320<<10), true},
		{"less than the slack", series(resident, 0, 1, 2, 3, 4, 5, 6), false},
		{"two times more objects than before", series(resident, 0, 0, 20<<10, 20<<10, 120<<10, 120<<10,
			120<<10), false},
		{"other numbers have no high-water mark", series(events, 0, 0, 0, 0, 9, 9, 9), true},
		{"higher at the end only", series(events, 0, 0, 0, 0, 0, 0, 9), false},
	} {
		if complaints := judge(c.samples); (len(complaints) > 0) != c.complain {
			t.Errorf("%s: %q", c.name, complaints)
		}
	}
}
