package simnvml

import (
	"testing"

	"github.com/purecu/purecu/nvml/raw"
)

// TestBAR1 uses more memory than the processor can address: that of a T4 is small.
func TestBAR1(t *testing.T) {
	b := newBenchOf(t, "T4,H200")
	for i, device := range b.gpus {
		b.machine.gpus[i].Used = 1 << 30
		var bar raw.BAR1Memory
		succeeds(t, b.DeviceGetBAR1MemoryInfo(device, &bar))
		if total := b.machine.gpus[i].Profile.Memory.BAR1; bar.Bar1Total != total || bar.Bar1Used+bar.Bar1Free != total ||
			bar.Bar1Used > total {
			t.Errorf("GPU %d: %+v", i, bar)
		}
	}
}

// TestLackingSetters calls functions that set what older GPUs do not have.
func TestLackingSetters(t *testing.T) {
	b := newBenchOf(t, "T4,A100,H200")
	for i, want := range []struct{ memory, gpm raw.Return }{
		{raw.NVML_ERROR_NOT_SUPPORTED, raw.NVML_ERROR_NOT_SUPPORTED}, {0, raw.NVML_ERROR_NOT_SUPPORTED}, {0, 0},
	} {
		mhz := uint32(b.machine.gpus[i].Profile.Clocks.Memory)
		returns(t, b.DeviceSetMemoryLockedClocks(b.gpus[i], mhz, mhz), want.memory)
		returns(t, b.DeviceResetMemoryLockedClocks(b.gpus[i]), want.memory)
		returns(t, b.GpmSetStreamingEnabled(b.gpus[i], 1), want.gpm)
	}
}

// TestClockLimits locks clocks by NVML's symbols, with the results of the table in its documentation.
func TestClockLimits(t *testing.T) {
	const tdp, unlimited = uint32(raw.NVML_CLOCK_LIMIT_ID_TDP), uint32(raw.NVML_CLOCK_LIMIT_ID_UNLIMITED)
	const invalid = raw.NVML_ERROR_INVALID_ARGUMENT
	b := newBenchOf(t, "A100")
	now := &b.machine.gpus[0]
	succeeds(t, b.DeviceSetApplicationsClocks(b.gpus[0], 1215, 1200))
	for _, tt := range []struct {
		least, most uint32
		want        raw.Return
		idle, busy  uint32
	}{
		{tdp, tdp, 0, 1410, 1410},
		{unlimited, tdp, 0, 210, 1410},
		{tdp, unlimited, 0, 1410, 1410},
		{unlimited, unlimited, 0, 210, 1200}, // not locked
		{600, tdp, invalid, 210, 1200},
		{600, unlimited, invalid, 210, 1200},
		{tdp, 1410, invalid, 210, 1200},
		{unlimited, 1410, invalid, 210, 1200},
	} {
		succeeds(t, b.DeviceResetGpuLockedClocks(b.gpus[0]))
		returns(t, b.DeviceSetGpuLockedClocks(b.gpus[0], tt.least, tt.most), tt.want)
		for utilization, want := range map[float64]uint32{0: tt.idle, 1: tt.busy} {
			var mhz uint32
			now.Utilization = utilization
			if succeeds(t, b.DeviceGetClockInfo(b.gpus[0], raw.NVML_CLOCK_SM, &mhz)); mhz != want {
				t.Errorf("%#x to %#x: the clock is %d MHz with the utilization %v, want %d", tt.least, tt.most, mhz,
					utilization, want)
			}
		}
	}
}

// TestLinksOfKinds gives GPUs of several kinds as many NVLinks as an H200 has.
func TestLinksOfKinds(t *testing.T) {
	b := newBenchOf(t, "T4,A100,H200,B200")
	b.Links(18)
	b.Reset(1)
	for i, want := range []struct {
		links   uint32
		version raw.NvlinkVersion
		speed   uint64
	}{
		{}, {12, raw.NVML_NVLINK_VERSION_3_0, 25_000}, {18, raw.NVML_NVLINK_VERSION_4_0, 26_562},
		{18, raw.NVML_NVLINK_VERSION_5_0, 53_125},
	} {
		device, version := b.gpus[i], uint32(0)
		if want.links == 0 {
			returns(t, b.DeviceGetNvLinkVersion(device, 0, &version), raw.NVML_ERROR_NOT_SUPPORTED)
			continue
		}
		succeeds(t, b.DeviceGetNvLinkVersion(device, want.links-1, &version))
		returns(t, b.DeviceGetNvLinkVersion(device, want.links, new(uint32)), raw.NVML_ERROR_INVALID_ARGUMENT)
		fields := []raw.FieldValue{{FieldId: raw.NVML_FI_DEV_NVLINK_GET_VERSION},
			{FieldId: raw.NVML_FI_DEV_NVLINK_GET_SPEED}, {FieldId: raw.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON}}
		succeeds(t, b.DeviceGetFieldValues(device, fields))
		got := [...]uint64{uint64(version), *fields[0].Value.UllVal(), *fields[1].Value.UllVal(), *fields[2].Value.UllVal()}
		if got != [...]uint64{uint64(want.version), uint64(want.version), want.speed, want.speed} {
			t.Errorf("GPU %d: %v, want %+v", i, got, want)
		}
	}
}

