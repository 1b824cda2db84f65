// Instructions that compilers rarely emit: packed integers, floats of eight bits, barriers in memory.
//! arch 80
//! buf a u32 256 rand
//! buf v2 u32 2560 zero out
//! buf v4 u32 2560 zero out
//! buf mm u32 1536 zero out
//! buf at u64 8 zero out
//! buf bar u32 64 zero out
//! buf st u32 2048 zero out
//! buf f8 u32 1024 zero out
//! launch videos 1 256 0 a v2 v4
//! launch extremes 1 256 0 a mm
//! launch atomics 1 64 0 at
//! launch barriers 1 32 0 bar
//! launch sets 1 256 0 a st
//! launch bytes 1 256 0 a f8
#define VIDEO(p, k, op) { unsigned d = c; asm volatile(op " %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(c)); p[k * 256 + threadIdx.x] = d; }
#define PAIR(p, k, op) { unsigned d; asm volatile(op " %0, %1, %2;" : "=r"(d) : "r"(x), "r"(y)); p[k * 256 + threadIdx.x] = d; }
extern "C" __global__ void videos(const unsigned *a, unsigned *v2, unsigned *v4) {
    unsigned x = a[threadIdx.x], y = a[threadIdx.x ^ 3], c = a[threadIdx.x ^ 9];
    VIDEO(v2, 0, "vadd2.s32.s32.s32.sat") VIDEO(v2, 1, "vadd2.u32.u32.u32.add") VIDEO(v2, 2, "vsub2.s32.s32.u32") VIDEO(v2, 3, "vsub2.u32.u32.u32.sat")
    VIDEO(v2, 4, "vabsdiff2.s32.s32.s32") VIDEO(v2, 5, "vabsdiff2.u32.u32.u32.add") VIDEO(v2, 6, "vmin2.s32.s32.s32") VIDEO(v2, 7, "vmin2.u32.u32.u32.add")
    VIDEO(v2, 8, "vmax2.s32.s32.s32.add") VIDEO(v2, 9, "vmax2.s32.u32.s32.sat")
    VIDEO(v4, 0, "vadd4.s32.s32.s32.sat") VIDEO(v4, 1, "vadd4.u32.u32.u32.add") VIDEO(v4, 2, "vsub4.s32.s32.u32") VIDEO(v4, 3, "vsub4.u32.u32.u32.sat")
    VIDEO(v4, 4, "vabsdiff4.s32.s32.s32") VIDEO(v4, 5, "vabsdiff4.u32.u32.u32.add") VIDEO(v4, 6, "vmin4.s32.s32.s32") VIDEO(v4, 7, "vmin4.u32.u32.u32.add")
    VIDEO(v4, 8, "vmax4.s32.s32.s32.add") VIDEO(v4, 9, "vmax4.s32.u32.s32.sat")
}
extern "C" __global__ void extremes(const unsigned *a, unsigned *mm) {
#if __CUDA_ARCH__ >= 900
    unsigned x = a[threadIdx.x], y = a[threadIdx.x ^ 3];
    PAIR(mm, 0, "min.s16x2") PAIR(mm, 1, "max.relu.s16x2")
    PAIR(mm, 2, "min.u16x2") PAIR(mm, 3, "max.u16x2")
#endif
}
extern "C" __global__ void atomics(unsigned long long *at) {
    unsigned x = threadIdx.x, r;
    unsigned long long l;
    asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(r) : "l"(at), "r"(x) : "memory");
    asm volatile("atom.max.acquire.sys.global.s32 %0, [%1], %2;" : "=r"(r) : "l"(at + 1), "r"(x * 3 - 50) : "memory");
    asm volatile("atom.xor.acq_rel.cta.b64 %0, [%1], %2;" : "=l"(l) : "l"(at + 2), "l"(x * 0x123456789ull) : "memory");
    asm volatile("atom.inc.relaxed.gpu.u32 %0, [%1], 40;" : "=r"(r) : "l"(at + 3) : "memory");
    if (x == 0) {
        asm volatile("atom.exch.acq_rel.gpu.b64 %0, [%1], 77;" : "=l"(l) : "l"(at + 4) : "memory");
        asm volatile("atom.cas.acq_rel.gpu.b64 %0, [%1], 77, 78;" : "=l"(l) : "l"(at + 4) : "memory");
        at[5] = l;
    }
}
extern "C" __global__ void barriers(unsigned *o) {
    __shared__ unsigned long long bar[2];
    unsigned x = threadIdx.x, b = (unsigned)__cvta_generic_to_shared(bar), p, n;
    unsigned long long s;
    if (x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32; mbarrier.init.shared.b64 [%0+8], 3;" ::"r"(b) : "memory");
    __syncwarp();
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(s) : "r"(b) : "memory");
    __syncwarp();
    asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(p) : "r"(b), "l"(s) : "memory");
    o[x] = p;
    if (x == 0) {
        asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(s) : "r"(b + 8) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(s));
        o[32] = n;
        asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(s) : "r"(b + 8) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(s));
        o[33] = n;
        asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(p) : "r"(b + 8), "l"(s) : "memory");
        o[34] = p;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(s) : "r"(b + 8) : "memory");
        asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(p) : "r"(b + 8), "l"(s) : "memory");
        o[35] = p;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(s) : "r"(b + 8) : "memory");
        asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(n) : "l"(s));
        o[36] = n;
#if __CUDA_ARCH__ >= 900
        asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}" : "=r"(p) : "r"(b + 8) : "memory");
        o[37] = p;
        asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 1; selp.u32 %0, 1, 0, p;}" : "=r"(p) : "r"(b + 8) : "memory");
        o[38] = p;
#endif
    }
}
#define SET(k, op) { unsigned d; asm volatile(op " %0, %1, %2;" : "=r"(d) : "r"(x), "r"(y)); st[k * 256 + threadIdx.x] = d; }
extern "C" __global__ void sets(const unsigned *a, unsigned *st) {
    unsigned x = a[threadIdx.x], y = threadIdx.x & 1 ? x ^ 0x00010000 : a[threadIdx.x ^ 3];
    SET(0, "set.eq.f16x2.f16x2") SET(1, "set.ltu.f16x2.f16x2") SET(2, "set.num.ftz.f16x2.f16x2")
#if __CUDA_ARCH__ >= 900
    SET(3, "set.ge.bf16x2.bf16x2") SET(4, "set.neu.u32.f16x2") SET(5, "set.nan.s32.bf16x2")
#endif
}
extern "C" __global__ void bytes(const unsigned *a, unsigned *f8) {
#if __CUDA_ARCH__ >= 900
    unsigned x = a[threadIdx.x];
    unsigned short s;
    asm volatile("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(s) : "r"(x)); f8[threadIdx.x] = s;
    asm volatile("cvt.rn.satfinite.relu.e5m2x2.f16x2 %0, %1;" : "=h"(s) : "r"(x)); f8[256 + threadIdx.x] = s;
    asm volatile("cvt.rn.satfinite.relu.e4m3x2.f32 %0, %1, %2;" : "=h"(s) : "f"(__uint_as_float(x)), "f"(__uint_as_float(x * 77))); f8[512 + threadIdx.x] = s;
    unsigned d;
    asm volatile("cvt.rn.relu.f16x2.e4m3x2 %0, %1;" : "=r"(d) : "h"((unsigned short)x)); f8[768 + threadIdx.x] = d;
#endif
}
