// Structures as parameters, with pointers, arrays and alignment; variables with initial values.
//! buf a f32 64 rand
//! buf b f64 64 rand
//! buf o f64 64 zero out 1e-13 1e-13
//! buf u u64 64 zero out
//! launch params 1 64 0 { a u32:7 b u8:200 u16:3000 f64:0.25 } o
//! launch nested 1 64 0 { u8:1 { u64:77 u32:5 } u32:9 u32:8 u32:7 } u u8:3
//! launch wide 1 64 0 u { u64:1 u64:2 u64:3 u64:4 u64:5 u64:6 u64:7 u64:8 u64:9 u64:10 u64:11 u64:12 u64:13 u64:14 u64:15 u64:16 }
struct Args { const float *a; int n; const double *b; unsigned char c; unsigned short s; double d; };
struct Inner { unsigned long long x; unsigned y; };
struct Outer { unsigned char t; Inner in; unsigned list[3]; };
struct Wide { unsigned long long v[16]; };
__device__ int counter[4] = {10, 20, 30, 40};
__constant__ Inner constants[3] = {{1, 2}, {0xffffffffffull, 4}, {5, 6}};
__device__ const char *names[3] = {"alpha", "beta", "gamma"};
__device__ unsigned *pointer_to_counter = (unsigned *)&counter[2];
extern "C" __global__ void params(Args p, double *o) {
    int i = threadIdx.x;
    o[i] = p.a[i] * p.n + p.b[i] * p.c + p.s * p.d;
}
extern "C" __global__ void nested(const __grid_constant__ Outer o, unsigned long long *u, unsigned char k) {
    int i = threadIdx.x;
    unsigned long long v = o.in.x * o.in.y + o.t + o.list[i % 3];
    v += constants[i % 3].x * constants[(i + 1) % 3].y;
    const char *s = names[i % 3];
    while (*s) v = v * 31 + *s++;
    v += *pointer_to_counter + counter[i % 4] + k;
    u[i] = v;
}
extern "C" __global__ void wide(unsigned long long *u, Wide w) { u[threadIdx.x] += w.v[threadIdx.x % 16] * w.v[threadIdx.x / 4]; }
