// Reductions: with shuffles, with votes, with atomics of floats, and by the last block.
//! buf in i32 2048 mod:2001
//! buf r i32 8 zero out
//! buf f f32 2048 mod:256
//! buf fr f32 4 zero out
//! buf d f64 512 mod:512
//! buf dr f64 4 zero out
//! buf last u32 20 zero out
//! launch reduce_int 8 256 0 r in
//! launch reduce_float 8 256 0 fr f
//! launch reduce_double 1 512 0 dr d
//! launch last_block 16 64 0 last in u32:2048
extern "C" __global__ void reduce_int(int *r, const int *in) {
    int v = in[blockIdx.x * 256 + threadIdx.x], s = v, m = v, M = v;
    for (int d = 16; d > 0; d >>= 1) {
        s += __shfl_down_sync(0xffffffff, s, d);
        m = min(m, __shfl_xor_sync(0xffffffff, m, d));
        M = max(M, __shfl_xor_sync(0xffffffff, M, d));
    }
#if __CUDA_ARCH__ >= 800
    int all = __reduce_add_sync(0xffffffff, v);
    unsigned bits = __reduce_xor_sync(0xffffffff, (unsigned)v);
#else
    int all = __shfl_sync(0xffffffff, s, 0);
    unsigned bits = v;
    for (int d = 16; d > 0; d >>= 1) bits ^= __shfl_xor_sync(0xffffffff, bits, d);
#endif
    if ((threadIdx.x & 31) == 0) {
        atomicAdd(&r[0], s); atomicMin(&r[1], m); atomicMax(&r[2], M); atomicAdd(&r[3], all);
        atomicXor(&r[4], bits);
    }
    if (__syncthreads_or(v == 77)) atomicAdd(&r[5], 1);
    int n = __syncthreads_count(v & 1);
    if (threadIdx.x == 0) atomicAdd(&r[6], n);
    if (__all_sync(0xffffffff, v >= 3) && (threadIdx.x & 31) == 0) atomicAdd(&r[7], 1);
}
extern "C" __global__ void reduce_float(float *r, const float *in) {
    __shared__ float s[256];
    int x = threadIdx.x;
    s[x] = in[blockIdx.x * 256 + x];
    for (int d = 128; d > 0; d >>= 1) {
        __syncthreads();
        if (x < d) s[x] += s[x + d];
    }
    if (x == 0) { atomicAdd(&r[0], s[0]); atomicAdd(&r[1], s[0] * 0.5f); }
}
extern "C" __global__ void reduce_double(double *r, const double *in) {
    double v = in[threadIdx.x];
    for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffff, v, d);
    if ((threadIdx.x & 31) == 0) {
#if __CUDA_ARCH__ >= 600
        atomicAdd(&r[0], v);
#endif
        unsigned long long *a = (unsigned long long *)&r[1], old = *a, seen;
        do {
            seen = old;
            old = atomicCAS(a, seen, __double_as_longlong(fmax(v, __longlong_as_double(seen))));
        } while (old != seen);
    }
}
__device__ unsigned arrived = 0;
extern "C" __global__ void last_block(unsigned *out, const int *in, int n) {
    __shared__ bool last;
    unsigned s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) s += in[i];
    for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffff, s, d);
    if ((threadIdx.x & 31) == 0) atomicAdd(&out[blockIdx.x], s);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0)
        for (int i = 0; i < gridDim.x; i++) out[16] += ((volatile unsigned *)out)[i];
}
