# Glances: a monitor of the machine
# packages: glances python3-pynvml
# note: It reads NVML through pynvml. This is its part for GPUs.
says text "'name': 'Simulated H200'" glances --stdout gpu --stop-after 1
says json '"temperature": ?[0-9]+' glances --stdout-json gpu --stop-after 1
