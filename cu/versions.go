package cu

import "github.com/purecu/purecu/driver"

// newer are the functions that have a substitute where the driver is older, or that [Features] reports: a call that
// the driver does not have returns a result for which [driver.Table.Missing] says so. The version that a function
// came with is the table of symbols' to say. [Driver.Features] is derived from this table.
var newer = [...]struct {
	function string // its name in C
	without  string // what is done instead; "" if the calls that need it return an error
	feature  func(*Features) *bool
}{
	{"cuStreamIsCapturing", "the driver has no captures", nil},
	{"cuThreadExchangeStreamCaptureMode", "the driver has no capture that a call could invalidate", nil},
	{"cuEventRecordWithFlags", "", func(f *Features) *bool { return &f.RecordExternal }},
	{"cuDeviceGetUuid", "cuDeviceGetUuid's first interface: see Device.UUID", nil},
	{"cuStreamWriteValue64", "", nil},
	{"cuStreamWaitValue64", "", nil},
	{
		"cuCtxGetId",
		"the handle stands for the context: see Driver.keyOf",
		func(f *Features) *bool { return &f.ContextID },
	},
	{"cuStreamGetId", "", func(f *Features) *bool { return &f.StreamID }},
	{"cuStreamGetCaptureInfo", "its earlier interface: see streamCore.captureInfo", nil},
	{
		"cuFuncGetParamInfo",
		"the module's PTX is read: see Function.findParams",
		func(f *Features) *bool { return &f.ParamInfo },
	},
	{"cuCtxCreate", "cuCtxCreate's second interface: see Device.NewContext", nil},
	{"cuCtxRecordEvent", "", func(f *Features) *bool { return &f.ContextEvents }},
	{"cuGreenCtxStreamCreate", "", func(f *Features) *bool { return &f.GreenContexts }},
	{
		"cuEventElapsedTime",
		"its first interface: see Driver.elapsed",
		func(f *Features) *bool { return &f.ElapsedTimeV2 },
	},
}

// has reports whether the driver has a function, by its current interface. Of a
// software driver only its version tells.
func (d *Driver) has(name string) bool {
	sym, ok := driver.FindSymbol(name)
	if !ok {
		return false
	}
	if d.table.Software() {
		v, res := d.table.DriverGetVersion(driver.At{})
		return res == driver.ResultSuccess && int(v) >= sym.Info().Version
	}
	_, err := d.table.Resolve(sym)
	return err == nil
}

// Features says what the driver can do beyond what every driver for CUDA 11 can. Of a software driver only its
// version counts, whatever functions it has.
// What is missing has a substitute where that is possible: see each field.
type Features struct {
	// Version is the newest CUDA version that the driver supports: 12080 is 12.8.
	Version int `json:"version"`
	// ContextID: contexts have ids (12.0). Else handles stand for them.
	ContextID bool `json:"contextID"`
	// StreamID: [Stream.ID] works (12.0).
	StreamID bool `json:"streamID"`
	// ParamInfo: the driver tells the sizes of a kernel's parameters (12.4).
	// Else they are read from the PTX, if there is any.
	ParamInfo bool `json:"paramInfo"`
	// ElapsedTimeV2: times between events are asked for by
	// cuEventElapsedTime_v2 (12.8). Else by its predecessor, which may report
	// errors of work that has nothing to do with the events.
	ElapsedTimeV2 bool `json:"elapsedTimeV2"`
	// RecordExternal: [Event.RecordWithFlags] works (11.1).
	RecordExternal bool `json:"recordExternal"`
	// ContextEvents: a whole context can be recorded, and wait (12.5).
	ContextEvents bool `json:"contextEvents"`
	// GreenContexts: [Context.NewGreenContext] works, and has streams (12.5).
	GreenContexts bool `json:"greenContexts"`
}

// Features returns what the driver can do.
func (d *Driver) Features() (f Features, err error) {
	if f.Version, err = d.Version(); err != nil {
		return Features{}, err
	}
	for _, n := range newer {
		if n.feature != nil {
			*n.feature(&f) = d.has(n.function)
		}
	}
	return f, nil
}
