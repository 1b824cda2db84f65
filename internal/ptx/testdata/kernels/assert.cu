// An assertion that fails in some threads: the launch returns 710, and the text is on stderr.
//! stderr
//! error 710
//! buf a u32 64 iota
//! launch checked 1 64 0 a u32:62
#include <cassert>
extern "C" __global__ void checked(unsigned *a, unsigned n) {
    assert(a[threadIdx.x] <= n && "it is small");
    a[threadIdx.x] = 1;
}
