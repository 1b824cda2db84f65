package nvml

import (
	"fmt"
	"reflect"

	"github.com/purecu/purecu/nvml/raw"
)

// The handles of NVML.
type (
	nvmlDevice          struct{ Handle raw.Device }
	nvmlGpuInstance     struct{ Handle raw.GpuInstance }
	nvmlComputeInstance struct{ Handle raw.ComputeInstance }
	nvmlEventSet        struct{ Handle raw.EventSet }
	nvmlGpmSample       struct{ Handle raw.GpmSample }
	nvmlUnit            struct{ Handle raw.Unit }
	nvmlVgpuTypeId      uint32
	nvmlVgpuInstance    uint32
)

// SystemEventSet is a set of events of the system.
type SystemEventSet struct{ Handle *systemEventSet }

// systemEventSet is what only the library knows.
type systemEventSet struct{ _ [0]byte }

var (
	_ Interface         = (*library)(nil)
	_ ExtendedInterface = (*library)(nil)
	_ Device            = nvmlDevice{}
	_ GpuInstance       = nvmlGpuInstance{}
	_ ComputeInstance   = nvmlComputeInstance{}
	_ EventSet          = nvmlEventSet{}
	_ GpmSample         = nvmlGpmSample{}
	_ Unit              = nvmlUnit{}
	_ VgpuTypeId        = nvmlVgpuTypeId(0)
	_ VgpuInstance      = nvmlVgpuInstance(0)
)

var deviceInterface = reflect.TypeFor[Device]()

// deviceHandle returns the handle of a device, which may be embedded in structs of the program's. It panics if there is
// none.
func deviceHandle(d Device) nvmlDevice {
	if device, ok := d.(nvmlDevice); ok {
		return device
	}
	v := reflect.ValueOf(d)
	for {
		for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.IsValid() && v.Type() == reflect.TypeFor[nvmlDevice]() {
			// The address of a field that is not exported cannot be had, but its number can.
			return nvmlDevice{raw.Device(v.Field(0).Uint())}
		}
		if v.Kind() != reflect.Struct {
			panic(fmt.Errorf("nvml: %T is no device of this package", d))
		}
		v = embeddedDevice(v)
		if !v.IsValid() {
			panic(fmt.Errorf("nvml: %T embeds no device of this package", d))
		}
	}
}

// embeddedDevice returns the first embedded field of a struct that is a Device.
func embeddedDevice(v reflect.Value) reflect.Value {
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous && v.Field(i).Type().Implements(deviceInterface) {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// sizeOf returns the size of a value, or of what a pointer leads to.
func sizeOf(data any) uint32 { return uint32(reflect.Indirect(reflect.ValueOf(data)).Type().Size()) }

func (g nvmlGpuInstanceInfo) convert() GpuInstanceInfo {
	return GpuInstanceInfo{Device: g.Device, Id: g.Id, ProfileId: g.ProfileId, Placement: g.Placement}
}

func (c nvmlComputeInstanceInfo) convert() ComputeInstanceInfo {
	return ComputeInstanceInfo{Device: c.Device, GpuInstance: c.GpuInstance, Id: c.Id, ProfileId: c.ProfileId,
		Placement: c.Placement}
}

func (e nvmlEventData) convert() EventData {
	return EventData{Device: e.Device, EventType: e.EventType, EventData: e.EventData, GpuInstanceId: e.GpuInstanceId,
		ComputeInstanceId: e.ComputeInstanceId}
}
