// Sorts: bitonic in shared memory, by digits with ballots, and odd-even with pairs of keys and values.
//! buf a u32 512 rand out
//! buf b u32 256 rand out
//! buf k f32 128 rand out
//! buf v u32 128 iota out
//! launch bitonic 1 256 0 a u32:512
//! launch radix 1 256 0 b
//! launch oddeven 1 64 0 k v u32:128
extern "C" __global__ void bitonic(unsigned *a, unsigned n) {
    __shared__ unsigned s[512];
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) s[i] = a[i];
    for (unsigned k = 2; k <= n; k *= 2)
        for (unsigned j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {
                unsigned o = i ^ j;
                if (o > i && (s[i] > s[o]) == ((i & k) == 0)) {
                    unsigned v = s[i];
                    s[i] = s[o];
                    s[o] = v;
                }
            }
        }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) a[i] = s[i];
}
extern "C" __global__ void radix(unsigned *a) {
    __shared__ unsigned s[256];
    __shared__ int zeros[8];
    int x = threadIdx.x, lane = x & 31, warp = x >> 5;
    unsigned v = a[x];
    for (int bit = 0; bit < 32; bit++) {
        unsigned ones = __ballot_sync(0xffffffff, v >> bit & 1);
        if (lane == 0) zeros[warp] = 32 - __popc(ones);
        __syncthreads();
        int before = 0, all = 0;
        for (int w = 0; w < 8; w++) {
            if (w < warp) before += zeros[w];
            all += zeros[w];
        }
        int mine = __popc(~ones & ((1u << lane) - 1));
        int place = v >> bit & 1 ? all + (x - before - mine) : before + mine;
        s[place] = v;
        __syncthreads();
        v = s[x];
    }
    a[x] = v;
}
extern "C" __global__ void oddeven(float *k, unsigned *v, int n) {
    for (int round = 0; round < n; round++) {
        int i = 2 * threadIdx.x + (round & 1);
        if (i + 1 < n && k[i] > k[i + 1]) {
            float f = k[i]; k[i] = k[i + 1]; k[i + 1] = f;
            unsigned u = v[i]; v[i] = v[i + 1]; v[i + 1] = u;
        }
        __syncthreads();
    }
}
