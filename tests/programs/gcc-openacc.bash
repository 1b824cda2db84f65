# GCC: OpenACC in C
# packages: gcc-14-offload-nvptx gcc-14 g++-14 gfortran-14 tar xz-utils
# alone: gcc-14-source
# note: The tests of libgomp for OpenACC in C whose names begin with `parallel`, `reduction` or `vector`, from GCC's sources. Each is compiled and run once, with `-O2`, for at most 30 seconds.
source /programs/gcc.sh
flags=(-fopenacc -foffload=nvptx-none -DACC_DEVICE_TYPE_nvidia=1 -DACC_MEM_SHARED=0)
export ACC_DEVICE_TYPE=nvidia
cp $suite/libgomp.oacc-c-c++-common/subr.ptx .
libgomp gcc-14 $suite/libgomp.oacc-c-c++-common/{parallel,vector,reduction}*.c
