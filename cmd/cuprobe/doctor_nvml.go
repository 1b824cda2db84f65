package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/purecu/purecu/internal/clock"
	"github.com/purecu/purecu/internal/initresult"
	"github.com/purecu/purecu/loader"
	"github.com/purecu/purecu/nvml"
)

// examineNVML adds what NVML finds. If CUDA does not work, it returns the findings that may say why instead.
func (r *doctorReport) examineNVML(c *invocation, w *waiter, openErr error) (causes []loader.Finding) {
	if c.software() {
		r.checkSoftwareNVML(c, w)
		return nil
	}
	if !c.asksNVML() || r.Report.Library != nil && r.Report.Library.Simulated {
		return nil
	}
	var cuda []string
	if openErr == nil && c.device == anyDevice {
		cuda = r.bareUUIDs()
	}
	visible := r.Report.Environment["CUDA_VISIBLE_DEVICES"]
	found, err := within(w, "NVML", func() ([]loader.Finding, error) { return c.nvmlFindings(cuda, visible), nil })
	if err != nil {
		found = []loader.Finding{{Severity: loader.Fault, Title: "NVML hangs", Detail: err.Error(), Fix: kernelLog}}
	}
	works := openErr == nil && !slices.ContainsFunc(r.Checks, func(c check) bool { return !c.Passed })
	for _, f := range found {
		switch {
		case f.Severity == loader.Fault && !works:
			causes = append(causes, f)
			continue
		case f.Severity == loader.Fault:
			f.Severity = loader.Warning
		}
		r.Report.Findings = append(r.Report.Findings, f)
	}
	order := []loader.Severity{loader.Fault, loader.Warning, loader.Note}
	slices.SortStableFunc(r.Report.Findings, func(a, b loader.Finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
	if i := r.Report.Init; i != nil && i.Code == initresult.Mismatch {
		// The fault that there is says the same, and knows the container.
		causes = slices.DeleteFunc(causes, func(f loader.Finding) bool { return f.Title == mismatched })
	}
	return causes
}

// checkSoftwareNVML adds a check of what the software NVML says about each device.
func (r *doctorReport) checkSoftwareNVML(c *invocation, w *waiter) {
	if len(r.Devices) == 0 {
		return
	}
	const name = "the values of NVML"
	lib, err := c.openNVML()
	if err != nil {
		r.Checks = append(r.Checks, check{Device: anyDevice, Name: name, Detail: shortNVML(err), err: err})
		return
	}
	defer lib.Close()
	for _, d := range r.Devices {
		one := check{Device: d.Ordinal, Name: name}
		began := clock.Start()
		facts, err := within(w, name, func() (*nvmlFacts, error) { return nvmlFactsOf(lib, d.UUID), nil })
		switch one.Took = began.Elapsed(); {
		case err != nil:
			one.Detail, one.err = err.Error(), err
		case facts == nil:
			one.Detail = "NVML does not know this device"
		case facts.Error != "":
			one.Detail, one.err = facts.Error, facts.err
		default:
			one.Passed, one.Detail = true, strings.Join(facts.state(), ", ")
		}
		r.Checks = append(r.Checks, one)
	}
}

// bareUUIDs returns the UUIDs of CUDA's devices without GPU-, or nil if not all are known.
func (r *doctorReport) bareUUIDs() []string {
	var all []string
	for _, d := range r.Devices {
		if d.UUID == "" {
			return nil
		}
		all = append(all, bareUUID(d.UUID))
	}
	if slices.ContainsFunc(r.Checks, func(c check) bool { return c.Device == anyDevice }) {
		return nil // a query of a device has failed
	}
	return all
}

// mismatched is the title of the finding about two versions of the driver.
const mismatched = "NVML's library and the loaded driver have different versions"

// nvmlFindings returns what NVML finds. cuda has the UUIDs of CUDA's devices, or nil if they are not known, and visible
// is the value of CUDA_VISIBLE_DEVICES. Faults are what may keep CUDA from working.
func (c *invocation) nvmlFindings(cuda []string, visible string) []loader.Finding {
	lib, err := c.openNVML()
	switch {
	case errors.Is(err, nvml.ErrVersionMismatch):
		return []loader.Finding{{Severity: loader.Fault, Title: mismatched, Detail: shortNVML(err), Fix: nvmlRemedy(err)}}
	case errors.Is(err, nvml.ErrTimeout):
		return []loader.Finding{{Severity: loader.Fault, Title: "NVML does not answer", Detail: shortNVML(err),
			Fix: kernelLog}}
	case err != nil: // without NVML nothing is wrong with CUDA
		return nil
	}
	defer lib.Close()
	n, err := lib.DeviceCount()
	if err != nil {
		return nil
	}
	gpus := make([]nvmlGPU, n)
	var wg sync.WaitGroup
	for i := range gpus {
		wg.Go(func() { gpus[i] = examineGPU(lib, i) })
	}
	wg.Wait()
	var all []loader.Finding
	for _, g := range gpus {
		all = append(all, g.findings()...)
	}
	if cuda != nil {
		all = append(all, unseen(gpus, cuda, visible)...)
	}
	return all
}

// nvmlRemedy returns what an error says what to do.
func nvmlRemedy(err error) string {
	var e *nvml.Error
	if errors.As(err, &e) {
		return e.Detail
	}
	return ""
}

// nvmlGPU is a GPU that NVML knows.
type nvmlGPU struct {
	index     int
	uuid      string // without GPU-; "" if it is not known
	facts     *nvmlFacts
	mig       bool
	instances []string // the UUIDs of the MIG devices, without MIG-
}

func examineGPU(lib *nvml.Library, index int) nvmlGPU {
	g := nvmlGPU{index: index}
	dev, err := lib.Device(index)
	if err != nil {
		g.facts = &nvmlFacts{err: err}
		return g
	}
	g.facts = newNVMLFacts(dev)
	if id := ask(g.facts, dev.UUID); id != nil {
		g.uuid = bareUUID(string(*id))
	}
	on := ask(g.facts, func() (bool, error) { on, _, err := dev.MIGMode(); return on, err })
	if g.mig = on != nil && *on; !g.mig {
		return g
	}
	for mig, err := range dev.MIGDevices() {
		if id := ask(g.facts, func() (nvml.UUID, error) {
			if err != nil {
				return "", err
			}
			return mig.UUID()
		}); id != nil {
			g.instances = append(g.instances, bareUUID(string(*id)))
		}
	}
	return g
}

// name returns how a finding calls the GPU. CUDA's ordinals may differ.
func (g *nvmlGPU) name() string { return fmt.Sprintf("GPU %d of nvidia-smi", g.index) }

// findings returns what is wrong with the GPU.
func (g *nvmlGPU) findings() (all []loader.Finding) {
	f := g.facts
	add := func(s loader.Severity, title, detail, fix string) {
		all = append(all, loader.Finding{Severity: s, Title: g.name() + " " + title, Detail: detail, Fix: fix})
	}
	switch {
	case errors.Is(f.err, nvml.ErrGPULost):
		add(loader.Fault, "is lost", shortNVML(f.err), nvmlRemedy(f.err))
	case errors.Is(f.err, nvml.ErrResetRequired):
		add(loader.Fault, "must be reset", shortNVML(f.err), nvmlRemedy(f.err))
	case errors.Is(f.err, nvml.ErrTimeout):
		add(loader.Fault, "does not answer", shortNVML(f.err), kernelLog)
	}
	uncorrected := f.Uncorrected != nil && *f.Uncorrected > 0
	var errs string
	if uncorrected {
		errs = fmt.Sprintf("%s since the driver was loaded", count(int(*f.Uncorrected), "uncorrectable ECC error"))
	}
	switch {
	case f.Rows != nil && f.Rows.Failed:
		add(loader.Warning, "could not replace a faulty row of its memory", errs,
			fmt.Sprintf("nvidia-smi -q -d ECC,ROW_REMAPPER -i %d # for the vendor, who should exchange the GPU", g.index))
	case f.Rows != nil && f.Rows.Pending, uncorrected:
		if f.Rows != nil && f.Rows.Pending {
			errs = strings.TrimPrefix(errs+"; a reset replaces the faulty rows of the memory", "; ")
		}
		add(loader.Warning, "has errors in its memory", errs,
			fmt.Sprintf("sudo nvidia-smi --gpu-reset -i %d # first end all programs that use it", g.index))
	}
	if g.mig && len(g.instances) == 0 && !failsNVML(f.err) {
		add(loader.Warning, "is in MIG mode, and has no MIG device", "CUDA cannot use such a GPU",
			fmt.Sprintf("sudo nvidia-smi mig -i %d -cgi 0 -C # makes one of the whole GPU", g.index))
	}
	return all
}

// unseen returns a finding if NVML sees GPUs that CUDA does not, and nothing else explains that.
func unseen(gpus []nvmlGPU, cuda []string, visible string) []loader.Finding {
	var hidden []string
	usesMIG := false
	isCUDA := func(uuid string) bool { return slices.Contains(cuda, uuid) }
	for _, g := range gpus {
		usesMIG = usesMIG || slices.ContainsFunc(g.instances, isCUDA)
		if g.uuid != "" && !failsNVML(g.facts.err) && !(g.mig && len(g.instances) == 0) &&
			!isCUDA(g.uuid) && !slices.ContainsFunc(g.instances, isCUDA) {
			hidden = append(hidden, fmt.Sprintf("%s (GPU-%s)", g.name(), g.uuid))
		}
	}
	if len(hidden) == 0 {
		return nil
	}
	f := loader.Finding{Severity: loader.Note, Detail: strings.Join(hidden, ", "),
		Title: fmt.Sprintf("CUDA does not see %d of %s that NVML sees", len(hidden), count(len(gpus), "GPU"))}
	switch {
	case visible != "":
		f.Detail += fmt.Sprintf("; CUDA_VISIBLE_DEVICES is %q", visible)
		f.Fix = "env -u CUDA_VISIBLE_DEVICES cuprobe devices # lists all that there are"
	case usesMIG:
		f.Detail += "; a program that uses a MIG device may see no other GPU"
		f.Fix = "CUDA_VISIBLE_DEVICES=UUID cuprobe devices # shows another one; nvidia-smi -L lists the UUIDs"
	default:
		f.Severity, f.Fix = loader.Warning, kernelLog
	}
	return []loader.Finding{f}
}
