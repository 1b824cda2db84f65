# gorgonia/cu: its tests
# packages: gcc-14 libc6-dev
# alone: nvidia-cuda-dev
# module: gorgonia.org/cu@v0.9.6
# note: A Go package for the driver API, with cgo. The tests of its packages that need cuBLAS or cuDNN are left out. Its tests do not lock a goroutine to the thread whose context is current: if Go continues on another thread, a test gets 201 (CUDA_ERROR_INVALID_CONTEXT). Which tests do differs from run to run.
export PATH=$PATH:/go/bin GOMODCACHE=/modules GOPROXY=off GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=1 CC=gcc-14 CGO_LDFLAGS=-L/cusim
cd /source
go test -c -o "/tmp/$program/tests" . >"$logs/build" 2>&1
for name in $("/tmp/$program/tests" -test.list .); do
	[[ $name != Example* && $name != Benchmark* ]] || continue
	check "$name" "/tmp/$program/tests" -test.run "^$name\$"
done
