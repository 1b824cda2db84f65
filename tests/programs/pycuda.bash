# PyCUDA: its tests of the driver
# packages: python3-numpy python3-pytest python3-mako python3-pytools python3-platformdirs g++-13
# alone: python3-pycuda python-pycuda-doc libboost-python1.83.0 libcurand10 libcudart12 nvidia-cuda-toolkit nvidia-cuda-dev
# version: python3-pycuda
# note: PyCUDA compiles kernels with nvcc to machine code. Here a script named `nvcc` takes the place of it, and asks for PTX instead.
mkdir -p bin
cat >bin/nvcc <<'END'
#!/bin/bash
for arg in "$@"; do
	[[ $arg != --cubin ]] || exec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "${@/--cubin/--ptx}" -o kernel.cubin
done
exec /usr/lib/nvidia-cuda-toolkit/bin/nvcc "$@"
END
chmod +x bin/nvcc
export PATH=$PWD/bin:$PATH
for file in driver; do
	timeout 1500 python3 -m pytest -p no:cacheprovider -v --tb=line -rA /usr/share/doc/python-pycuda-doc/examples/test_$file.py >"$logs/$file" 2>&1
	awk -v OFS='\t' '
		/^PASSED /{ print "pass", $2 }
		/^(FAILED|ERROR) /{ name = $2; sub(/^[^ ]* [^ ]* (- )?/, ""); print "fail", name, substr($0, 1, 90) }
	' "$logs/$file" >>"$logs/results"
done
