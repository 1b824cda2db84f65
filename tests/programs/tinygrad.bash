# tinygrad: its tests of operators
# packages: python3-torch python3-numpy python3-pytest python3-pytest-xdist python3-hypothesis clang
# git: https://github.com/tinygrad/tinygrad a9069c177a9da9cca18593edf55acd2e6073cca6
# note: tinygrad compiles each operator to PTX and calls the driver API. Its tests compare with PyTorch on the processor. These are its tests of operators, types and matrix products.
export DEV=CUDA:PTX CACHEDB=/tmp/tinygrad/cache.db TEST_TIMEOUT=900
cd /source
for file in test/backend/test_{ops,dtype,dtype_alu,nn,opt_gemm,transcendental,uops}.py; do
	log=$logs/${file##*/}
	timeout 3600 python3 -m pytest -p no:cacheprovider -n 2 -q -rpfE --tb=line "$file" >"$log" 2>&1
	sed -nE -e 's/^PASSED (.*)/pass\t\1/p' -e 's/^(FAILED|ERROR) ([^ ]*)( - ([A-Za-z.]*).*)?$/fail\t\2\t\4/p' "$log" >>"$logs/results"
done
