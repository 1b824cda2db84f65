package cu

// newer are functions that older drivers lack, with the substitute and the field of [Features], if
// there are any. [Driver.Features] is derived from this table. The table of symbols has the version
// of each function. A missing function returns a result that [driver.Table.Missing] recognizes.
var newer = [...]struct {
	function string // its name in C
	without  string // the substitute; "" if the calls that need the function return an error
	feature  func(*Features) *bool
}{
	{"cuStreamIsCapturing", "the driver has no captures", nil},
	{"cuThreadExchangeStreamCaptureMode", "the driver has no capture that a call could invalidate", nil},
	{"cuEventRecordWithFlags", "", func(f *Features) *bool { return &f.RecordExternal }},
	{"cuDeviceGetUuid", "cuDeviceGetUuid's first version: see Device.UUID", nil},
	{"cuCtxGetExecAffinity", "", nil},
	{"cuDeviceGetExecAffinitySupport", "", nil},
	{"cuGraphNodeSetEnabled", "", nil},
	{"cuStreamWriteValue64", "", nil},
	{"cuStreamWaitValue64", "", nil},
	{
		"cuCtxGetId",
		"the handle stands for the context: see core.Driver.KeyOf",
		func(f *Features) *bool { return &f.ContextID },
	},
	{"cuStreamGetId", "", func(f *Features) *bool { return &f.StreamID }},
	{"cuGraphAddKernelNode", "its first version: see kernelRow in cu/graph", nil},
	{"cuGraphKernelNodeSetParams", "its first version: see kernelWork.set in cu/graph", nil},
	{"cuGraphExecKernelNodeSetParams", "its first version: see kernelRow in cu/graph", nil},
	{"cuGraphInstantiateWithParams", "cuGraphInstantiateWithFlags: see graph.Graph.InstantiateWithFlags", nil},
	{"cuGraphExecUpdate", "its first version: see graph.Exec.Update", nil},
	{"cuGraphGetEdges", "its first version: see graphCore.edges in cu/graph", nil},
	{"cuStreamGetCaptureInfo", "its earlier version: see core.Stream.CaptureInfo", nil},
	{
		"cuFuncGetParamInfo",
		"the module's PTX is read: see launch.Find",
		func(f *Features) *bool { return &f.ParamInfo },
	},
	{"cuCtxCreate", "cuCtxCreate's second version: see Device.NewContext", nil},
	{"cuCtxRecordEvent", "", func(f *Features) *bool { return &f.ContextEvents }},
	{"cuGreenCtxStreamCreate", "", func(f *Features) *bool { return &f.GreenContexts }},
	{
		"cuEventElapsedTime",
		"its first version: see elapsed",
		func(f *Features) *bool { return &f.ElapsedTimeV2 },
	},
	{"cuLogsCurrent", "errors lack what the driver's log says", nil},
	{"cuLogsDumpToMemory", "errors lack what the driver's log says", nil},
	{"cuMemcpyBatchAsync", "one call for each copy: see Stream.CopyAll", nil},
	{"cuMemcpy3DBatchAsync", "one call for each copy: see Stream.Copy3DAll", nil},
	{"cuMemPrefetchBatchAsync", "one call for each move: see memory.PrefetchAll", nil},
	{"cuMemDiscardBatchAsync", "", nil},
	{"cuMemDiscardAndPrefetchBatchAsync", "", nil},
}

// Features says which functions the driver has in addition to those of every driver for CUDA 11.
// For a software driver only its CUDA version counts. A field names the substitute, if there is
// one.
type Features struct {
	// Version is the newest CUDA version that the driver supports: 12080 is 12.8.
	Version Version `json:"version"`
	// ContextID: contexts have IDs (12.0). Otherwise their handles identify them.
	ContextID bool `json:"contextID"`
	// StreamID: [Stream.ID] works (12.0).
	StreamID bool `json:"streamID"`
	// ParamInfo: the driver returns the sizes of a kernel's parameters (12.4). Otherwise they are
	// read from the PTX, if the module has PTX.
	ParamInfo bool `json:"paramInfo"`
	// ElapsedTimeV2: times between events come from cuEventElapsedTime_v2 (12.8). Otherwise they
	// come from the first version of the function, which may return errors of unrelated work.
	ElapsedTimeV2 bool `json:"elapsedTimeV2"`
	// RecordExternal: [Event.RecordWithFlags] works (11.1).
	RecordExternal bool `json:"recordExternal"`
	// ContextEvents: events can be recorded on whole contexts, which can wait for events (12.5).
	ContextEvents bool `json:"contextEvents"`
	// GreenContexts: green.New works, and green contexts have streams (12.5).
	GreenContexts bool `json:"greenContexts"`
}

// Features returns the functions that the driver has.
func (d *Driver) Features() (f Features, err error) {
	if f.Version, err = d.Version(); err != nil {
		return Features{}, err
	}
	for _, n := range newer {
		if n.feature != nil {
			*n.feature(&f) = d.core.Has(n.function)
		}
	}
	return f, nil
}
