package soak

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// sample has the numbers of resources of the process, the library and the driver, by name.
type sample map[string]int

// slack is by how much a number may be higher at the end than after the warm-up. The default is
// defaultSlack. The values do not depend on the duration of the test, because a leak in each of
// thousands of rounds exceeds them.
var slack = map[string]int{
	"process: KB resident": 64 << 10,
	"process: threads":     24,  // Go keeps threads that waited in system calls
	"process: mappings":    100, // of threads and the heap
	// Contexts keep these objects.
	"driver: event":             600,
	"driver: stream":            3 * 16, // wake-up streams
	"driver: KB of memory used": 64 << 10,
	"stats: WakeUpStreams":      3 * 16,
	// The library checks whether their work is over when it needs their memory.
	"stats: UnfinishedTimelines": 3 * 512,
	"rounds":                     1 << 60,
}

const defaultSlack = 8

// highWater are numbers that rise whenever more objects exist at a time than ever before, because
// the driver and the C library keep what they have allocated for them. That happens once or twice in a
// test, so the two largest steps from one sample to the next do not count. A leak raises the numbers
// in every phase.
var highWater = map[string]bool{"process: KB resident": true, "driver: KB of memory used": true}

// uncollected is by how much a number may be higher if everything was closed but the garbage
// collector has not run. Files and mappings must not depend on the collector. Threads and the heap of
// a driver in C had 121 mappings more.
var uncollected = map[string]int{"process: file descriptors": 50, "process: mappings": 200}

// sample takes a sample after settle.
func (s *soak) sample() sample {
	n := sample{"rounds": int(s.rounds.Load()), "process: goroutines": runtime.NumGoroutine()}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		n["process: file descriptors"] = len(entries) - 1 // one is the open folder itself
	}
	if b, err := os.ReadFile("/proc/self/maps"); err == nil {
		n["process: mappings"] = strings.Count(string(b), "\n")
	}
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(b)) {
			switch f := strings.Fields(line); f[0] {
			case "Threads:":
				n["process: threads"], _ = strconv.Atoi(f[1])
			case "VmRSS:":
				n["process: KB resident"], _ = strconv.Atoi(f[1])
			}
		}
	}
	v := reflect.ValueOf(s.drv.Stats())
	for i := range v.NumField() {
		f := v.Field(i)
		if f.CanUint() {
			n["stats: "+v.Type().Field(i).Name] = int(f.Uint())
		} else {
			n["stats: "+v.Type().Field(i).Name] = int(f.Int())
		}
	}
	if s.sim != nil {
		for kind, live := range s.sim.Census() {
			n["driver: "+kind] = live
		}
	} else if free, total, err := s.gpus[0].MemInfo(); err == nil {
		n["driver: KB of memory used"] = int((total - free) >> 10)
	}
	return n
}

// same reports whether two samples show that nothing changes any more.
func same(a, b sample) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	for _, m := range []sample{a, b} {
		delete(m, "process: KB resident")
		delete(m, "process: threads")
	}
	return maps.Equal(a, b)
}

// largestSteps returns the sum of a number's two largest rises from one sample to the next.
func largestSteps(name string, samples []sample) int {
	var first, second int
	for i, s := range samples[1:] {
		if rise := s[name] - samples[i][name]; rise > first {
			first, second = rise, first
		} else {
			second = max(second, rise)
		}
	}
	return first + second
}

// judge compares the last third of the samples with the first sample. A number has grown if it is
// higher by more than the slack in all of them.
func judge(samples []sample) (complaints []string) {
	base, late := samples[0], samples[len(samples)-len(samples)/3:]
	names := make(map[string]bool)
	for _, s := range samples {
		for n := range s {
			names[n] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		least := late[0][name]
		for _, s := range late {
			least = min(least, s[name])
		}
		allowed, named := slack[name]
		if !named {
			allowed = defaultSlack
		}
		if of, ok := strings.CutPrefix(name, "without the collector: "); ok {
			for _, s := range samples {
				if s[name] > s[of]+uncollected[of] {
					complaints = append(
						complaints,
						fmt.Sprintf("%s: %d wait for the collector though all was closed, and %d may",
							of, s[name]-s[of], uncollected[of]),
					)
					break
				}
			}
			continue
		}
		if highWater[name] {
			allowed += largestSteps(name, samples)
		}
		if least > base[name]+allowed {
			complaints = append(complaints, fmt.Sprintf("%s: grew from %d to %d in %d rounds, and may by %d",
				name, base[name], late[len(late)-1][name], late[len(late)-1]["rounds"]-base["rounds"], allowed))
		}
	}
	return complaints
}
