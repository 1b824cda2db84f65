// Products of matrices with tensor cores: wmma, and mma with ldmatrix.
//! buf a f16 256 rand
//! buf b f16 256 rand
//! buf c f32 256 zero out 1e-5 1e-5
//! buf h f16 256 zero out 4e-3 4e-3
//! buf m f32 256 zero out 1e-5 1e-5
//! buf ia u8 512 rand
//! buf ib u8 512 rand
//! buf ic i32 256 zero out
//! buf bf f32 256 zero out 1e-5 1e-5
//! launch wmma16 1 32 0 c a b
//! launch wmmahalf 1 32 0 h a b
//! launch mma16816 1 32 0 m a b
//! launch mma8 1 32 0 ic ia ib
//! launch mmabf 1 32 0 bf a b
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
extern "C" __global__ void wmma16(float *c, const half *a, const half *b) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.5f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
extern "C" __global__ void wmmahalf(half *c, const half *a, const half *b) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> fc;
    wmma::fill_fragment(fc, __float2half(0.f));
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_col_major);
}
__device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void mma16816(float *c, const half *a, const half *b) {
    __shared__ __align__(16) half sa[256], sb[256];
    int x = threadIdx.x;
    for (int i = x; i < 256; i += 32) { sa[i] = a[i]; sb[i] = b[i]; }
    __syncthreads();
    for (int n = 0; n < 2; n++) {
        float d[4] = {0, 0, 0, 0};
#if __CUDA_ARCH__ >= 800
        unsigned ra[4], rb[2];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                     : "r"(shared_address(&sa[(x % 16) * 16 + x / 16 * 8])));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1])
                     : "r"(shared_address(&sb[(x % 16) * 16 + n * 8])));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
#else
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 4; i++)
                d[i] += __half2float(sa[(x / 4 + i / 2 * 8) * 16 + k]) * __half2float(sb[k * 16 + n * 8 + x % 4 * 2 + i % 2]);
#endif
        for (int i = 0; i < 4; i++) c[(x / 4 + i / 2 * 8) * 16 + n * 8 + x % 4 * 2 + i % 2] = d[i];
    }
}
extern "C" __global__ void mma8(int *c, const unsigned *a, const unsigned *b) {
    int x = threadIdx.x, d[2] = {1, 2};
    asm volatile("mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[0]), "+r"(d[1]) : "r"(a[x]), "r"(b[x]));
    c[x * 2] = d[0]; c[x * 2 + 1] = d[1];
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(d[0]), "+r"(d[1]) : "r"(a[x]), "r"(b[x]));
    c[64 + x * 2] = d[0]; c[64 + x * 2 + 1] = d[1];
}
extern "C" __global__ void mmabf(float *c, const unsigned *a, const unsigned *b) {
#if __CUDA_ARCH__ >= 800
    int x = threadIdx.x;
    float d[4] = {1, 2, 3, 4};
    unsigned v[4], w[2];
    for (int i = 0; i < 4; i++) v[i] = (a[(x + i * 32) & 127] & 0x80ff80ff) | 0x3f003f00;
    for (int i = 0; i < 2; i++) w[i] = (b[(x + i * 32) & 127] & 0x80ff80ff) | 0x3f003f00;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(w[0]), "r"(w[1]));
    for (int i = 0; i < 4; i++) c[x * 4 + i] = d[i];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(w[0]), "r"(w[1]));
    for (int i = 0; i < 4; i++) c[128 + x * 4 + i] = d[i];
#endif
}
