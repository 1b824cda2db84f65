// Algorithms of CUB within a block: a scan, a sort, and a reduction.
//! buf a u32 512 rand out
//! buf s i32 512 mod:100 out
//! buf r f32 1 zero out 1e-5 1e-5
//! buf f f32 128 pos
//! launch block_sort 1 128 0 a
//! launch block_scan 1 128 0 s
//! launch block_reduce 1 128 0 r f
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void block_sort(unsigned *a) {
    using Sort = cub::BlockRadixSort<unsigned, 128, 4>;
    __shared__ typename Sort::TempStorage temp;
    unsigned k[4];
    for (int i = 0; i < 4; i++) k[i] = a[threadIdx.x * 4 + i];
    Sort(temp).Sort(k);
    for (int i = 0; i < 4; i++) a[threadIdx.x * 4 + i] = k[i];
}
extern "C" __global__ void block_scan(int *s) {
    using Scan = cub::BlockScan<int, 128>;
    __shared__ typename Scan::TempStorage temp;
    int v[4], all;
    for (int i = 0; i < 4; i++) v[i] = s[threadIdx.x * 4 + i];
    Scan(temp).ExclusiveSum(v, v, all);
    for (int i = 0; i < 4; i++) s[threadIdx.x * 4 + i] = v[i] + all;
}
extern "C" __global__ void block_reduce(float *r, const float *f) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage temp;
    float v = Reduce(temp).Sum(f[threadIdx.x]);
    if (threadIdx.x == 0) *r = v;
}
