#!/bin/bash
# Compiles and runs all kernels: OUT=folder ./run.sh. The results are in $OUT/kernels.tgz.
cd "$(dirname "$0")"
export OUT=${OUT:-/tmp/out} PATH=$PATH:/usr/local/cuda/bin
mkdir -p $OUT
nvcc --version | tail -2; nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
I=$(dirname $(dirname $(readlink -f $(which nvcc))))/include
L=$(ldconfig -p | sed -n 's,.*libcuda.so.1 .*x86-64.* => ,,p' | head -1)
gcc -O1 -I$I kernels.c -o $OUT/kernels ${L:--lcuda} || exit 1
for n in cubs async tensor half coop cluster fp8 mathlib $(ls *.cu | sed s,.cu$,,); do
  for a in 90 80 75; do for m in O G; do echo $n $a $m; done; done
done | awk '!seen[$0]++' | xargs -P16 -L1 ./one.sh
date; ls $OUT/*.ptx | wc -l
for p in $OUT/*.ptx; do b=$(basename $p .ptx); echo ${b%%.*}.cu $OUT/$b; done | xargs -P8 -n20 timeout 100 $OUT/kernels
date
cd $OUT; rm -f kernels
find . -size 0 -delete
for f in *.res; do grep -vH ' 0$' $f; done; tail -q -n1 *.res | sort | uniq -c
tar czf kernels.tgz *.ptx *.bin *.res *.out *.err *.log 2>/dev/null
ls -l kernels.tgz; rm -f *.ptx *.bin *.out *.err *.log *.res
date
