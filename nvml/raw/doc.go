// Package raw is NVML, NVIDIA's library for the management of GPUs, as it is: libnvidia-ml.so.1, which is
// a part of the driver, or nvml.dll. It needs no cgo.
//
// A [Library] has a method for each function of driver 580, with its name: nvmlDeviceGetMemoryInfo_v2 is
// [Library.DeviceGetMemoryInfoV2]. nvmlInternalGetExportTable is missing, as nothing public says what it
// does. What only newer releases have is unverified, as the documentation of each says. Types and members of
// structs are called like those in C, without nvml and _t: nvmlMemory_v2_t is [MemoryV2]. Constants that begin
// with NVML keep their names.
//
// # Arguments
//
// An address of one value is a pointer, and one of several values is a slice. nil and empty slices are NULL. A slice
// may stand for two parameters of C, its address and its length. If C has the address of the length, there is a
// pointer to it too, and a call whose length exceeds that of the slice returns [NVML_ERROR_INVALID_ARGUMENT].
//
// A struct with a member Version must have it set before the call, to the constant that is called like the struct:
// [TemperatureV1Version] for a [TemperatureV1]. Its other name, without a version, is [Temperature].
//
// # Results
//
// A function that the library lacks is not called. The result says so: see [Return.Missing]. It matches
// [errors.ErrUnsupported].
//
// A call may block for minutes while a GPU fails. Calls may be made by several goroutines at once. A call whose
// arguments are numbers and pointers allocates nothing, except in a build with the tag cu_portable.
//
// The package does not track the lifetime of handles, as C does not. The files whose names begin with z are generated
// from a table of facts: see tools/gen-nvml.
package raw

//go:generate go run -C ../../tools ./gen-nvml generate -manifest gen-nvml/manifest/nvml-13.0.tsv -unverified gen-nvml/manifest/nvml-unverified.tsv -drivers gen-nvml/manifest/drivers.tsv -calls gen-nvml/calls.tsv -returns gen-nvml/returns.tsv -methods gen-nvml/methods.tsv -names gen-nvml/names.tsv -root ..
//go:generate go run -C ../../tools ./gen-override -root .. nvml/raw.Software=internal/testrig/override/zraw.go
