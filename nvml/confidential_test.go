package nvml_test

import (
	"strings"
	"testing"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// secretFake is a machine for confidential computing.
type secretFake struct {
	base
	older       bool
	advantage   uint64
	unprotected uint64
	cec         bool
}

func (f *secretFake) SystemGetConfComputeCapabilities(c *raw.ConfComputeSystemCaps) raw.Return {
	*c = raw.ConfComputeSystemCaps{CpuCaps: raw.NVML_CC_SYSTEM_CPU_CAPS_INTEL_TDX,
		GpusCaps: raw.NVML_CC_SYSTEM_GPUS_CC_CAPABLE}
	return raw.NVML_SUCCESS
}

func (f *secretFake) SystemGetConfComputeSettings(s *raw.SystemConfComputeSettings) raw.Return {
	if f.older {
		return raw.Unimplemented{}.SystemGetConfComputeSettings(s)
	}
	s.Environment, s.CcFeature, s.DevToolsMode, s.MultiGpuMode = 2, 1, 0, raw.NVML_CC_SYSTEM_MULTIGPU_NVLE
	return raw.NVML_SUCCESS
}

func (f *secretFake) SystemGetConfComputeState(s *raw.ConfComputeSystemState) raw.Return {
	s.Environment, s.CcFeature, s.DevToolsMode = 1, 0, 1
	return raw.NVML_SUCCESS
}

func (f *secretFake) SystemGetConfComputeKeyRotationThresholdInfo(
	i *raw.ConfComputeGetKeyRotationThresholdInfo) raw.Return {
	i.AttackerAdvantage = f.advantage
	return raw.NVML_SUCCESS
}

func (f *secretFake) SystemSetConfComputeKeyRotationThresholdInfo(
	i *raw.ConfComputeSetKeyRotationThresholdInfo) raw.Return {
	f.advantage = i.MaxAttackerAdvantage
	return raw.NVML_SUCCESS
}

func (f *secretFake) DeviceGetConfComputeMemSizeInfo(d raw.Device, i *raw.ConfComputeMemSizeInfo) raw.Return {
	*i = raw.ConfComputeMemSizeInfo{ProtectedMemSizeKib: 8, UnprotectedMemSizeKib: f.unprotected}
	return raw.NVML_SUCCESS
}

func (f *secretFake) DeviceSetConfComputeUnprotectedMemSize(d raw.Device, kib uint64) raw.Return {
	f.unprotected = kib
	return raw.NVML_SUCCESS
}

func (f *secretFake) DeviceGetConfComputeProtectedMemoryUsage(d raw.Device, m *raw.Memory) raw.Return {
	*m = raw.Memory{Total: 3, Free: 2, Used: 1}
	return raw.NVML_SUCCESS
}

func (f *secretFake) DeviceGetConfComputeGpuCertificate(d raw.Device, c *raw.ConfComputeGpuCertificate) raw.Return {
	c.CertChainSize, c.AttestationCertChainSize = 2, 1<<31
	copy(c.CertChain[:], "ab")
	return raw.NVML_SUCCESS
}

func (f *secretFake) DeviceGetConfComputeGpuAttestationReport(d raw.Device,
	r *raw.ConfComputeGpuAttestationReport) raw.Return {
	r.AttestationReportSize, r.CecAttestationReportSize = 32, 1
	copy(r.AttestationReport[:], r.Nonce[:])
	r.CecAttestationReport[0] = 7
	if f.cec {
		r.IsCecAttestationReportPresent = raw.NVML_CC_CEC_ATTESTATION_REPORT_PRESENT
	}
	return raw.NVML_SUCCESS
}

func TestConfidentialSystem(t *testing.T) {
	f := &secretFake{}
	l := open(t, f)
	equal(t, "the capabilities", nvml.ConfidentialCapabilities{CPU: nvml.ConfidentialCPUIntelTDX,
		GPUs: true})(l.ConfidentialCapabilities())
	equal(t, "the state", nvml.ConfidentialState{Environment: nvml.ConfidentialProduction, Enabled: true,
		MultiGPU: nvml.ConfidentialMultiGPUNVLE})(l.ConfidentialState())
	equal(t, "the older state", nvml.ConfidentialState{Environment: nvml.ConfidentialSimulation,
		DevTools: true})(open(t, &secretFake{older: true}).ConfidentialState())
	if err := l.SetKeyRotationThreshold(55); err != nil {
		t.Error(err)
	}
	equal(t, "the threshold", 55)(l.KeyRotationThreshold())
	err := l.SetKeyRotationThreshold(-1)
	fails(t, "a threshold", err, nvml.ErrInvalidArgument)
	if !strings.Contains(err.Error(), "50 to 65") {
		t.Error(err)
	}
}

func TestConfidentialDevice(t *testing.T) {
	f := &secretFake{}
	d := device(t, f)
	if err := d.SetUnprotectedMemory(4096); err != nil {
		t.Error(err)
	}
	fails(t, "a size", d.SetUnprotectedMemory(1000), nvml.ErrInvalidArgument)
	equal(t, "the memory", nvml.ConfidentialMemory{Protected: 8192, Unprotected: 4096})(d.ConfidentialMemory())
	equal(t, "the use", nvml.ProtectedMemory{Total: 3, Free: 2, Used: 1})(d.ProtectedMemory())
	if c := must(d.ConfidentialCertificate())(t); string(c.Chain) != "ab" || len(c.AttestationChain) != 5120 {
		t.Errorf("the certificates are %q and %d bytes", c.Chain, len(c.AttestationChain))
	}
	nonce := [32]byte{1, 2, 3}
	equal(t, "the report", nvml.AttestationReport{Report: nonce[:]})(d.AttestationReport(nonce))
	f.cec = true
	equal(t, "both reports", nvml.AttestationReport{Report: nonce[:], CEC: []byte{7}})(d.AttestationReport(nonce))
}
