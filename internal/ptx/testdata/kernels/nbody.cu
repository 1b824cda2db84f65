// Forces between bodies, by float4 and tiles in shared memory.
//! buf p f32 512 rand
//! buf v f32 512 zero out 1e-4 1e-5
//! launch nbody 2 64 0 v p u32:128 f32:0.01
extern "C" __global__ void nbody(float4 *v, const float4 *p, int n, float dt) {
    __shared__ float4 tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float4 me = p[i];
    float3 a = make_float3(0, 0, 0);
    for (int t = 0; t < n; t += 64) {
        tile[threadIdx.x] = p[t + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 64; j++) {
            float4 o = tile[j];
            float dx = o.x - me.x, dy = o.y - me.y, dz = o.z - me.z, d2 = dx * dx + dy * dy + dz * dz + 0.05f;
            float r = rsqrtf(d2), f = o.w * r * r * r;
            a.x += dx * f; a.y += dy * f; a.z += dz * f;
        }
        __syncthreads();
    }
    v[i] = make_float4(a.x * dt, a.y * dt, a.z * dt, sqrtf(a.x * a.x + a.y * a.y));
}
