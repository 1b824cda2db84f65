// Packed bytes and half words, products of bytes, and 24 and 128 bits.
//! buf in u32 256 rand
//! buf out u32 512 zero out
//! buf dp i32 256 zero out
//! buf big u64 256 zero out
//! launch packed 1 256 0 out in
//! launch dots 1 256 0 dp in
//! launch wide 1 128 0 big in
extern "C" __global__ void packed(unsigned *o, const unsigned *in) {
    unsigned a = in[threadIdx.x], b = in[threadIdx.x ^ 5], r = 0;
    r += __vadd4(a, b) ^ __vsub4(a, b);
    r = r * 3 + __vmaxs4(a, b) + __vminu4(a, b);
    r = r * 3 + __vaddss2(a, b) + __vsubus4(a, b);
    r = r * 3 + __vabsdiffu4(a, b) + __vavgu4(a, b);
    r = r * 3 + __vcmpgtu4(a, b) + __vseteq4(a & 0x0f0f0f0f, b & 0x0f0f0f0f);
    r = r * 3 + __vsadu4(a, b) + __vabs2(a) + __vneg4(b);
    o[threadIdx.x] = r;
    r = __vmaxs2(a, b) ^ __vminu2(a, b);
    r = r * 3 + __vadd2(a, b) + __vcmpltu2(a, b);
    o[256 + threadIdx.x] = r;
}
extern "C" __global__ void dots(int *o, const unsigned *in) {
    int a = in[threadIdx.x], b = in[(threadIdx.x + 9) & 255], c = threadIdx.x;
#if __CUDA_ARCH__ >= 610
    c = __dp4a(a, b, c);
    c = __dp4a((unsigned)a, (unsigned)b, (unsigned)c);
    c = __dp2a_lo(a, b, c);
    c = __dp2a_hi((unsigned)a, (unsigned)b, (unsigned)c);
#endif
    o[threadIdx.x] = c;
}
extern "C" __global__ void wide(unsigned long long *o, const unsigned long long *in) {
    unsigned long long a = in[threadIdx.x], b = in[threadIdx.x ^ 1];
    unsigned __int128 p = (unsigned __int128)a * b, q = p + a;
    o[threadIdx.x] = (unsigned long long)(q >> 64) ^ (unsigned long long)q;
    long long s = (long long)a / (long long)((b >> 40) | 1) + (long long)a % (long long)((b >> 33) | 1);
    o[128 + threadIdx.x] = a / (b >> 20 | 1) + a % (b >> 9 | 1) + s + (unsigned long long)(q << 13 >> 70);
}
