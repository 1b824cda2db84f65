# Numba: its tests of the driver
# packages: python3-numba libnvvm4
# alone: libcudart12 nvidia-cuda-toolkit
# cuda: 12.4
# note: The tests of `numba.cuda.tests.cudadrv`. The CUDA runtime is only asked for its version.
ln -sf libnvvm.so.4 /usr/lib/x86_64-linux-gnu/libnvvm.so
ln -sf libcudart.so.12 /usr/lib/x86_64-linux-gnu/libcudart.so
export CUDA_HOME=/usr/lib/cuda

# results FILE: what the tests say, by their names.
results() {
	awk -v OFS='\t' '
		/ \.\.\. (ok|expected failure)$|^ok$/ { print "pass", ++n; next }
		/^(ERROR|FAIL): / { if (name) print "fail", name, last; name = $2; last = ""; next }
		/^Ran [0-9]/ { if (name) print "fail", name, last; name = "" }
		name && /^([A-Za-z_]+\.)*[A-Za-z_]*(Error|Exception|Failure|Exit)[a-zA-Z]*(:|$)/ { last = substr($0, 1, 90) }
	' "$1" >>"$logs/results"
}

cd /usr/lib/python3/dist-packages
for file in $(find numba/cuda/tests/cudadrv -name 'test_*.py' | sort); do
	module=${file%.py}
	module=${module//\//.}
	timeout 600 python3 -m unittest -v "$module" >"$logs/${module##*.}" 2>&1
	if grep -q 'CudaAPIError: \[700\]' "$logs/${module##*.}"; then
		# After a kernel that uses wrong addresses a process can do nothing more. So each test gets its own.
		for test in $(sed -nE 's/^ *test[A-Za-z0-9_]* \((numba[A-Za-z0-9_.]*)\).*/\1/p' "$logs/${module##*.}" | sort -u); do
			timeout 300 python3 -m unittest -v "$test" >"$logs/${test##*.}" 2>&1
			results "$logs/${test##*.}"
		done
	else
		results "$logs/${module##*.}"
	fi
done
