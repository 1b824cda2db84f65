// Prefix sums: within blocks, then over the sums of blocks.
//! buf in u32 2000 mod:1000
//! buf out u32 2000 zero out
//! buf sums u32 8 zero out
//! buf f f32 512 mod:64
//! buf g f32 512 zero out
//! launch scan_blocks 8 256 0 out in sums u32:2000
//! launch scan_sums 1 32 0 sums u32:8
//! launch add_sums 8 256 0 out sums u32:2000
//! launch blelloch 1 256 2048 g f u32:512
extern "C" __global__ void scan_blocks(unsigned *out, const unsigned *in, unsigned *sums, int n) {
    __shared__ unsigned warps[8];
    int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned v = i < n ? in[i] : 0;
    for (int d = 1; d < 32; d *= 2) {
        unsigned o = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += o;
    }
    if (lane == 31) warps[warp] = v;
    __syncthreads();
    if (warp == 0) {
        unsigned s = lane < 8 ? warps[lane] : 0;
        for (int d = 1; d < 8; d *= 2) {
            unsigned o = __shfl_up_sync(~0u, s, d);
            if (lane >= d) s += o;
        }
        if (lane < 8) warps[lane] = s;
    }
    __syncthreads();
    if (warp > 0) v += warps[warp - 1];
    if (i < n) out[i] = v;
    if (threadIdx.x == 255) sums[blockIdx.x] = v;
}
extern "C" __global__ void scan_sums(unsigned *sums, int n) {
    unsigned v = threadIdx.x < n ? sums[threadIdx.x] : 0;
    for (int d = 1; d < 32; d *= 2) {
        unsigned o = __shfl_up_sync(~0u, v, d);
        if (threadIdx.x >= d) v += o;
    }
    if (threadIdx.x < n) sums[threadIdx.x] = v;
}
extern "C" __global__ void add_sums(unsigned *out, const unsigned *sums, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && blockIdx.x > 0) out[i] += sums[blockIdx.x - 1];
}
extern "C" __global__ void blelloch(float *out, const float *in, int n) {
    extern __shared__ float t[];
    int x = threadIdx.x, d, o = 1;
    t[2 * x] = in[2 * x];
    t[2 * x + 1] = in[2 * x + 1];
    for (d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (x < d) t[o * (2 * x + 2) - 1] += t[o * (2 * x + 1) - 1];
        o *= 2;
    }
    if (x == 0) t[n - 1] = 0;
    for (d = 1; d < n; d *= 2) {
        o >>= 1;
        __syncthreads();
        if (x < d) {
            int a = o * (2 * x + 1) - 1, b = o * (2 * x + 2) - 1;
            float v = t[a];
            t[a] = t[b];
            t[b] += v;
        }
    }
    __syncthreads();
    out[2 * x] = t[2 * x];
    out[2 * x + 1] = t[2 * x + 1];
}
