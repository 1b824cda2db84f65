# cuda.core: its tests
# here: python3 -c 'import cuda.core, pytest'
# git: https://github.com/leofang/cuda-python 792ab3c9feade4507b90f40187b006fdd4a36eaa
# note: The tests and examples of NVIDIA's Python package, without those of its build. Those that fail load machine code from NVRTC, or need the CUDA runtime. On an H200 with NVIDIA's driver 580, 3,006 pass.
export PYTHONPATH=$source/cuda_python_test_helpers PYTHONDONTWRITEBYTECODE=1 CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
export CUDA_PATH=$CUDA_HOME

# file FILE: runs the tests of a file.
file() {
	timeout -k 5 300 python3 -m pytest -o addopts= -p no:cacheprovider -q -rA --tb=short --no-header \
		--show-capture=no "$1" >"$logs/${1//\//_}" 2>&1
}

export -f file
export logs
cd "$source/cuda_core/tests" || exit 1
find * -name 'test_*.py' |
	grep -vE 'cython|build_hooks|multiprocess|typing|rlcompleter|optional_dependency|enum_coverage' | sort | xargs -P "$(nproc)" -I{} bash -c 'file {}'
for log in "$logs"/*.py; do
	awk -v OFS='\t' '
		/^_+ .* _+$/ { gsub(/^_+ (ERROR at setup of )?| _+$/, ""); title = $0 }
		/^E .*(CUDA_ERROR_|cudaError|nvml\.)/ && match($0, /CUDA_ERROR_[A-Z_]+|cudaError[A-Za-z]+|nvml\.[A-Za-z]+/) {
			why[title] = substr($0, RSTART, RLENGTH)
		}
		/^PASSED / { print "pass", $2 }
		/^(FAILED|ERROR) / {
			name = $0
			sub(/^[A-Z]+ /, "", name); sub(/ - .*/, "", name)
			title = name
			sub(/^[^:]*::/, "", title); gsub(/::/, ".", title)
			print "fail", name, title in why ? why[title] : "exit status 1"
		}
	' "$log" >>"$logs/results"
done
