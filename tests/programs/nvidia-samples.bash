# NVIDIA's samples: those of the driver API and of NVRTC
# packages: libnvrtc12 make g++-13
# version: nvidia-cuda-samples
# alone: nvidia-cuda-samples nvidia-cuda-toolkit nvidia-cuda-dev libcudart12
# note: Their makefiles build them with `SMS=`, which puts PTX and no machine code into the binary. The samples of NVRTC compile for `sm_90`, to machine code.
ln -sf libnvrtc.so.12 /usr/lib/x86_64-linux-gnu/libnvrtc.so
ln -sf libcudart.so.12 /usr/lib/x86_64-linux-gnu/libcudart.so
seconds=400
cp -r /usr/share/doc/nvidia-cuda-toolkit/examples samples
export PATH=$PATH:/usr/lib/nvidia-cuda-toolkit/bin
for sample in samples/Samples/*/{*Drv*,*_nvrtc,*JIT*,*Dynlink*,*MMAP*,*IPC*}; do
	[[ -e $sample/Makefile ]] || continue
	grep -qE 'cuda_runtime|<<<' "$sample"/*.c* && [[ $sample != *_nvrtc ]] && continue # the CUDA runtime's
	log=$logs/build
	if ! make -C "$sample" SMS= CUDA_PATH=/usr HOST_COMPILER=g++-13 CUDA_SEARCH_PATH=/cusim EXTRA_NVCCFLAGS=--allow-unsupported-compiler build >"$log" 2>&1; then
		failed "${sample##*/}" "does not compile"
		cp "$log" "$log.${sample##*/}"
		continue
	fi
	check "${sample##*/}" bash -c 'cd "$1" && "./${1##*/}"' - "$sample"
done
