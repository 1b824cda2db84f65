// Package environment reads the environment variables that configure the software driver. Go programs and
// the library for C have the same ones.
package environment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/purecu/purecu/internal/profile"
	"github.com/purecu/purecu/internal/sim"
	"github.com/purecu/purecu/internal/simnvml"
	"github.com/purecu/purecu/internal/suggest"
	"github.com/purecu/purecu/nvml/raw"
)

const (
	prefix    = "CUSIM_"
	devices   = prefix + "DEVICES"
	profiles  = prefix + "PROFILE"
	seed      = prefix + "SEED"
	faults    = prefix + "FAULTS"
	gpuFaults = prefix + "GPU_FAULTS"
	nvlinks   = prefix + "NVLINKS"
)

// variable is an environment variable that configures the driver.
type variable struct {
	name string
	// parse returns the option for a value, or nil if there is none.
	parse func(value string) (sim.Option, error)
}

// reader reads variables.
type reader struct {
	values map[string]string
	errors io.Writer // gets what variables make the driver say
}

// variables returns all variables, in the order in which their options are used.
func (r *reader) variables() []variable {
	return []variable{
		{devices, parseDevices},
		{profiles, r.parseProfiles},
		{prefix + "DRIVER_VERSION", parseVersion},
		{faults, parseFaults},
		{prefix + "FAULT_RATE", r.parseRate},
		{gpuFaults, parseGPUFaults},
		{prefix + "MACHINE", parseMachine},
		{nvlinks, parseLinks},
		{seed, parseSeed},
		{prefix + "UNKNOWN_KERNELS", parseUnknown},
		{prefix + "CHECK", r.parseChecks},
		{prefix + "TRACE_THREAD", r.parseThread},
		{prefix + "KERNEL_LIMIT", parseLimit},
		{prefix + "REPORT", r.parseReport},
	}
}

// Options returns the options that an environment asks for. environ is a function such as os.Environ. It is
// called here for the variables with the prefix, and by cuInit for those of NVIDIA's driver. stderr gets the mistakes
// of kernels, the trace of a thread and the report, if variables ask for them. A name with the prefix that no
// variable has is an error, as is a value that cannot be understood.
func Options(environ func() []string, stderr io.Writer) ([]sim.Option, error) {
	r := &reader{values: valuesOf(environ()), errors: stderr}
	all := r.variables()
	if err := r.checkNames(all); err != nil {
		return nil, err
	}
	var list []sim.Option
	for _, v := range all {
		value := r.values[v.name]
		if value == "" {
			continue
		}
		o, err := v.parse(value)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", v.name, value, err)
		}
		if o != nil {
			list = append(list, o)
		}
	}
	return append(list, sim.Lookup(func(name string) (string, bool) {
		value, set := valuesOf(environ())[name]
		return value, set
	})), nil
}

// valuesOf returns the values of variables by their names. Of several the last one counts.
func valuesOf(environ []string) map[string]string {
	values := map[string]string{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if runtime.GOOS == "windows" { // the case of names does not count there
			name = strings.ToUpper(name)
		}
		values[name] = value
	}
	return values
}

// checkNames returns an error for a name that only looks like one of the variables.
func (r *reader) checkNames(all []variable) error {
	var names, short []string
	known := map[string]bool{}
	for _, v := range all {
		names, short = append(names, v.name), append(short, v.name[len(prefix):])
		known[v.name] = true
	}
	var wrong string // the first one, so that the error is the same each time
	for name := range r.values {
		if strings.HasPrefix(strings.ToUpper(name), prefix) && !known[name] && (wrong == "" || name < wrong) {
			wrong = name
		}
	}
	if wrong == "" {
		return nil
	}
	near := suggest.Nearest(wrong[len(prefix):], short)
	if len(near) == 0 {
		return fmt.Errorf("the software driver has no environment variable %s: there are %s", wrong, strings.Join(names, ", "))
	}
	return fmt.Errorf("the software driver has no environment variable %s: did you mean %s%s?", wrong, prefix,
		strings.Join(near, " or "+prefix))
}

func parseDevices(s string) (sim.Option, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > profile.MostDevices {
		return nil, fmt.Errorf("this is no number from 0 to %d", profile.MostDevices)
	}
	return sim.Devices(n), nil
}

