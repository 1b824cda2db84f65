package main

import (
	"strings"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/purecu/purecu/nvml"
)

// metric is a number of a GPU. It has a name of this program's and one of dcgm-exporter's. A kind of names that lacks
// one leaves the number out.
type metric struct {
	name   string
	labels prom.Labels // with name
	dcgm   string
	kind   prom.ValueType
	// div and dcgmDiv divide what was read, so that it has the unit of the name.
	div, dcgmDiv float64
	help         string
}

const (
	gauge   = prom.GaugeValue
	counter = prom.CounterValue
	mib     = 1 << 20
)

var (
	up = &metric{"nvml_up", nil, "nvml_up", gauge, 1, 1,
		"0 if the GPU is lost, must be reset, or does not answer NVML."}
	info = &metric{"gpu_info", nil, "", gauge, 1, 1, "What the GPU is. The value is 1."}

	temperature = &metric{"gpu_temperature_celsius", nil, "DCGM_FI_DEV_GPU_TEMP", gauge, 1, 1, "Temperature of the GPU."}
	memoryTemp  = &metric{"gpu_memory_temperature_celsius", nil, "DCGM_FI_DEV_MEMORY_TEMP", gauge, 1, 1,
		"Temperature of the memory."}
	power  = &metric{"gpu_power_watts", nil, "DCGM_FI_DEV_POWER_USAGE", gauge, 1e3, 1e3, "What the GPU draws, in watts."}
	energy = &metric{"gpu_energy_joules_total", nil, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", counter, 1e3, 1,
		"What the GPU has used since the driver was loaded."}

	memoryUsed = &metric{"gpu_memory_used_bytes", nil, "DCGM_FI_DEV_FB_USED", gauge, 1, mib, "Memory in use."}
	memoryFree = &metric{"gpu_memory_free_bytes", nil, "DCGM_FI_DEV_FB_FREE", gauge, 1, mib, "Free memory."}
	memorySize = &metric{"gpu_memory_size_bytes", nil, "DCGM_FI_DEV_FB_TOTAL", gauge, 1, mib, "All memory."}

	gpuUse = &metric{"gpu_utilization_ratio", nil, "DCGM_FI_DEV_GPU_UTIL", gauge, 100, 1,
		"Time in which a kernel ran."}
	memoryUse = &metric{"gpu_memory_utilization_ratio", nil, "DCGM_FI_DEV_MEM_COPY_UTIL", gauge, 100, 1,
		"Time in which the memory was read or written."}
	encoderUse = &metric{"gpu_encoder_utilization_ratio", nil, "DCGM_FI_DEV_ENC_UTIL", gauge, 100, 1,
		"Use of the video encoder."}
	decoderUse = &metric{"gpu_decoder_utilization_ratio", nil, "DCGM_FI_DEV_DEC_UTIL", gauge, 100, 1,
		"Use of the video decoder."}

	smClock = &metric{"gpu_sm_clock_hertz", nil, "DCGM_FI_DEV_SM_CLOCK", gauge, 1, 1e6,
		"Clock of the multiprocessors."}
	memoryClock = &metric{"gpu_memory_clock_hertz", nil, "DCGM_FI_DEV_MEM_CLOCK", gauge, 1, 1e6, "Clock of the memory."}
	// clockReasons has the bits of NVML.
	clockReasons = &metric{"", nil, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", gauge, 1, 1, "Why the clocks are not higher."}

	pcieReplays = &metric{"gpu_pcie_replays_total", nil, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", counter, 1, 1,
		"Packets on PCIe that were sent again."}

	remapCorrected   = remapped("corrected", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS")
	remapUncorrected = remapped("uncorrected", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS")
	remapPending     = &metric{"gpu_row_remap_pending", nil, "DCGM_FI_DEV_ROW_REMAP_PENDING", gauge, 1, 1,
		"1 if the next reset replaces rows of the memory."}
	remapFailed = &metric{"gpu_row_remap_failed", nil, "DCGM_FI_DEV_ROW_REMAP_FAILURE", gauge, 1, 1,
		"1 if a row of the memory could not be replaced."}

	xids = &metric{"gpu_xid_errors_total", nil, "DCGM_EXP_XID_ERRORS_TOTAL", counter, 1, 1,
		"XIDs since the exporter runs."}
	lastXID = &metric{"", nil, "DCGM_FI_DEV_XID_ERRORS", gauge, 1, 1, "The last XID, or 0."}
)

func remapped(errors, dcgm string) *metric {
	return &metric{"gpu_remapped_rows_total", prom.Labels{"error": errors}, dcgm, counter, 1, 1,
		"Rows of the memory that were replaced after errors."}
}

// eccErrors are the errors of memory that NVML counts.
var eccErrors = []struct {
	kind  nvml.MemoryError
	since nvml.ECCCounter
	*metric
}{
	{nvml.MemoryErrorCorrected, nvml.ECCVolatile,
		ecc("gpu_ecc_errors_total", "corrected", "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "the driver was loaded")},
	{nvml.MemoryErrorUncorrected, nvml.ECCVolatile,
		ecc("gpu_ecc_errors_total", "uncorrected", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "the driver was loaded")},
	{nvml.MemoryErrorCorrected, nvml.ECCAggregate,
		ecc("gpu_ecc_lifetime_errors_total", "corrected", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "the GPU was made")},
	{nvml.MemoryErrorUncorrected, nvml.ECCAggregate,
		ecc("gpu_ecc_lifetime_errors_total", "uncorrected", "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "the GPU was made")},
}

func ecc(name, errors, dcgm, since string) *metric {
	return &metric{name, prom.Labels{"error": errors}, dcgm, counter, 1, 1, "Errors of memory since " + since + "."}
}

// fields are the numbers that one call reads.
var fields = []struct {
	nvml.FieldID
	*metric
}{
	{nvml.FieldMemoryTemp, memoryTemp},
	{nvml.FieldNVLinkCRCFlitErrorCountTotal, nvlink("crc_flit", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL")},
	{nvml.FieldNVLinkCRCDataErrorCountTotal, nvlink("crc_data", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL")},
	{nvml.FieldNVLinkReplayErrorCountTotal, nvlink("replay", "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL")},
	{nvml.FieldNVLinkRecoveryErrorCountTotal, nvlink("recovery", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL")},
}

func nvlink(errors, dcgm string) *metric {
	return &metric{"gpu_nvlink_errors_total", prom.Labels{"error": errors}, dcgm, counter, 1, 1, "Errors of all NVLinks."}
}

// reasons are the metrics of the reasons for low clocks, by their bits.
var reasons = func() map[nvml.ClockReasons]*metric {
	all := map[nvml.ClockReasons]*metric{}
	for bit := nvml.ReasonIdle; bit <= nvml.ReasonDisplayClock; bit <<= 1 {
		name := strings.ReplaceAll(bit.String(), " ", "_")
		all[bit] = &metric{"gpu_clock_reason", prom.Labels{"reason": name}, "", gauge, 1, 1,
			"1 if this is why the clocks are not higher."}
	}
	return all
}()