// TestAccountingWithMIG divides a GPU that keeps accounts: NVML documents that it keeps none then.
func TestAccountingWithMIG(t *testing.T) {
	b := newBenchOf(t, "A100")
	device := b.gpus[0]
	check := func(want raw.EnableState) {
		t.Helper()
		mode := raw.EnableState(9)
		if succeeds(t, b.DeviceGetAccountingMode(device, &mode)); mode != want {
			t.Errorf("the accounting mode is %v, want %v", mode, want)
		}
	}
	succeeds(t, b.DeviceSetAccountingMode(device, raw.NVML_FEATURE_ENABLED))
	check(raw.NVML_FEATURE_ENABLED)
	var status raw.Return
	succeeds(t, b.DeviceSetMigMode(device, raw.NVML_DEVICE_MIG_ENABLE, &status))
	check(raw.NVML_FEATURE_DISABLED)
	returns(t, b.DeviceSetAccountingMode(device, raw.NVML_FEATURE_ENABLED), raw.NVML_ERROR_NOT_SUPPORTED)
	succeeds(t, b.DeviceSetMigMode(device, raw.NVML_DEVICE_MIG_DISABLE, &status))
	succeeds(t, b.DeviceSetAccountingMode(device, raw.NVML_FEATURE_ENABLED))
	check(raw.NVML_FEATURE_ENABLED)
}

// TestResetOfMIG resets a GPU that is divided: it stays in MIG mode, without instances.
func TestResetOfMIG(t *testing.T) {
	b := newBenchOf(t, "A100")
	var status raw.Return
	var instance raw.GpuInstance
	succeeds(t, b.DeviceSetMigMode(b.gpus[0], raw.NVML_DEVICE_MIG_ENABLE, &status))
	succeeds(t, b.DeviceCreateGpuInstance(b.gpus[0], 19, &instance))
	b.Reset(0)
	var on, pending, count uint32
	succeeds(t, b.DeviceGetMigMode(b.gpus[0], &on, &pending))
	succeeds(t, b.DeviceGetGpuInstances(b.gpus[0], 19, make([]raw.GpuInstance, 7), &count))
	if on != 1 || pending != 1 || count != 0 {
		t.Errorf("the MIG mode is %d, %d, with %d instances", on, pending, count)
	}
}

// TestLackingFields asks for fields that need ECC, or memory with spare rows, as the functions with the same values do,
// or a thermometer of the memory.
func TestLackingFields(t *testing.T) {
	b := newBenchOf(t, "T4,H200")
	b.machine.gpus[1].Settings[eccMode] = 0
	for i, want := range []struct{ ecc, rows, memory raw.Return }{
		{0, raw.NVML_ERROR_NOT_SUPPORTED, raw.NVML_ERROR_NOT_SUPPORTED}, {raw.NVML_ERROR_NOT_SUPPORTED, 0, 0},
	} {
		var total uint64
		returns(t, b.DeviceGetTotalEccErrors(b.gpus[i], 0, 0, &total), want.ecc)
		var corrected, uncorrected, pending, failed uint32
		returns(t, b.DeviceGetRemappedRows(b.gpus[i], &corrected, &uncorrected, &pending, &failed), want.rows)
		for id, want := range map[uint32]raw.Return{raw.NVML_FI_DEV_ECC_SBE_VOL_TOTAL: want.ecc,
			raw.NVML_FI_DEV_ECC_DBE_VOL_TOTAL: want.ecc, raw.NVML_FI_DEV_ECC_SBE_AGG_TOTAL: want.ecc,
			raw.NVML_FI_DEV_ECC_DBE_AGG_TOTAL: want.ecc, raw.NVML_FI_DEV_REMAPPED_COR: want.rows,
			raw.NVML_FI_DEV_REMAPPED_UNC: want.rows, raw.NVML_FI_DEV_REMAPPED_PENDING: want.rows,
			raw.NVML_FI_DEV_REMAPPED_FAILURE: want.rows, raw.NVML_FI_DEV_MEMORY_TEMP: want.memory} {
			fields := []raw.FieldValue{{FieldId: id}}
			succeeds(t, b.DeviceGetFieldValues(b.gpus[i], fields))
			if got := fields[0].NvmlReturn; got != want {
				t.Errorf("GPU %d: the field %d returns %v, want %v", i, id, got, want)
			}
		}
	}
}
