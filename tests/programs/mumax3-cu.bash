# mumax3: the tests of its package cu
# packages: gcc-14 libc6-dev
# alone: nvidia-cuda-dev
# module: github.com/mumax/3@v0.0.0-20261020084628-54efa12420b2
# note: A Go package for the driver API, with cgo, which mumax3 uses. Its tests have a context on one thread, and Go runs most of them on another. mumax3 itself needs cuFFT, which needs the CUDA runtime.
export PATH=$PATH:/go/bin GOMODCACHE=/modules GOPROXY=off GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=1 CC=gcc-14 CGO_LDFLAGS=-L/cusim
cd /source/cuda/cu
go test -c -o "/tmp/$program/tests" . >"$logs/build" 2>&1
for name in $("/tmp/$program/tests" -test.list .); do
	[[ $name != Example* && $name != Benchmark* ]] || continue
	check "$name" "/tmp/$program/tests" -test.run "^$name\$"
done
