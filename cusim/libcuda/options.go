package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/purecu/purecu/internal/sim"
)

// options returns the driver's options from the environment.
func options(getenv func(string) string) ([]sim.Option, error) {
	var list []sim.Option
	for _, v := range []struct {
		name  string
		parse func(string) (sim.Option, error)
	}{
		{"CUSIM_DEVICES", parseDevices},
		{"CUSIM_DRIVER_VERSION", parseVersion},
		{"CUSIM_FAULTS", parseFaults},
		{"CUSIM_UNKNOWN_KERNELS", parseUnknown},
		{"CUSIM_CHECK", parseChecks},
		{"CUSIM_KERNEL_LIMIT", parseLimit},
		{"CUSIM_FAULT_RATE", func(s string) (sim.Option, error) { return parseRate(s, getenv("CUSIM_SEED")) }},
	} {
		s := getenv(v.name)
		if s == "" {
			continue
		}
		o, err := v.parse(s)
		if err != nil {
			return nil, fmt.Errorf("%s=%s: %w", v.name, s, err)
		}
		list = append(list, o)
	}
	return list, nil
}

// mostDevices is the largest number of devices.
const mostDevices = 64

func parseDevices(s string) (sim.Option, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > mostDevices {
		return nil, fmt.Errorf("this is no number from 0 to %d", mostDevices)
	}
	return sim.Devices(n), nil
}

// parseVersion parses a version such as 12.8 or 12080. The C code parses it in the same way.
func parseVersion(s string) (sim.Option, error) {
	major, minor, dotted := strings.Cut(s, ".")
	v, err := strconv.Atoi(major)
	if dotted && err == nil {
		var m int
		m, err = strconv.Atoi(minor)
		if m < 0 || m > 9 {
			err = strconv.ErrRange
		}
		v = v*1000 + m*10
	}
	if err != nil || v < 11000 || v > 13000 {
		return nil, fmt.Errorf("this is no version from 11.0 to 13.0")
	}
	return sim.Version(v), nil
}

func parseUnknown(s string) (sim.Option, error) {
	if s != "refuse" {
		return nil, errors.New("refuse is the only value")
	}
	return sim.RefuseUnknownKernels(), nil
}

// parseChecks parses the checks of kernels. What they find is written at once.
func parseChecks(s string) (sim.Option, error) {
	c, err := sim.ParseChecks(s)
	return sim.CheckKernels(c, func(text string) { fmt.Fprintf(os.Stderr, "cusim: %s\n", text) }), err
}

func parseLimit(s string) (sim.Option, error) {
	limit, err := time.ParseDuration(s)
	if err != nil || limit <= 0 {
		return nil, fmt.Errorf("this is no time, such as 10s")
	}
	return sim.KernelLimit(limit), nil
}

func parseFaults(s string) (sim.Option, error) {
	var faults []sim.Fault
	for one := range strings.SplitSeq(s, ",") {
		f, err := parseFault(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one, err)
		}
		faults = append(faults, f)
	}
	return sim.Faults(faults...), nil
}

func parseFault(s string) (f sim.Fault, err error) {
	at := strings.IndexAny(s, "=~")
	if at < 0 {
		return f, fmt.Errorf("there is neither = and a code, nor ~ and a time")
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
	f.Function, err = parseFunction(name)
	return f, err
}

// parseFunction parses the name of a function that can have a fault, or * for all.
func parseFunction(name string) (string, error) {
	if name == "*" {
		return "", nil
	}
	base := name
	if b, version, found := strings.Cut(name, "_v"); found && strings.Trim(version, "0123456789") == "" {
		base = b
	}
	if !slices.Contains(callNames[:], base) && !slices.Contains(madeNames[:], base) {
		return "", fmt.Errorf("there is no function %q that the driver has and that can fail", name)
	}
	return base, nil
}

func parseCode(s string) (int, error) {
	code, err := strconv.Atoi(s)
	if err != nil || code < 1 {
		return 0, fmt.Errorf("%q is no code of an error", s)
	}
	return code, nil
}

func parseRate(s, seed string) (sim.Option, error) {
	random := uint64(1)
	if seed != "" {
		var err error
		if random, err = strconv.ParseUint(seed, 10, 64); err != nil {
			return nil, fmt.Errorf("CUSIM_SEED=%s is no number", seed)
		}
	}
	rate, value, _ := strings.Cut(s, "=")
	code, err := parseCode(value)
	if err != nil {
		return nil, err
	}
	var functions []string
	if name, p, named := strings.Cut(rate, ":"); named {
		if name, err = parseFunction(name); err != nil {
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
