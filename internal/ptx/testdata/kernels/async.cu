// Asynchronous copies into shared memory, with groups and with barriers.
//! buf in u32 1024 rand
//! buf o u32 256 zero out
//! buf b u32 128 zero out
//! buf bar u32 64 zero out
//! launch pipeline 1 64 0 o in
//! launch raw 1 128 0 b in
//! launch barriers 1 64 0 bar in
#include <cuda_pipeline.h>
#include <cuda/barrier>
extern "C" __global__ void pipeline(unsigned *o, const unsigned *in) {
    __shared__ __align__(16) unsigned s[2][256];
    int x = threadIdx.x;
    unsigned sum[4] = {0};
    __pipeline_memcpy_async(&s[0][x * 4], &in[x * 4], 16);
    __pipeline_commit();
    for (int t = 0; t < 4; t++) {
        if (t < 3) __pipeline_memcpy_async(&s[(t + 1) & 1][x * 4], &in[(t + 1) * 256 + x * 4], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int i = 0; i < 4; i++) sum[i] = sum[i] * 3 + s[t & 1][(x * 4 + i * 65) & 255];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) o[x * 4 + i] = sum[i];
}
extern "C" __global__ void raw(unsigned *b, const unsigned *in) {
    __shared__ __align__(16) unsigned s[512];
    int x = threadIdx.x;
#if __CUDA_ARCH__ >= 800
    unsigned at = (unsigned)__cvta_generic_to_shared(&s[x * 4]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(in + x * 4));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(in + 512 + x), "r"(x & 1 ? 4 : 2));
    asm volatile("cp.async.wait_all;");
#else
    for (int i = 0; i < 4; i++) s[x * 4 + i] = in[x * 4 + i];
    s[x * 4] = in[512 + x] & (x & 1 ? ~0u : 0xffff);
#endif
    __syncthreads();
    b[x] = s[(x * 4 + 4) & 511] ^ s[x * 4 + 1];
}
extern "C" __global__ void barriers(unsigned *o, const unsigned *in) {
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ unsigned s[64];
    int x = threadIdx.x;
    if (x == 0) init(&bar, 64);
    __syncthreads();
    unsigned v = in[x];
    for (int i = 0; i < 5; i++) {
        s[x] = v;
        auto token = bar.arrive();
        v = v * 5 + 1;
        bar.wait(static_cast<decltype(token) &&>(token));
        v += s[(x + 13) & 63];
        bar.arrive_and_wait();
    }
    o[x] = v;
}
