# tinygrad: its tests of operators
# packages: python3-torch python3-numpy python3-pytest python3-pytest-xdist python3-hypothesis clang
# git: https://github.com/tinygrad/tinygrad a9069c177a9da9cca18593edf55acd2e6073cca6
# note: tinygrad compiles each operator to PTX and calls the driver API. Its tests compare with PyTorch on the processor. These are its tests of operators, types and matrix products. A test that fails is run again on tinygrad's backend for processors. Two tests need `lg2.approx.f64`, which NVIDIA's compiler refuses, too.
export CACHEDB=/tmp/tinygrad/cache.db TEST_TIMEOUT=900
cd /source

# tests DEVICE LOG TEST...: runs tests.
tests() { DEV=$1 timeout 3600 python3 -m pytest -p no:cacheprovider -n 2 -q -rpfE --tb=line "${@:3}" >"$2" 2>&1; }

for file in test/backend/test_{ops,dtype,dtype_alu,nn,opt_gemm,transcendental,uops}.py; do
	log=$logs/${file##*/}
	tests CUDA:PTX "$log" "$file"
	mapfile -t failures < <(sed -nE 's/^(FAILED|ERROR) ([^ ]*).*/\2/p' "$log")
	((${#failures[@]} == 0)) || tests CPU "$log.cpu" "${failures[@]}"
	sed -nE 's/^PASSED (.*)/pass\t\1/p' "$log" >>"$logs/results"
	for test in "${failures[@]}"; do
		why=$(grep -oE "CUDA Error [0-9]+" "$log" | head -1)
		! grep -qE "^(FAILED|ERROR) .*::${test##*::}( |$)" "$log.cpu" || why="fails on the processor, too"
		failed "$test" "${why:-exit status 1}"
	done
done
