# nvtop: a monitor of GPUs
# packages: nvtop
# note: It reads NVML.
says snapshot '"device_name": "Simulated H200"' nvtop -s
says temperature '"temp": "[0-9]+C"' nvtop -s
says power '"power_draw": "[0-9]+W"' nvtop -s
