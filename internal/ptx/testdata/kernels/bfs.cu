// A search in a graph by levels, and shortest ways with atomics.
//! buf level u32 256 const:4294967295 out
//! buf front u32 512 zero
//! buf n u32 4 zero
//! buf dist u32 256 const:1000000 out
//! launch start 1 1 0 level front n dist
//! launch bfs 1 256 0 level front n
//! launch relax 1 256 0 dist
__device__ unsigned neighbour(unsigned v, unsigned k) { return (v * 13 + k * k * 29 + 7) & 255; }
extern "C" __global__ void start(unsigned *level, unsigned *front, unsigned *n, unsigned *dist) {
    level[3] = 0; front[0] = 3; n[0] = 1; dist[3] = 0;
}
extern "C" __global__ void bfs(unsigned *level, unsigned *front, unsigned *n) {
    for (unsigned l = 1; l < 20; l++) {
        unsigned *from = front + (l & 1 ? 0 : 256), *to = front + (l & 1 ? 256 : 0), many = n[l & 1 ? 0 : 1];
        __syncthreads();
        if (threadIdx.x == 0) n[l & 1 ? 1 : 0] = 0;
        __syncthreads();
        if (threadIdx.x < many)
            for (unsigned k = 0; k < 3; k++) {
                unsigned w = neighbour(from[threadIdx.x], k);
                if (atomicCAS(&level[w], 0xffffffff, l) == 0xffffffff) to[atomicAdd(&n[l & 1 ? 1 : 0], 1)] = w;
            }
        __syncthreads();
    }
}
extern "C" __global__ void relax(unsigned *dist) {
    unsigned v = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < 100; round++) {
        unsigned d = *(volatile unsigned *)&dist[v];
        for (unsigned k = 0; k < 3; k++) atomicMin(&dist[neighbour(v, k)], d + k * 3 + v % 5 + 1);
        __syncthreads();
    }
}
