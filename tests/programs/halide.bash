# Halide: its tests of GPUs
# packages: libhalide19-dev g++-14
# source: halide
# note: Halide writes PTX with LLVM and calls the driver API. These are the tests of `test/correctness` that are about GPUs.
seconds=200
suite=/source/test/correctness
for file in "$suite"/{gpu_,cuda_}*.cpp "$suite"/{custom_cuda_context,dynamic_allocation_in_gpu_kernel,fuse_gpu_threads,hello_gpu,parallel_gpu_nested,specialize_to_gpu,vectorized_gpu_allocation}.cpp; do
	[[ $file != *metal* ]] || continue
	log=$logs/build
	if ! g++-14 -std=c++17 -O0 -w -I/source/test/common -I/source/tools "$file" -o "${file##*/}.out" -lHalide -lpthread -ldl >"$log" 2>&1; then
		failed "${file##*/}" "does not compile"
		continue
	fi
	check "${file##*/}" env HL_JIT_TARGET=host-cuda-cuda_capability_80 "./${file##*/}.out"
	# What asks for features that a target lacks says so, and succeeds.
	grep -q '\[SKIP\]' "$log" && sed -i '$d' "$logs/results"
done
