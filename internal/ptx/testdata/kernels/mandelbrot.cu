// Iterations of complex numbers, with explicit roundings.
//! buf o u32 1024 zero out
//! buf d u32 256 zero out
//! launch mandelbrot 2,4 16,8 0 o u32:32
//! launch julia64 1 256 0 d
extern "C" __global__ void mandelbrot(unsigned *o, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, k = 0;
    float cx = __fsub_rn(__fmul_rn(x, 3.0f / 32), 2.25f), cy = __fsub_rn(__fmul_rn(y, 2.5f / 32), 1.25f), a = 0, b = 0;
    for (; k < 200; k++) {
        float aa = __fmul_rn(a, a), bb = __fmul_rn(b, b);
        if (__fadd_rn(aa, bb) > 4) break;
        b = __fmaf_rn(__fadd_rn(a, a), b, cy);
        a = __fadd_rn(__fsub_rn(aa, bb), cx);
    }
    o[y * n + x] = k;
}
extern "C" __global__ void julia64(unsigned *o) {
    double a = __ddiv_rn(threadIdx.x % 16 - 7.5, 5), b = __ddiv_rz(threadIdx.x / 16 - 7.5, 6);
    int k = 0;
    while (k < 300 && __fma_rn(a, a, __dmul_rn(b, b)) < 4) {
        double t = __dadd_rn(__dsub_rn(__dmul_rn(a, a), __dmul_rn(b, b)), -0.8);
        b = __fma_rn(2 * a, b, 0.156);
        a = t;
        k++;
    }
    o[threadIdx.x] = k;
}
