// Text from kernels.
//! stdout
//! buf r i32 4 zero out
//! launch hello 1 4 0 r
//! launch forms 1 1 0 u32:3000000000 f32:2.5 u64:81985529216486895 r
#include <cstdio>
extern "C" __global__ void hello(int *r) {
    for (int i = 0; i < 4; i++) {
        if (threadIdx.x == i) r[i] = printf("thread %d of %d\n", threadIdx.x, blockDim.x);
        __syncwarp(15);
    }
    if (threadIdx.x == 0) printf("no arguments\n");
}
extern "C" __global__ void forms(unsigned u, float f, unsigned long long l, int *r) {
    printf("%d|%5d|%-5d|%05d|%+d|% d|%i\n", -7, 42, 42, 42, 42, 42, (int)u);
    printf("%u|%x|%X|%#x|%o|%#o|%08x\n", u, u, u, u, u, u, 255);
    printf("%lld|%llu|%llx|%ld|%lu|%hd|%zu\n", (long long)l, l, l, (long)-5, (unsigned long)l, 70000, (size_t)9);
    printf("%f|%.3f|%10.2f|%-10.2f|%e|%.2e|%g|%G|%a\n", f, f, f, f, f, f, f, f, f);
    printf("%f|%f|%f|%e\n", 1.0 / 0.0, -1.0 / 0.0, 0.1, 123456789.0);
    printf("%c%c%c|%s|%10s|%-10s|%.2s|%%\n", 'a', 'b', 'c', "text", "right", "left", "cut");
    printf("%*d|%-*d|%.*f\n", 6, 42, 6, 42, 2, 3.14159);
    printf("%p\n", (void *)0x1234);
    printf("without the end of a line; ");
    printf("\tand\\ the end\n");
    r[3] = printf("");
}
