// Package nvml has the API of go-nvml, NVIDIA's bindings of NVML, and needs no cgo: it calls NVML by
// purecu's package nvml/raw. Existing programs use it by replace lines in their go.mod: see docs/coming-from.md of
// purecu.
//
// What differs from go-nvml: a function that the library lacks returns [ERROR_FUNCTION_NOT_FOUND], and one that is
// called before [Init] returns [ERROR_UNINITIALIZED]. With go-nvml both end the process. If PURECU_DRIVER is soft, and
// the program names no library, [Init] takes the software NVML of purecu's package cusim/auto, which the program must
// import.
package nvml

//go:generate go run -C ../../../../tools ./gen-gonvml generate -api gen-gonvml/api.tsv -methods gen-gonvml/methods.tsv -gpus gen-gonvml/gpus.tsv -raw ../nvml/raw -out ../compat/go-nvml
