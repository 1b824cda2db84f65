// Products of matrices by mma of all shapes, and matrices of 8 by 8 that are loaded and stored.
//! arch 80
//! buf a u32 256 rand
//! buf b u32 256 rand
//! buf c u32 256 mod:100
//! buf ca f64 64 mod:9
//! buf f8 f32 128 zero out 1e-5 1e-3
//! buf h8 u32 64 zero
//! buf hh f16 256 zero out 4e-3 4e-3
//! buf b8 f32 128 zero out 1e-5 1e-3
//! buf t4 f32 128 zero out 1e-5 1e-3
//! buf d4 f64 64 zero out
//! buf d16 f64 128 zero out
//! buf i16 i32 256 zero out
//! buf i32 i32 256 zero out
//! buf isat i32 256 zero out
//! buf lm u32 512 zero out
//! launch floats 1 32 0 a b f8 b8 t4 hh
//! launch doubles 1 32 0 ca d4 d16
//! launch integers 1 32 0 a b i16 i32 isat
//! launch matrices 1 32 0 a lm
#define S "r"
// half returns two halves in [-2, 2) made of random bits.
__device__ unsigned half2bits(unsigned v) { return (v & 0x83ff83ff) | 0x3c003c00; }
__device__ unsigned bf2bits(unsigned v) { return (v & 0x807f807f) | 0x3f803f80; }
__device__ unsigned tfbits(unsigned v) { return (v & 0x807fffff) | 0x3f800000; }
extern "C" __global__ void floats(const unsigned *a, const unsigned *b, float *f8, float *b8, float *t4, unsigned *hh) {
    int x = threadIdx.x;
    unsigned v[4], w[2];
    float d[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++) v[i] = half2bits(a[x + 32 * i]);
    for (int i = 0; i < 2; i++) w[i] = half2bits(b[x + 32 * i]);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(v[0]), "r"(v[1]), "r"(w[0]));
    for (int i = 0; i < 4; i++) f8[x * 4 + i] = d[i];
    unsigned h[2] = {0x3c004000, 0x42004400};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                 : "+r"(h[0]), "+r"(h[1]) : "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]), "r"(w[0]), "r"(w[1]));
    hh[x * 2] = h[0]; hh[x * 2 + 1] = h[1];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
                 : "+r"(h[0]), "+r"(h[1]) : "r"(v[0]), "r"(v[1]), "r"(w[0]));
    hh[64 + x * 2] = h[0]; hh[64 + x * 2 + 1] = h[1];
    for (int i = 0; i < 4; i++) d[i] = i - 1.5f;
    for (int i = 0; i < 2; i++) v[i] = bf2bits(a[x + 32 * i]);
    w[0] = bf2bits(b[x]);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(v[0]), "r"(v[1]), "r"(w[0]));
    for (int i = 0; i < 4; i++) b8[x * 4 + i] = d[i];
    for (int i = 0; i < 2; i++) v[i] = tfbits(a[x + 32 * i]);
    w[0] = tfbits(b[x]);
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(v[0]), "r"(v[1]), "r"(w[0]));
    for (int i = 0; i < 4; i++) t4[x * 4 + i] = d[i];
}
extern "C" __global__ void doubles(const double *a, double *d4, double *d16) {
    int x = threadIdx.x;
    double d[4] = {1, 2, 3, 4};
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+d"(d[0]), "+d"(d[1]) : "d"(a[x]), "d"(a[x + 32]));
    d4[x * 2] = d[0]; d4[x * 2 + 1] = d[1];
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3]) : "d"(a[x]), "d"(a[x + 32]), "d"(a[x ^ 5]));
    for (int i = 0; i < 4; i++) d16[x * 4 + i] = d[i];
#endif
}
extern "C" __global__ void integers(const unsigned *a, const unsigned *b, int *i16, int *i32, int *isat) {
    int x = threadIdx.x, d[4] = {1, 20, 300, 4000};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[x]), "r"(a[x + 32]), "r"(b[x]));
    for (int i = 0; i < 4; i++) i16[x * 4 + i] = d[i];
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[x]), "r"(a[x + 32]), "r"(a[x + 64]), "r"(a[x + 96]), "r"(b[x]), "r"(b[x + 32]));
    for (int i = 0; i < 4; i++) i32[x * 4 + i] = d[i];
    for (int i = 0; i < 4; i++) d[i] = i & 1 ? 0x7ffffff0 : -0x7ffffff0;
    asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[x]), "r"(a[x + 32]), "r"(a[x + 64]), "r"(a[x + 96]), "r"(b[x]), "r"(b[x + 32]));
    for (int i = 0; i < 4; i++) isat[x * 4 + i] = d[i];
    for (int i = 0; i < 4; i++) d[i] = i & 1 ? 0x7ffffff0 : -0x7ffffff0;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[x]), "r"(a[x + 32]), "r"(b[x]));
    for (int i = 0; i < 4; i++) isat[128 + x * 4 + i] = d[i];
}
extern "C" __global__ void matrices(const unsigned *a, unsigned *lm) {
    __shared__ __align__(16) unsigned s[256];
    int x = threadIdx.x;
    for (int i = x; i < 256; i += 32) s[i] = a[i];
    __syncwarp();
    unsigned at = (unsigned)__cvta_generic_to_shared(&s[(x * 5 % 32) * 4]), r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    for (int i = 0; i < 4; i++) lm[x * 4 + i] = r[i];
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(at));
    lm[128 + x] = r[0];
#if __CUDA_ARCH__ >= 900
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
    __syncwarp();
    for (int i = 0; i < 4; i++) lm[160 + x * 4 + i] = s[x * 4 + i];
    __syncwarp();
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(at), "r"(r[2]), "r"(r[3]) : "memory");
    __syncwarp();
    for (int i = 0; i < 4; i++) lm[288 + x * 4 + i] = s[x * 4 + i];
#endif
}
