# GCC: OpenMP offloading in C
# packages: gcc-14-offload-nvptx gcc-14 g++-14 gfortran-14 tar xz-utils
# alone: gcc-14-source
# note: The tests of libgomp for C whose names begin with `target-`, from GCC's sources. Each is compiled and run once, with `-O2`, for at most 30 seconds.
source /programs/gcc.sh
flags=(-fopenmp -foffload=nvptx-none)
libgomp gcc-14 $suite/libgomp.c/target-*.c
