// Operations of warps whose lanes have diverged, time, and special registers.
//! buf in u32 256 rand
//! buf o u32 512 zero out
//! buf t u32 8 zero out
//! launch diverge 1 256 0 o in
//! launch clocks 2 64 0 t
extern "C" __global__ void diverge(unsigned *o, const unsigned *in) {
    unsigned v = in[threadIdx.x], lane = threadIdx.x & 31, r = 0;
    if (lane % 3 == 0) {
        unsigned m = 0x49249249;
        r = __shfl_sync(m, v, (lane + 6) % 33) + __ballot_sync(m, v & 1);
        for (unsigned i = 0; i < (v & 3); i++) r = r * 3 + i;
        __syncwarp(m);
    } else if (lane & 1) {
        unsigned m = __activemask();
        r = __popc(m) > 0;
        r += __shfl_sync(0xa28a28a2, v, lane & 4 ? 5 : 11) & 0xff;
    } else {
        int pred;
        unsigned m = 0x14514514;
        r = __match_any_sync(m, v & 3) ^ __match_all_sync(m, v >> 31, &pred) ^ pred;
    }
    __syncwarp();
    r ^= __shfl_xor_sync(0xffffffff, r, 7) * 5;
    r += __any_sync(0xffffffff, r == 12345) + 2 * __all_sync(0xffffffff, r != 0);
    o[threadIdx.x] = r;
    long long w = (long long)v << 17 | lane;
    w = __shfl_up_sync(0xffffffff, w, 3, 16);
    o[256 + threadIdx.x] = (unsigned)(w ^ w >> 32);
}
extern "C" __global__ void clocks(unsigned *t) {
    long long a = clock64();
    unsigned b = clock();
    unsigned long long g;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g));
    __nanosleep(100);
    unsigned sm, lane, warp;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    if (clock64() > a) atomicAdd(&t[0], 1);
    if (g > 0 && sm < 1024 && warp < 64) atomicAdd(&t[1], 1);
    if (lane == threadIdx.x % warpSize) atomicAdd(&t[2], 1);
    if (b != 0xffffffff) atomicAdd(&t[3], gridDim.x * blockDim.x);
}
