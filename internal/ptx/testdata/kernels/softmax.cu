// Softmax and layer normalization of rows, with shuffles.
//! buf in f32 1024 rand
//! buf out f32 1024 zero out 2e-6 1e-7
//! buf norm f32 1024 zero out 1e-5 2e-6
//! launch softmax 8 128 0 out in u32:128
//! launch layernorm 8 32,4 0 norm in u32:128 f32:1e-5
__device__ float reduce(float v, bool sum) {
    for (int d = 16; d > 0; d /= 2) {
        float o = __shfl_xor_sync(0xffffffff, v, d);
        v = sum ? v + o : fmaxf(v, o);
    }
    return v;
}
extern "C" __global__ void softmax(float *out, const float *in, int n) {
    __shared__ float part[4], all;
    int x = threadIdx.x;
    float v = in[blockIdx.x * n + x] * 10;
    float m = reduce(v, false);
    if (x % 32 == 0) part[x / 32] = m;
    __syncthreads();
    if (x == 0) all = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    __syncthreads();
    float e = expf(v - all);
    float s = reduce(e, true);
    __syncthreads();
    if (x % 32 == 0) part[x / 32] = s;
    __syncthreads();
    out[blockIdx.x * n + x] = e / (part[0] + part[1] + part[2] + part[3]);
}
extern "C" __global__ void layernorm(float *out, const float *in, int n, float epsilon) {
    __shared__ float sums[2][4];
    int x = threadIdx.y * 32 + threadIdx.x;
    float v = in[blockIdx.x * n + x];
    float a = reduce(v, true), b = reduce(v * v, true);
    if (threadIdx.x == 0) { sums[0][threadIdx.y] = a; sums[1][threadIdx.y] = b; }
    __syncthreads();
    a = (sums[0][0] + sums[0][1] + sums[0][2] + sums[0][3]) / n;
    b = (sums[1][0] + sums[1][1] + sums[1][2] + sums[1][3]) / n;
    out[blockIdx.x * n + x] = (v - a) * rsqrtf(b - a * a + epsilon);
}
