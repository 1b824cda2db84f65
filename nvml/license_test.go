package nvml_test

import (
	"testing"
	"time"

	"github.com/purecu/purecu/nvml"
	"github.com/purecu/purecu/nvml/raw"
)

// licensedGPU has licenses, which a version of the function returns.
type licensedGPU struct {
	basis
	version   int
	supported int32
}

func (g licensedGPU) features(version int, f *raw.GridLicensableFeatures) raw.Return {
	if version != g.version {
		return raw.NVML_ERROR_FUNCTION_NOT_FOUND
	}
	f.IsGridLicenseSupported, f.LicensableFeaturesCount = g.supported, 2
	one := &f.GridLicensableFeatures[0]
	one.FeatureCode, one.FeatureState, one.FeatureEnabled = raw.NVML_GRID_LICENSE_FEATURE_CODE_VGPU, 1, 1
	copy(one.ProductName[:], "NVIDIA Virtual Applications")
	one.LicenseExpiry = raw.GridLicenseExpiry{Year: 2027, Month: 2, Day: 3, Hour: 4, Min: 5, Sec: 6,
		Status: raw.NVML_GRID_LICENSE_EXPIRY_VALID}
	f.GridLicensableFeatures[1].LicenseExpiry.Status = raw.NVML_GRID_LICENSE_EXPIRY_PERMANENT
	return raw.NVML_SUCCESS
}

func (g licensedGPU) DeviceGetGridLicensableFeaturesV4(_ raw.Device, f *raw.GridLicensableFeatures) raw.Return {
	return g.features(4, f)
}
func (g licensedGPU) DeviceGetGridLicensableFeaturesV3(_ raw.Device, f *raw.GridLicensableFeatures) raw.Return {
	return g.features(3, f)
}
func (g licensedGPU) DeviceGetGridLicensableFeaturesV2(_ raw.Device, f *raw.GridLicensableFeatures) raw.Return {
	return g.features(2, f)
}
func (g licensedGPU) DeviceGetGridLicensableFeatures(_ raw.Device, f *raw.GridLicensableFeatures) raw.Return {
	return g.features(1, f)
}

func TestLicensableFeatures(t *testing.T) {
	for version := 1; version <= 4; version++ {
		wants(t, []nvml.LicensableFeature{{Feature: nvml.LicenseFeatureVGPU, Product: "NVIDIA Virtual Applications",
			Licensed: true, Enabled: true, Status: nvml.LicenseExpiryValid, Expiry: time.Date(2027, 2, 3, 4, 5, 6, 0, time.UTC)},
			{Status: nvml.LicenseExpiryPermanent}})(deviceOf(t, licensedGPU{version: version, supported: 1}).LicensableFeatures())
	}
	wants(t, []nvml.LicensableFeature(nil))(deviceOf(t, licensedGPU{version: 4}).LicensableFeatures())
}
