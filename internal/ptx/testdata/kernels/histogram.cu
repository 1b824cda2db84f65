// Histograms with atomics in shared and global memory, and with match.
//! buf in u8 4096 rand
//! buf h u32 256 zero out
//! buf m u32 64 zero out
//! buf big u64 16 zero out
//! buf lim i32 4 const:5 out
//! launch histogram 4 256 0 h in u32:4096
//! launch matched 2 256 0 m in u32:4096
//! launch sums 4 128 0 big lim in u32:4096
extern "C" __global__ void histogram(unsigned *h, const unsigned char *in, int n) {
    __shared__ unsigned s[256];
    s[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[in[i]], 1);
    __syncthreads();
    if (s[threadIdx.x]) atomicAdd(&h[threadIdx.x], s[threadIdx.x]);
}
extern "C" __global__ void matched(unsigned *m, const unsigned char *in, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned key = in[i] & 63, same = __match_any_sync(0xffffffff, key);
        if ((threadIdx.x & 31) == __ffs(same) - 1) atomicAdd(&m[key], __popc(same));
    }
}
extern "C" __global__ void sums(unsigned long long *big, int *lim, const unsigned char *in, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        unsigned long long v = in[i];
        atomicAdd(&big[v & 7], v << 33 | v);
        atomicMax(&big[8 + (v & 1)], v * 0x123456789abcull);
        atomicXor(&big[10], v << (i & 31));
        atomicOr((unsigned *)&big[11], 1u << (v & 31));
        atomicMin(&lim[0], (int)v - 100);
        atomicMax(&lim[1], (int)v - 100);
        atomicInc((unsigned *)&lim[2], 999);
        atomicSub(&lim[3], 3);
    }
}
