package nvml

import (
	"fmt"
	"slices"

	"github.com/purecu/purecu/nvml/raw"
)

// ConfidentialCapabilities says what the machine can do for confidential computing.
type ConfidentialCapabilities struct {
	CPU ConfidentialCPU
	// GPUs reports whether the GPUs can do it.
	GPUs bool
}

// ConfidentialCapabilities returns what the machine can do for confidential computing
// (nvmlSystemGetConfComputeCapabilities).
func (l *Library) ConfidentialCapabilities() (ConfidentialCapabilities, error) {
	const op = "nvmlSystemGetConfComputeCapabilities"
	w, err := l.obj().call(op, words{}, func(l *raw.Library, _ words) (words, raw.Return) {
		var c raw.ConfComputeSystemCaps
		r := l.SystemGetConfComputeCapabilities(&c)
		return words{a: uint64(c.CpuCaps), b: uint64(c.GpusCaps)}, r
	})
	return ConfidentialCapabilities{ConfidentialCPU(w.a), w.b != raw.NVML_CC_SYSTEM_GPUS_CC_NOT_CAPABLE}, err
}

// ConfidentialState says whether the machine is in the mode of confidential computing.
type ConfidentialState struct {
	Environment ConfidentialEnvironment
	Enabled     bool
	// DevTools reports whether debuggers and profilers can see the work, which is then not confidential.
	DevTools bool
	// MultiGPU says how several GPUs work together. It is ConfidentialMultiGPUNone if the driver does not say it.
	MultiGPU ConfidentialMultiGPU
}

// ConfidentialState returns whether the machine is in the mode of confidential computing
// (nvmlSystemGetConfComputeSettings, and nvmlSystemGetConfComputeState for older drivers).
func (l *Library) ConfidentialState() (ConfidentialState, error) {
	const op = "nvmlSystemGetConfComputeSettings"
	w, err := l.obj().call(op, words{}, func(l *raw.Library, _ words) (words, raw.Return) {
		s := raw.SystemConfComputeSettings{Version: raw.SystemConfComputeSettingsV1Version}
		r := l.SystemGetConfComputeSettings(&s)
		if !lacks(r) {
			return words{uint64(s.Environment), uint64(s.CcFeature), uint64(s.DevToolsMode), uint64(s.MultiGpuMode)}, r
		}
		var older raw.ConfComputeSystemState
		r = l.SystemGetConfComputeState(&older)
		return words{a: uint64(older.Environment), b: uint64(older.CcFeature), c: uint64(older.DevToolsMode)}, r
	})
	return ConfidentialState{ConfidentialEnvironment(w.a), w.b != 0, w.c != 0, ConfidentialMultiGPU(w.d)}, err
}

// KeyRotationThreshold returns the advantage that an attacker may get before keys are replaced
// (nvmlSystemGetConfComputeKeyRotationThresholdInfo): see [Library.SetKeyRotationThreshold].
func (l *Library) KeyRotationThreshold() (int, error) {
	const op = "nvmlSystemGetConfComputeKeyRotationThresholdInfo"
	w, err := l.obj().call(op, words{}, func(l *raw.Library, _ words) (words, raw.Return) {
		i := raw.ConfComputeGetKeyRotationThresholdInfo{Version: raw.ConfComputeGetKeyRotationThresholdInfoV1Version}
		r := l.SystemGetConfComputeKeyRotationThresholdInfo(&i)
		return words{a: i.AttackerAdvantage}, r
	})
	return int(w.a), err
}

// SetKeyRotationThreshold sets the advantage that an attacker may get before keys are replaced
// (nvmlSystemSetConfComputeKeyRotationThresholdInfo). It is between 50 and 65, and 60 by default. It can be set only
// while [Library.ConfidentialReady] is false.
func (l *Library) SetKeyRotationThreshold(advantage int) error {
	const op = "nvmlSystemSetConfComputeKeyRotationThresholdInfo"
	o := l.obj()
	if o != nil && advantage < 0 {
		return o.invalid(op, fmt.Sprintf("the advantage is %d, not 50 to 65", advantage))
	}
	_, err := o.call(op, words{b: uint64(advantage)}, func(l *raw.Library, w words) (words, raw.Return) {
		i := raw.ConfComputeSetKeyRotationThresholdInfo{Version: raw.ConfComputeSetKeyRotationThresholdInfoV1Version,
			MaxAttackerAdvantage: w.b}
		return words{}, l.SystemSetConfComputeKeyRotationThresholdInfo(&i)
	})
	return err
}

