package loader

import (
	"slices"
	"strings"

	"github.com/purecu/purecu/internal/initresult"
)

// judge returns what follows from the facts of a report. It reads nothing else, so that it can run
// again when a fact is added.
func (r *Report) judge() []Finding {
	j := judge{Report: r, list: []Finding{}}
	linux := strings.HasPrefix(r.Platform, "linux/")
	if len(r.Candidates) == 0 || r.Library == nil && !shipped[r.Platform] {
		j.explain("NVIDIA ships no CUDA driver for "+r.Platform, "",
			"run the program on Linux or Windows, on a machine with an NVIDIA GPU")
	}
	// Causes come before their effects.
	j.named()
	if j.Library != nil && j.Library.Simulated { // it does not depend on the machine
		if j.failed() {
			j.add(Fault, "cuInit failed with "+j.Init.String(), initresult.OfSoftware(j.Init.Code), initresult.Settings)
		}
		return j.list
	}
	if linux {
		j.wsl()
		j.hardware()
		j.container()
		if j.NamedBy == "" {
			j.glibc()
		}
	}
	j.library()
	if linux {
		j.module()
		j.files()
	}
	j.hidden()
	j.init()
	j.notes()

	if j.initialised() {
		for i := range j.list { // it cannot be a fault, because CUDA works
			if j.list[i].Severity == Fault {
				j.list[i].Severity = Warning
			}
		}
	}
	order := []Severity{Fault, Warning, Note}
	slices.SortStableFunc(j.list, func(a, b Finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
	return j.list
}

// judge is a report whose findings are being collected.
type judge struct {
	*Report
	list []Finding
	// explained is set when it is known why there is no GPU, no library, or no device file. What
	// follows from that is not reported.
	explained bool
}

func (j *judge) add(s Severity, title, detail, fix string) {
	j.list = append(j.list, Finding{s, title, detail, fix})
}

// explain adds a fault that explains everything that is missing.
func (j *judge) explain(title, detail, fix string) {
	j.add(Fault, title, detail, fix)
	j.explained = true
}

// initialised and failed report what cuInit returned. Both are false if that is not known.
func (j *judge) initialised() bool { return j.Init != nil && j.Init.Code == 0 }
func (j *judge) failed() bool      { return j.Init != nil && j.Init.Code != 0 }

// suspect is the severity of something that CUDA may well work with. It is a fault only if CUDA is
// known not to work.
func (j *judge) suspect() Severity {
	if j.failed() {
		return Fault
	}
	return Warning
}

// notes adds what is good to know.
func (j *judge) notes() {
	if j.EnvironmentIgnored {
		j.add(Warning, Environment+" is ignored",
			"this program has rights that its user lacks, or keeps from its user what it is, so that its user must "+
				"not choose what code it loads", j.unset(Environment))
	}
	if j.compatible() {
		j.add(Note, "the library is that of the CUDA toolkit's package for forward compatibility",
			j.Library.Path+"; it works on data center GPUs and some Jetsons", "")
	}
	if j.Kernel.Nouveau && j.Kernel.Loaded {
		j.add(Note, "nouveau is loaded beside NVIDIA's module",
			"which of the two gets a GPU depends on which is loaded first", "")
	}
}
