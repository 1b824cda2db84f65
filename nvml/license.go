package nvml

import (
	"time"

	"github.com/purecu/purecu/nvml/raw"
)

// LicensableFeature is a feature of the software for virtual GPUs that needs a license.
type LicensableFeature struct {
	Feature LicenseFeature
	// Product is the name of what is licensed.
	Product string
	// Licensed says that there is a license now, and Enabled that the feature is in use.
	Licensed, Enabled bool
	// Status says what kind of end the license has. Expiry is the end in UTC if Status is LicenseExpiryValid, and the
	// zero Time otherwise.
	Status LicenseExpiryStatus
	Expiry time.Time
}

// LicensableFeatures returns the features of the software for virtual GPUs that need a license, and whether there is
// one (nvmlDeviceGetGridLicensableFeatures_v4, and _v3, _v2 or the one without a number for older drivers). The list
// is empty if the machine needs no license.
func (d *Device) LicensableFeatures() ([]LicensableFeature, error) {
	const op = "nvmlDeviceGetGridLicensableFeatures_v4"
	return get(d.obj(), op, func(l *raw.Library, h uint64) ([]LicensableFeature, raw.Return) {
		var f raw.GridLicensableFeatures
		r := l.DeviceGetGridLicensableFeaturesV4(raw.Device(h), &f)
		if lacks(r) {
			r = l.DeviceGetGridLicensableFeaturesV3(raw.Device(h), &f)
		}
		if lacks(r) {
			r = l.DeviceGetGridLicensableFeaturesV2(raw.Device(h), &f)
		}
		if lacks(r) {
			r = l.DeviceGetGridLicensableFeatures(raw.Device(h), &f)
		}
		if f.IsGridLicenseSupported == 0 {
			return nil, r
		}
		return each(f.GridLicensableFeatures[:min(int(f.LicensableFeaturesCount), len(f.GridLicensableFeatures))],
			licensableFeature), r
	})
}

func licensableFeature(f raw.GridLicensableFeature) LicensableFeature {
	got := LicensableFeature{f.FeatureCode, text(f.ProductName[:]), truth(f.FeatureState), truth(f.FeatureEnabled),
		LicenseExpiryStatus(f.LicenseExpiry.Status), time.Time{}}
	if e := f.LicenseExpiry; got.Status == LicenseExpiryValid {
		got.Expiry = time.Date(int(e.Year), time.Month(e.Month), int(e.Day), int(e.Hour), int(e.Min), int(e.Sec), 0, time.UTC)
	}
	return got
}
