// Attention with one pass over keys and values: each thread has a query.
//! buf q f32 2048 rand
//! buf k f32 2048 rand
//! buf v f32 2048 rand
//! buf o f32 2048 zero out 1e-5 2e-6
//! launch attention 2 32 0 o q k v u32:64 f32:0.1767767
#define D 32
extern "C" __global__ void attention(float *o, const float *q, const float *k, const float *v, int n, float scale) {
    __shared__ float ks[16][D], vs[16][D];
    int row = blockIdx.x * 32 + threadIdx.x;
    float mine[D], sum[D] = {0}, most = -INFINITY, total = 0;
    for (int d = 0; d < D; d++) mine[d] = q[row * D + d];
    for (int t = 0; t < n; t += 16) {
        for (int r = 0; r < 16; r++) {
            ks[r][threadIdx.x] = k[(t + r) * D + threadIdx.x];
            vs[r][threadIdx.x] = v[(t + r) * D + threadIdx.x];
        }
        __syncthreads();
        for (int r = 0; r < 16 && t + r <= row; r++) {
            float s = 0;
            for (int d = 0; d < D; d++) s += mine[d] * ks[r][d];
            s *= scale;
            float m = fmaxf(most, s), c = __expf(most - m), p = __expf(s - m);
            total = total * c + p;
            for (int d = 0; d < D; d++) sum[d] = sum[d] * c + p * vs[r][d];
            most = m;
        }
        __syncthreads();
    }
    for (int d = 0; d < D; d++) o[row * D + d] = sum[d] / total;
}
