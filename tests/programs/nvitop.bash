# nvitop: a monitor of GPUs
# packages: nvitop
# note: It reads NVML through pynvml.
says once 'Driver Version: 580' nvitop -1
says device 'Simulated H200' nvitop -1
