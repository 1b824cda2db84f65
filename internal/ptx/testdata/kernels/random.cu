// Random numbers: Philox, xorshift, a twister in local memory, and an estimate of pi.
//! buf ph u32 256 zero out
//! buf xs u64 64 zero out
//! buf pi u32 1 zero out
//! buf n f32 128 zero out 1e-5 1e-5
//! buf tw u32 8 zero out
//! launch philox 1 64 0 ph u64:0x123456789abcdef0
//! launch xorshift 1 64 0 xs
//! launch monte 4 64 0 pi
//! launch normal 1 64 0 n
//! launch twister 1 8 0 tw
__device__ uint4 philox4(uint4 c, uint2 k) {
    for (int i = 0; i < 10; i++) {
        unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
        k.x += 0x9E3779B9u;
        k.y += 0xBB67AE85u;
    }
    return c;
}
extern "C" __global__ void philox(uint4 *out, unsigned long long seed) {
    out[threadIdx.x] = philox4(make_uint4(threadIdx.x, 7, 1, 0), make_uint2((unsigned)seed, (unsigned)(seed >> 32)));
}
extern "C" __global__ void xorshift(unsigned long long *out) {
    unsigned long long x = 88172645463325252ull + threadIdx.x;
    for (int i = 0; i < 100; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
    out[threadIdx.x] = x * 2685821657736338717ull;
}
extern "C" __global__ void monte(unsigned *in) {
    unsigned id = blockIdx.x * blockDim.x + threadIdx.x, x = id * 747796405u + 2891336453u, hits = 0;
    for (int i = 0; i < 64; i++) {
        x = x * 1664525u + 1013904223u;
        float a = (x >> 8) * 0x1p-24f;
        x = x * 1664525u + 1013904223u;
        float b = (x >> 8) * 0x1p-24f;
        if (__fadd_rn(__fmul_rn(a, a), __fmul_rn(b, b)) < 1) hits++;
    }
    for (int d = 16; d; d >>= 1) hits += __shfl_down_sync(0xffffffff, hits, d);
    if ((threadIdx.x & 31) == 0) atomicAdd(in, hits);
}
extern "C" __global__ void normal(float2 *out) {
    uint4 r = philox4(make_uint4(threadIdx.x, 0, 0, 0), make_uint2(1, 2));
    float u = (r.x >> 8) * 0x1p-24f + 0x1p-25f, v = (r.y >> 8) * 0x1p-24f, s, c;
    sincosf(6.2831853f * v, &s, &c);
    float l = sqrtf(-2 * logf(u));
    out[threadIdx.x] = make_float2(l * s, l * c);
}
extern "C" __global__ void twister(unsigned *out) {
    unsigned mt[624];
    mt[0] = 5489 + threadIdx.x;
    for (int i = 1; i < 624; i++) mt[i] = 1812433253u * (mt[i - 1] ^ (mt[i - 1] >> 30)) + i;
    for (int i = 0; i < 624; i++) {
        unsigned y = (mt[i] & 0x80000000u) | (mt[(i + 1) % 624] & 0x7fffffffu);
        mt[i] = mt[(i + 397) % 624] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    unsigned y = mt[100 + threadIdx.x];
    y ^= y >> 11; y ^= (y << 7) & 0x9d2c5680u; y ^= (y << 15) & 0xefc60000u; y ^= y >> 18;
    out[threadIdx.x] = y;
}