// parseProfiles parses a list of devices.
func (r *reader) parseProfiles(s string) (sim.Option, error) {
	if n := r.values[devices]; n != "" {
		return nil, fmt.Errorf("%s=%s is set, too, and both say which devices there are: use %s only, such as %s=%s:2",
			devices, n, profiles, profiles, profile.Default().Name)
	}
	gpus, err := profile.Parse(s)
	if err != nil {
		return nil, err
	}
	return sim.GPUs(gpus), nil
}

// NVML returns what an environment says about NVML: NVLinks, and faults of GPUs and of functions. It is nil if the
// environment says nothing.
func NVML(environ []string) (apply func(*simnvml.NVML), err error) {
	values := valuesOf(environ)
	var list []func(*simnvml.NVML)
	if s := values[nvlinks]; s != "" {
		count, err := strconv.Atoi(s)
		if err != nil {
			return nil, err
		}
		list = append(list, func(n *simnvml.NVML) { n.Links(count) })
	}
	if s := values[gpuFaults]; s != "" {
		script, err := simnvml.Script(s)
		if err != nil {
			return nil, err
		}
		list = append(list, script)
	}
	if s := values[faults]; s != "" {
		_, ofNVML, err := splitFaults(s)
		if err != nil {
			return nil, err
		}
		for _, f := range ofNVML {
			list = append(list, func(n *simnvml.NVML) { n.Inject(f) })
		}
	}
	if list == nil {
		return nil, nil
	}
	return func(n *simnvml.NVML) {
		for _, f := range list {
			f(n)
		}
	}, nil
}

// parseGPUFaults checks the value. NVML has the result.
func parseGPUFaults(s string) (sim.Option, error) {
	_, err := simnvml.Script(s)
	return nil, err
}

// parseLinks checks the number of NVLinks of a GPU. NVML has the result.
func parseLinks(s string) (sim.Option, error) {
	if n, err := strconv.Atoi(s); err != nil || n < 0 || n > raw.NVML_NVLINK_MAX_LINKS {
		return nil, fmt.Errorf("this is no number from 0 to %d", raw.NVML_NVLINK_MAX_LINKS)
	}
	return nil, nil
}

func parseMachine(s string) (sim.Option, error) {
	switch runtime.GOOS {
	case "darwin", "freebsd", "linux", "netbsd":
	default:
		return nil, errors.New("processes can share a machine on Linux, macOS, FreeBSD and NetBSD only")
	}
	if err := os.MkdirAll(s, 0o777); err != nil {
		return nil, err
	}
	return sim.Machine(s), nil
}

// parseVersion parses a version such as 12.8 or 12080. The library for C parses it in the same way.
func parseVersion(s string) (sim.Option, error) {
	if major, minor, dotted := strings.Cut(s, "."); dotted && len(minor) == 1 {
		s = major + "0" + minor + "0"
	}
	v, err := strconv.ParseUint(s, 10, 32)
	if err != nil || v < 11000 || v > 13000 || v%1000 > 90 || v%10 != 0 {
		return nil, errors.New("this is no version from 11.0 to 13.0, such as 12.8")
	}
	return sim.Version(int(v)), nil
}

func parseUnknown(s string) (sim.Option, error) {
	if s != "refuse" {
		return nil, errors.New("refuse is the only value")
	}
	return sim.RefuseUnknownKernels(), nil
}

// parseChecks parses the checks of kernels. What they find is written at once.
func (r *reader) parseChecks(s string) (sim.Option, error) {
	c, err := sim.ParseChecks(s)
	return sim.CheckKernels(c, func(text string) { fmt.Fprintf(r.errors, "cusim: %s\n", text) }), err
}

// parseThread parses a thread of a kernel, and perhaps a file, to which its instructions are written.
func (r *reader) parseThread(s string) (sim.Option, error) {
	t, file, err := sim.ParseThread(s)
	if err != nil || file == "" {
		return sim.TraceThread(t, r.errors), err
	}
	// Several processes may have the variable: none overwrites what another one has written. The file stays open as
	// long as the process.
	w, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666)
	return sim.TraceThread(t, w), err
}

func parseLimit(s string) (sim.Option, error) {
	limit, err := time.ParseDuration(s)
	if err != nil || limit <= 0 {
		return nil, errors.New("this is no time, such as 10s")
	}
	return sim.KernelLimit(limit), nil
}

