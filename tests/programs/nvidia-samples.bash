# NVIDIA's samples: those that call the driver API
# packages: g++-13 make
# alone: nvidia-cuda-samples nvidia-cuda-toolkit nvidia-cuda-dev libcudart12 libnvrtc12 libnvrtc-builtins12.4 libnvvm4
# version: nvidia-cuda-samples
# note: The samples whose Makefile links the driver, without those that draw or need a camera. Each is compiled by its own Makefile for compute capability 9.0. NVRTC compiles the samples `…_nvrtc` to machine code.
seconds=240
examples=/usr/share/doc/nvidia-cuda-toolkit/examples
cp -rn "$examples"/* .
# The names that a linker asks for.
ln -sf libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so
ln -sfT /cusim/libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so.1
ln -sf libcudart.so.12 /usr/lib/x86_64-linux-gnu/libcudart.so
ln -sf libnvrtc.so.12 /usr/lib/x86_64-linux-gnu/libnvrtc.so
# The root has no static libraries, and Makefiles that name one get the shared one.
rm -f /usr/lib/x86_64-linux-gnu/libcudart_static.a
ar rc /usr/lib/x86_64-linux-gnu/libcudart_static.a

cd Samples || exit 1
for sample in 0_Introduction/{vectorAddDrv,matrixMulDrv,simpleTextureDrv,simpleDrvRuntime,vectorAddMMAP} \
	0_Introduction/{clock,matrixMul,simpleAssert,simpleAtomicIntrinsics,simpleTemplates}_nvrtc \
	0_Introduction/{simpleVoteIntrinsics,vectorAdd}_nvrtc 1_Utilities/deviceQueryDrv \
	2_Concepts_and_Techniques/{threadMigration,inlinePTX_nvrtc} \
	3_CUDA_Features/{memMapIPCDrv,ptxjit,cudaCompressibleMemory} \
	5_Domain_Specific/{BlackScholes,binomialOptions,quasirandomGenerator}_nvrtc; do
	name=${sample##*/}
	log=$logs/make.$name
	if make -C "$sample" EXTRA_NVCCFLAGS=-cudart=shared SMS=90 CUDA_PATH=/usr HOST_COMPILER=g++-13 \
		CUDA_SEARCH_PATH=/usr/lib/x86_64-linux-gnu >"$log" 2>&1; then
		check "$name" env -C "$sample" "./$name"
	else
		failed "$name" "does not compile"
	fi
done
