// Sparse matrices: a product by rows, by warps, and conjugate gradients in one block.
//! buf x f64 64 rand
//! buf y f64 64 zero out 1e-13 1e-13
//! buf z f64 64 zero out 1e-13 1e-13
//! buf s f32 64 zero out 1e-3 1e-4
//! launch spmv 1 64 0 y x u32:64
//! launch spmv_warp 8 256 0 z x u32:64
//! launch solve 1 64 0 s
__device__ double entry(int row, int k, int *column) {
    *column = (row * 5 + k * 7) & 63;
    return 1.0 / (row + k + 1);
}
extern "C" __global__ void spmv(double *y, const double *x, int n) {
    int row = threadIdx.x;
    double s = 0;
    for (int k = 0; k < row % 9; k++) {
        int c;
        double v = entry(row, k, &c);
        s += v * x[c];
    }
    y[row] = s;
}
extern "C" __global__ void spmv_warp(double *y, const double *x, int n) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    double s = 0;
    for (int k = lane; k < 48; k += 32) {
        int c;
        double v = entry(row, k, &c);
        s = fma(v, x[c], s);
    }
    for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);
    if (lane == 0) y[row] = s;
}
__device__ float dot(float v, float *part) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
    __syncthreads();
    part[threadIdx.x / 32] = v;
    __syncthreads();
    return part[0] + part[1];
}
extern "C" __global__ void solve(float *x) {
    __shared__ float p[66], part[2];
    int i = threadIdx.x;
    float u = 0, b = (i % 7) - 3.0f, r = b, q = b;
    if (i < 2) p[i * 65] = 0;
    float rr = dot(r * r, part);
    for (int k = 0; k < 100 && rr > 1e-9f; k++) {
        p[i + 1] = q;
        __syncthreads();
        float a = 2.5f * q - p[i] - p[i + 2];
        float alpha = rr / dot(q * a, part);
        u += alpha * q;
        r -= alpha * a;
        float n = dot(r * r, part);
        q = r + n / rr * q;
        rr = n;
        __syncthreads();
    }
    x[i] = u;
}
