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

// sample is what the process, the library and the driver hold, by name.
type sample map[string]int

// slack is by how much a number may be higher in the end than after the warm-up. Others may be so by defaultSlack. None
// depends on how long the test takes: what leaks at each of thousands of rounds is above that.
var slack = map[string]int{
	"process: KB resident": 64 << 10,
	"process: threads":     24,  // Go keeps those that waited in calls of the system
	"process: mappings":    100, // as threads have, and the heap
	// What contexts keep for later.
	"driver: event":             600,
	"driver: stream":            3 * 16, // those that wake goroutines
	"driver: KB of memory used": 64 << 10,
	"stats: WakeUpStreams":      3 * 16,
	// Whether the work of these is over is looked at when their memory is needed.
	"stats: UnfinishedTimelines": 3 * 512,
	"rounds":                     1 << 60,
}

const defaultSlack = 8

// uncollected is by how much a number may be higher before the garbage collector has run, when all
// was closed: what takes a file or a mapping must not wait for the collector.
var uncollected = map[string]int{"process: file descriptors": 50, "process: mappings": 100}

// sample takes one, after settle.
func (s *soak) sample() sample {
	n := sample{"rounds": int(s.rounds.Load()), "process: goroutines": runtime.NumGoroutine()}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		n["process: file descriptors"] = len(entries) - 1 // one is of the folder itself
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

// same reports whether two samples are of a state in which nothing goes away by itself any more.
func same(a, b sample) bool {
	a, b = maps.Clone(a), maps.Clone(b)
	for _, m := range []sample{a, b} {
		delete(m, "process: KB resident")
		delete(m, "process: threads")
	}
	return maps.Equal(a, b)
}

// judge compares the last third of the samples with the first one. What is higher there, in all of them, by more than
// the slack has grown.
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
		if least > base[name]+allowed {
			complaints = append(complaints, fmt.Sprintf("%s: grew from %d to %d in %d rounds, and may by %d",
				name, base[name], late[len(late)-1][name], late[len(late)-1]["rounds"]-base["rounds"], allowed))
		}
	}
	return complaints
}
