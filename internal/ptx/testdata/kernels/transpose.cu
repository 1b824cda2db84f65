// Transposes: tiles with padding, copies of 16 bytes, and memcpy in a kernel.
//! buf in u32 1024 rand
//! buf out u32 1024 zero out
//! buf copy u8 4096 zero out
//! launch transpose 2,2 16,16 0 out in u32:32
//! launch copies 1 64 0 copy in
extern "C" __global__ void transpose(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned t[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    t[threadIdx.y][threadIdx.x] = __ldg(&in[y * n + x]);
    __syncthreads();
    out[(blockIdx.x * 16 + threadIdx.y) * n + blockIdx.y * 16 + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}
struct Block { uint4 a[2]; unsigned char rest[13]; };
extern "C" __global__ void copies(unsigned char *out, const unsigned char *in) {
    int i = threadIdx.x;
    memset(out + i * 64, i, 64);
    memcpy(out + i * 64 + 1, in + i * 61, 45);
    *(uint2 *)(out + i * 64 + 48) = *(const uint2 *)(in + i * 64);
}
