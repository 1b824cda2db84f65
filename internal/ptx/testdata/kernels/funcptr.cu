// Pointers to functions: in tables, in memory, as arguments, and virtual functions.
//! buf in u32 128 rand
//! buf out u32 128 zero out
//! buf v f32 64 zero out 1e-6 1e-6
//! buf s u32 64 zero out
//! launch table 1 128 0 out in
//! launch shapes 1 64 0 v
//! launch apply 1 64 0 s in u32:2
typedef unsigned (*Op)(unsigned, unsigned);
__device__ __noinline__ unsigned add(unsigned a, unsigned b) { return a + b; }
__device__ __noinline__ unsigned sub(unsigned a, unsigned b) { return a - b; }
__device__ __noinline__ unsigned mul(unsigned a, unsigned b) { return a * b; }
__device__ __noinline__ unsigned mix(unsigned a, unsigned b) { return (a ^ b) * 2654435761u + (a >> 3); }
__device__ Op ops[4] = {add, sub, mul, mix};
__constant__ Op fixed_ops[2] = {mix, add};
extern "C" __global__ void table(unsigned *out, const unsigned *in) {
    unsigned v = in[threadIdx.x];
    for (int i = 0; i < 3; i++) v = ops[v & 3](v, in[(threadIdx.x + i) & 127]);
    out[threadIdx.x] = fixed_ops[v & 1](v, 5);
}
struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual float scaled(float f) const { return area() * f; }
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float a;
    __device__ Square(float a) : a(a) {}
    __device__ float area() const override { return a * a; }
};
struct Circle : Shape {
    float r;
    __device__ Circle(float r) : r(r) {}
    __device__ float area() const override { return 3.14159265f * r * r; }
    __device__ float scaled(float f) const override { return Shape::scaled(f) + 1; }
};
__device__ __noinline__ float measure(const Shape *s, float f) { return s->scaled(f); }
extern "C" __global__ void shapes(float *v) {
    Square s(threadIdx.x);
    Circle c(threadIdx.x * 0.5f);
    const Shape *both[2] = {&s, &c};
    v[threadIdx.x] = measure(both[threadIdx.x & 1], 2);
}
__device__ __noinline__ unsigned fold(const unsigned *in, int n, Op f) {
    unsigned v = 1;
    for (int i = 0; i < n; i++) v = f(v, in[i]);
    return v;
}
extern "C" __global__ void apply(unsigned *s, const unsigned *in, unsigned k) {
    s[threadIdx.x] = fold(in + threadIdx.x, 8, threadIdx.x % 3 == 0 ? mix : threadIdx.x % 3 == 1 ? mul : ops[k]);
}
