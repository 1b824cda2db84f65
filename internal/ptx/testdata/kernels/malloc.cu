// Memory that kernels allocate: a tree in each thread, and memory that stays until a later kernel.
//! buf o u32 64 zero out
//! buf keep u64 32 zero
//! buf p u32 32 zero out
//! launch trees 1 64 0 o
//! launch fill 1 32 0 keep
//! launch drain 1 32 0 keep p
struct Tree { Tree *l, *r; unsigned key; __device__ Tree(unsigned k) : l(nullptr), r(nullptr), key(k) {} };
__device__ __noinline__ unsigned drop(Tree *t) {
    if (!t) return 7;
    unsigned h = drop(t->l) * 31 + t->key;
    h = h * 17 + drop(t->r);
    delete t;
    return h;
}
extern "C" __global__ void trees(unsigned *o) {
    Tree *root = nullptr;
    unsigned x = threadIdx.x * 7919 + 1;
    for (int i = 0; i < 12; i++) {
        x = x * 1664525 + 1013904223;
        Tree **at = &root;
        while (*at) at = x < (*at)->key ? &(*at)->l : &(*at)->r;
        *at = new Tree(x);
    }
    o[threadIdx.x] = drop(root);
}
extern "C" __global__ void fill(unsigned **keep) {
    unsigned n = threadIdx.x * 4 + 1, *m = (unsigned *)malloc(n * sizeof(unsigned));
    for (unsigned i = 0; m && i < n; i++) m[i] = i * n;
    keep[threadIdx.x] = m;
}
extern "C" __global__ void drain(unsigned **keep, unsigned *p) {
    unsigned n = threadIdx.x * 4 + 1, s = 0;
    for (unsigned i = 0; i < n; i++) s += keep[threadIdx.x][i];
    free(keep[threadIdx.x]);
    p[threadIdx.x] = s;
}
