// The product of matrices in tiles of 16 by 16.
//! buf a f32 4096 rand
//! buf b f32 4096 rand
//! buf c f32 4096 zero out 1e-5 1e-5
//! buf d f64 4096 zero out 1e-13 1e-13
//! launch matmul 4,4 16,16 0 c a b u32:64
//! launch matmul64 4,4 16,16 0 d a b u32:64
template <class T> __device__ void product(T *c, const float *a, const float *b, int n) {
    __shared__ T as[16][16], bs[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    T sum = 0;
    for (int t = 0; t < n; t += 16) {
        as[y][x] = a[row * n + t + x];
        bs[y][x] = b[(t + y) * n + column];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; k++) sum += as[y][k] * bs[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
extern "C" __global__ void matmul(float *c, const float *a, const float *b, int n) { product<float>(c, a, b, n); }
extern "C" __global__ void matmul64(double *c, const float *a, const float *b, int n) { product<double>(c, a, b, n); }
