#!/bin/bash
# Compiles one kernel file: one.sh NAME ARCH O|G
n=$1 a=$2 m=$3
min=$(sed -n 's,^//! arch ,,p' $n.cu); [ "${min:-75}" -gt "$a" ] && exit 0
b=$OUT/$n.sm_$a.$m
flags="-O3"; [ $m = G ] && flags="-G"
timeout 60 nvcc -ptx $flags -std=c++17 -w -arch=compute_$a -o $b.ptx $n.cu >$b.log 2>&1 || { rm -f $b.ptx; echo "FAILED nvcc $n $a $m: $(head -c 300 $b.log)"; }
[ -s $b.log ] || rm -f $b.log