// ConfidentialMemory says how much of a GPU's memory is protected, in bytes.
type ConfidentialMemory struct{ Protected, Unprotected uint64 }

// ConfidentialMemory returns how much of the GPU's memory is protected (nvmlDeviceGetConfComputeMemSizeInfo).
func (d *Device) ConfidentialMemory() (ConfidentialMemory, error) {
	const op = "nvmlDeviceGetConfComputeMemSizeInfo"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var i raw.ConfComputeMemSizeInfo
		r := l.DeviceGetConfComputeMemSizeInfo(raw.Device(w.a), &i)
		return words{a: i.ProtectedMemSizeKib << 10, b: i.UnprotectedMemSizeKib << 10}, r
	})
	return ConfidentialMemory{w.a, w.b}, err
}

// SetUnprotectedMemory sets how much of the GPU's memory is not protected, in bytes, a multiple of 1024
// (nvmlDeviceSetConfComputeUnprotectedMemSize).
func (d *Device) SetUnprotectedMemory(bytes uint64) error {
	const op = "nvmlDeviceSetConfComputeUnprotectedMemSize"
	o := d.obj()
	if o != nil && bytes%1024 != 0 {
		return o.invalid(op, fmt.Sprintf("%d bytes are no multiple of 1024", bytes))
	}
	_, err := o.call(op, words{b: bytes >> 10}, func(l *raw.Library, w words) (words, raw.Return) {
		return words{}, l.DeviceSetConfComputeUnprotectedMemSize(raw.Device(w.a), w.b)
	})
	return err
}

// ProtectedMemory says how much of a GPU's protected memory is in use, in bytes.
type ProtectedMemory struct{ Total, Free, Used uint64 }

// ProtectedMemory returns how much of the GPU's protected memory is in use
// (nvmlDeviceGetConfComputeProtectedMemoryUsage).
func (d *Device) ProtectedMemory() (ProtectedMemory, error) {
	const op = "nvmlDeviceGetConfComputeProtectedMemoryUsage"
	w, err := d.obj().call(op, words{}, func(l *raw.Library, w words) (words, raw.Return) {
		var m raw.Memory
		r := l.DeviceGetConfComputeProtectedMemoryUsage(raw.Device(w.a), &m)
		return words{a: m.Total, b: m.Free, c: m.Used}, r
	})
	return ProtectedMemory{w.a, w.b, w.c}, err
}

// ConfidentialCertificate proves what a GPU is.
type ConfidentialCertificate struct {
	// Chain is the chain of certificates of the GPU, and AttestationChain that of the key that signs its reports.
	Chain, AttestationChain []byte
}

// ConfidentialCertificate returns the certificates of the GPU (nvmlDeviceGetConfComputeGpuCertificate).
func (d *Device) ConfidentialCertificate() (ConfidentialCertificate, error) {
	const op = "nvmlDeviceGetConfComputeGpuCertificate"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (ConfidentialCertificate, raw.Return) {
		c := new(raw.ConfComputeGpuCertificate)
		r := l.DeviceGetConfComputeGpuCertificate(raw.Device(h), c)
		return ConfidentialCertificate{prefix(c.CertChain[:], c.CertChainSize),
			prefix(c.AttestationCertChain[:], c.AttestationCertChainSize)}, r
	})
}

// prefix returns a copy of the bytes that C has set.
func prefix(b []byte, n uint32) []byte { return slices.Clone(b[:min(int(n), len(b))]) }

// AttestationReport proves in which state a GPU is.
type AttestationReport struct {
	Report []byte
	// CEC is the report of the GPU's chip for security, or nil if there is none.
	CEC []byte
}

// AttestationReport returns a report about the state of the GPU, which the GPU has signed together with the nonce
// (nvmlDeviceGetConfComputeGpuAttestationReport). The nonce must be random, so that nobody can return an old report.
func (d *Device) AttestationReport(nonce [32]byte) (AttestationReport, error) {
	const op = "nvmlDeviceGetConfComputeGpuAttestationReport"
	return get(d.obj(), op, func(l *raw.Library, h uint64) (AttestationReport, raw.Return) {
		a := &raw.ConfComputeGpuAttestationReport{Nonce: nonce}
		r := l.DeviceGetConfComputeGpuAttestationReport(raw.Device(h), a)
		report := AttestationReport{Report: prefix(a.AttestationReport[:], a.AttestationReportSize)}
		if a.IsCecAttestationReportPresent == raw.NVML_CC_CEC_ATTESTATION_REPORT_PRESENT {
			report.CEC = prefix(a.CecAttestationReport[:], a.CecAttestationReportSize)
		}
		return report, r
	})
}
