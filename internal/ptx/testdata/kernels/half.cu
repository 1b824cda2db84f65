// Arithmetic with half and bfloat16, single and packed.
//! buf a f16 256 rand
//! buf b f16 256 rand
//! buf h f16 256 zero out
//! buf h2 f16 256 zero out
//! buf c bf16 256 rand
//! buf bf bf16 256 zero out
//! buf cmp u32 64 zero out
//! buf fn f16 256 zero out 2e-3 2e-3
//! buf cv u32 256 zero out
//! launch halves 1 256 0 h a b
//! launch pairs 1 128 0 h2 a b
//! launch bfloats 1 128 0 bf c
//! launch compares 1 64 0 cmp a b
//! launch functions 1 256 0 fn a
//! launch conversions 1 256 0 cv a c
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void halves(__half *h, const __half *a, const __half *b) {
    int i = threadIdx.x;
    __half s = __hadd(a[i], b[i]), p = __hmul(a[i], b[i]), d = __hsub(p, s);
    h[i] = __hfma(s, p, __habs(d)) ;
    h[i] = __hadd(h[i], __float2half(__half2float(a[i]) * 3));
}
extern "C" __global__ void pairs(__half2 *h, const __half2 *a, const __half2 *b) {
    int i = threadIdx.x;
    __half2 s = __hadd2(a[i], b[i]), p = __hmul2(a[i], s);
    p = __hfma2(p, __lowhigh2highlow(s), __float2half2_rn(0.5f));
    h[i] = __hmul2(p, __hge2(a[i], b[i]));
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
extern "C" __global__ void bfloats(__nv_bfloat162 *o, const __nv_bfloat162 *c) {
    int i = threadIdx.x;
    __nv_bfloat162 v = c[i], w = c[(i + 1) & 127];
    v = __hfma2(v, w, v);
    v = __hadd2_rn(v, __hmul2_rn(w, w));
    o[i] = __halves2bfloat162(__hmax(__low2bfloat16(v), __low2bfloat16(w)), __hsub(__high2bfloat16(v), __high2bfloat16(w)));
}
#endif
extern "C" __global__ void compares(unsigned *o, const __half *a, const __half *b) {
    int i = threadIdx.x;
    o[i] = __hlt(a[i], b[i]) | __hge(a[i], b[i]) << 1 | __heq(a[i], a[i]) << 2 | __hisnan(b[i]) << 3 | __hgt(__hmax(a[i], b[i]), a[i]) << 4 |
           (unsigned)__half_as_ushort(__hmin(a[i], b[i])) << 8;
}
extern "C" __global__ void functions(__half *o, const __half *a) {
    int i = threadIdx.x;
    __half v = __habs(a[i]);
    o[i] = __hadd(__hadd(hexp(a[i]), hsqrt(v)), __hadd(hrcp(__hadd(v, __float2half(1))), hsin(v)));
}
extern "C" __global__ void conversions(unsigned *o, const __half *a, const __nv_bfloat16 *c) {
    int i = threadIdx.x;
    __half v = __hmul(a[i], __float2half(100));
    o[i] = (__half2int_rn(v) & 255) | (__half2int_rz(v) & 255) << 8 |
           (unsigned)__half_as_ushort(__float2half_rz(__bfloat162float(c[i]) * 1.7f)) << 16;
    o[i] ^= __bfloat16_as_ushort(__float2bfloat16_rn(__half2float(v) * 1.37f));
    o[i] += __half_as_ushort(__int2half_rn(i * 37)) + __half_as_ushort(__ull2half_rz(i * 123456789ull >> 16));
}
