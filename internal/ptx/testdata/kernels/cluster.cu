// Clusters of blocks: barriers, and shared memory of other blocks.
//! arch 90
//! buf o u32 256 zero out
//! launch exchange 4 64 0 o
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(2, 1, 1) exchange(unsigned *o) {
    __shared__ unsigned s[64];
    cg::cluster_group c = cg::this_cluster();
    s[threadIdx.x] = blockIdx.x * 1000 + threadIdx.x;
    c.sync();
    unsigned *other = c.map_shared_rank(s, c.block_rank() ^ 1);
    unsigned v = other[63 - threadIdx.x];
    c.sync();
    o[blockIdx.x * 64 + threadIdx.x] = v * 8 + c.num_blocks() * 2 + c.block_rank();
}