func (r *reader) parseReport(s string) (sim.Option, error) {
	wanted, err := strconv.ParseBool(s)
	if err != nil {
		return nil, errors.New("write 1 for a report, or 0 for none")
	}
	if !wanted {
		return nil, nil
	}
	return sim.Report(r.errors), nil
}

// parseFaults parses the faults. NVML has those of NVML.
func parseFaults(s string) (sim.Option, error) {
	ofCUDA, _, err := splitFaults(s)
	return sim.Faults(ofCUDA...), err
}

// splitFaults parses faults of functions of CUDA and of NVML.
func splitFaults(s string) (ofCUDA []sim.Fault, ofNVML []simnvml.Fault, err error) {
	for one := range strings.SplitSeq(s, ",") {
		f, err := parseFault(strings.TrimSpace(one))
		switch {
		case err != nil && one == s: // the error has the value
			return nil, nil, err
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", one, err)
		case strings.HasPrefix(f.Function, nvmlPrefix):
			ofNVML = append(ofNVML, simnvml.Fault{Function: f.Function, Nth: max(f.Nth, 1), Every: f.Every,
				Result: raw.Return(f.Code), Slow: f.Slow})
		default:
			ofCUDA = append(ofCUDA, f)
		}
	}
	return ofCUDA, ofNVML, nil
}

func parseFault(s string) (f sim.Fault, err error) {
	at := strings.IndexAny(s, "=~")
	if at < 0 {
		return f, errors.New("there is neither = and a code, nor ~ and a time")
	}
	name, value := s[:at], s[at+1:]
	if s[at] == '=' {
		if f.Code, err = parseCode(value); err != nil {
			return f, err
		}
	} else if f.Slow, err = time.ParseDuration(value); err != nil || f.Slow < 0 {
		return f, fmt.Errorf("%q is no time, such as 5ms", value)
	}
	name, f.Every = strings.CutSuffix(name, "+")
	name, nth, counted := strings.Cut(name, "@")
	if counted {
		if f.Nth, err = strconv.Atoi(nth); err != nil || f.Nth < 1 {
			return f, fmt.Errorf("%q is no number of a call, which counts from 1", nth)
		}
	}
	names := fallible()
	if strings.HasPrefix(name, nvmlPrefix) {
		names = simnvml.Fallible()
	}
	f.Function, err = parseFunction(name, names)
	return f, err
}

// nvmlPrefix is the begin of the names of NVML's functions.
const nvmlPrefix = "nvml"

// parseFunction parses the name of one of the functions that can have a fault, or * for all of CUDA.
func parseFunction(name string, names []string) (string, error) {
	if name == "*" {
		return "", nil
	}
	base := name
	if b, version, found := strings.Cut(name, "_v"); found && strings.Trim(version, "0123456789") == "" {
		base = b
	}
	for _, known := range names {
		if base == known {
			return base, nil
		}
	}
	return "", fmt.Errorf("there is no function %q that the driver has and that can fail%s", name, suggest.Text(base, names))
}

// mostCode is more than any CUresult that there is.
const mostCode = 9999

func parseCode(s string) (int, error) {
	code, err := strconv.Atoi(s)
	if err != nil || code < 1 || code > mostCode {
		return 0, fmt.Errorf("%q is no code of an error, which is a number from 1 to %d", s, mostCode)
	}
	return code, nil
}

func (r *reader) parseRate(s string) (sim.Option, error) {
	random := uint64(1)
	if v := r.values[seed]; v != "" {
		random, _ = strconv.ParseUint(v, 10, 64) // parseSeed reports a mistake
	}
	rate, value, _ := strings.Cut(s, "=")
	code, err := parseCode(value)
	if err != nil {
		return nil, err
	}
	var functions []string
	if name, p, named := strings.Cut(rate, ":"); named {
		if name, err = parseFunction(name, fallible()); err != nil {
			return nil, err
		}
		rate, functions = p, []string{name}
	}
	p, err := strconv.ParseFloat(rate, 64)
	if err != nil || !(p >= 0 && p <= 1) { // also for NaN
		return nil, fmt.Errorf("%q is no probability", rate)
	}
	return sim.FaultRate(random, p, code, functions...), nil
}

// parseSeed parses the seed of the order in which kernels execute. parseRate uses the same seed.
func parseSeed(s string) (sim.Option, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return nil, errors.New("this is no number from 0")
	}
	return sim.Seed(n), nil
}
