// The functions of the mathematical library, in single and double precision.
//! buf x f32 128 rand
//! buf f f32 2048 zero out 2e-6 2e-6
//! buf g f32 1024 zero out 1e-4 1e-5
//! buf d f64 2048 zero out 1e-13 1e-13
//! buf i i32 512 zero out
//! launch singles 1 128 0 f x
//! launch fast 1 128 0 g x
//! launch doubles 1 128 0 d x
//! launch rounds 1 128 0 i x
extern "C" __global__ void singles(float *o, const float *in) {
    int i = threadIdx.x;
    float x = in[i], p = fabsf(x) + 0.01f;
    o[i] = sinf(x * 50); o[128 + i] = cosf(x * 50); o[256 + i] = tanf(x); o[384 + i] = expf(x * 5) * 0.01f;
    o[512 + i] = logf(p); o[640 + i] = powf(p, x * 3) * 1e-3f; o[768 + i] = atan2f(x, 0.3f - p); o[896 + i] = erff(x);
    o[1024 + i] = tanhf(x); o[1152 + i] = cbrtf(x); o[1280 + i] = asinf(x); o[1408 + i] = log1pf(p);
    o[1536 + i] = expm1f(x); o[1664 + i] = fmodf(x * 100, 0.7f); o[1792 + i] = hypotf(x, p); o[1920 + i] = lgammaf(p + 1);
}
extern "C" __global__ void fast(float *o, const float *in) {
    int i = threadIdx.x;
    float x = in[i], p = fabsf(x) + 0.01f;
    o[i] = __sinf(x * 3); o[128 + i] = __cosf(x * 3); o[256 + i] = __expf(x); o[384 + i] = __logf(p);
    o[512 + i] = __powf(p, 1.5f); o[640 + i] = __fdividef(x, p); o[768 + i] = rsqrtf(p); o[896 + i] = exp2f(x) + log2f(p) + __tanf(x) + __saturatef(x);
}
extern "C" __global__ void doubles(double *o, const float *in) {
    int i = threadIdx.x;
    double x = in[i], p = fabs(x) + 0.01;
    o[i] = sin(x * 50); o[128 + i] = cos(x * 50); o[256 + i] = tan(x); o[384 + i] = exp(x * 5);
    o[512 + i] = log(p); o[640 + i] = pow(p, x * 3); o[768 + i] = atan2(x, 0.3 - p); o[896 + i] = erf(x);
    o[1024 + i] = tanh(x); o[1152 + i] = cbrt(x); o[1280 + i] = asin(x); o[1408 + i] = log10(p);
    o[1536 + i] = expm1(x); o[1664 + i] = fmod(x * 100, 0.7); o[1792 + i] = sqrt(p) / x; o[1920 + i] = tgamma(p + 1);
}
extern "C" __global__ void rounds(int *o, const float *in) {
    int i = threadIdx.x, e;
    float x = in[i] * 1000, w;
    float m = frexpf(x, &e), r = modff(x, &w);
    o[i] = (int)floorf(x) + (int)ceilf(x) * 3 + (int)rintf(x) * 5 + (int)truncf(x) * 7 + (int)roundf(x) * 11;
    o[128 + i] = e + (int)(m * 1000) + (int)(r * 1000) + (int)w + lrintf(x) + ilogbf(x) + (int)scalbnf(x, 2);
    o[256 + i] = __float2int_ru(x) + __float2int_rd(x) * 3 + __float2uint_rz(x) + (int)__double2ll_rn((double)x * 1e6) + signbit(x);
    o[384 + i] = __float_as_int(__fadd_ru(x, 0.1f)) ^ __float_as_int(__fmul_rd(x, 0.1f)) ^ __float_as_int(__fdiv_rn(x, 3)) ^ __float_as_int(__fsqrt_rz(fabsf(x))) ^
                 __float_as_int(__frcp_ru(x)) ^ __float_as_int(__fmaf_rz(x, x, 1)) ^ __float_as_int(nextafterf(x, 0)) ^ __float_as_int(copysignf(1, x)) ^ __float_as_int(__frsqrt_rn(fabsf(x) + 1));
}
