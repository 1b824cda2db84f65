// Addition of vectors, a vector of four at a time, and a loop with a stride.
//! buf a f32 1000 rand
//! buf b f32 1000 rand
//! buf c f32 1000 zero out 0 0
//! buf d f32 1000 zero out 1e-6 1e-6
//! buf e f64 500 rand
//! buf f f64 500 zero out 1e-14 1e-14
//! launch vecadd 4 256 0 c a b u32:1000
//! launch saxpy4 1 256 0 d a f32:1.5 u32:250
//! launch axpy64 2 96 0 f e f64:-0.75 u32:500
extern "C" __global__ void vecadd(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void saxpy4(float4 *y, const float4 *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i], w = y[i];
    w.x += a * v.x; w.y += a * v.y; w.z += a * v.z; w.w += a * v.w;
    y[i] = w;
}
extern "C" __global__ void axpy64(double *__restrict__ y, const double *__restrict__ x, double a, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + 1.0 / (x[i] + 3.0);
}
