# gpustat: a monitor of GPUs
# packages: gpustat
# note: It reads NVML through pynvml.
says text 'Simulated H200 +\|' gpustat
says json '"memory.total": 143771' gpustat --json
