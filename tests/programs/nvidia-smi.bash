# nvidia-smi: NVIDIA's command
# packages: libxml2-utils
# alone: nvidia-smi
# version: nvidia-smi
# note: Debian's package, of driver 550. It reads NVML, also by functions that NVIDIA does not document.
smi=$(find /usr/lib/nvidia -type f -name "nvidia-smi*" -perm -u+x | head -1)
says list 'GPU 0: Simulated H200 \(UUID: GPU-' "$smi" -L
says table 'Driver Version: 580' "$smi"
says query 'Product Name +: Simulated H200' "$smi" -q
says csv '^Simulated H200, 143771 MiB' "$smi" --query-gpu=name,memory.total --format=csv,noheader
says topology 'GPU0' "$smi" topo -m
says dmon '^ +0 ' "$smi" dmon -c 1
says pmon '^ +0 ' "$smi" pmon -c 1
check xml bash -c '"$1" -q -x | xmllint --noout --nonet --nowarning -' - "$smi"
check persistence "$smi" -pm 1
check clocks "$smi" -lgc 600,900
check power "$smi" -pl 500
