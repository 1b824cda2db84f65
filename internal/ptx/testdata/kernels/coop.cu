// A cooperative grid: Jacobi iterations with a barrier of the whole grid, and groups of threads.
//! arch 75
//! buf x f32 256 rand out 1e-5 1e-6
//! buf y f32 256 zero
//! buf n u32 4 zero out
//! buf g u32 8 zero out
//! coop jacobi 4 64 0 x y n u32:256
//! launch groups 1 64 0 g
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void jacobi(float *x, float *y, unsigned *changed, int n) {
    cg::grid_group grid = cg::this_grid();
    unsigned i = grid.thread_rank();
    for (int round = 0; round < 20; round++) {
        float l = i > 0 ? x[i - 1] : 0, r = i + 1 < n ? x[i + 1] : 1;
        y[i] = __fadd_rn(__fmul_rn(0.25f, l), __fadd_rn(__fmul_rn(0.5f, x[i]), __fmul_rn(0.25f, r)));
        grid.sync();
        float *t = x; x = y; y = t;
        if (i == 0) changed[0]++;
        grid.sync();
    }
    if (i == 0) { changed[1] = grid.size(); changed[2] = grid.is_valid(); }
}
extern "C" __global__ void groups(unsigned *g) {
    cg::thread_block b = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(b);
    unsigned v = b.thread_rank();
    for (int d = 4; d > 0; d /= 2) v += tile.shfl_down(v, d);
    if (tile.thread_rank() == 0) atomicAdd(&g[tile.meta_group_rank() & 7], v);
    b.sync();
    if (b.thread_rank() % 3 == 0) {
        auto active = cg::coalesced_threads();
        if (active.thread_rank() == 0) atomicAdd(&g[7], active.size() * 1000);
    }
}
