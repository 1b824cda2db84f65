# hwloc: the topology of the machine
# packages: hwloc
# alone: libhwloc-contrib-plugins libcudart12
# note: `lstopo` finds the GPU by NVML. Its part for CUDA uses the CUDA runtime.
says nvml 'GPU\(NVML\) "nvml0"' lstopo-no-graphics
says cuda 'CoProc\(CUDA\) "cuda0"' lstopo-no-graphics
