// The game of life with bits, eight queens, and operations on bits.
//! buf a u32 64 rand
//! buf b u32 64 zero out
//! buf q u32 8 zero out
//! buf bits u32 256 rand out
//! launch life 1 64 0 b a
//! launch queens 1 8 0 q
//! launch bitops 1 256 0 bits
extern "C" __global__ void life(unsigned *out, const unsigned *in) {
    __shared__ unsigned rows[64];
    int y = threadIdx.x;
    rows[y] = in[y];
    for (int g = 0; g < 20; g++) {
        __syncthreads();
        unsigned u = rows[(y + 63) & 63], m = rows[y], d = rows[(y + 1) & 63], next = 0;
        for (int x = 0; x < 32; x++) {
            unsigned l = (x + 31) & 31, r = (x + 1) & 31;
            int n = (u >> l & 1) + (u >> x & 1) + (u >> r & 1) + (m >> l & 1) + (m >> r & 1) + (d >> l & 1) + (d >> x & 1) + (d >> r & 1);
            if (n == 3 || (n == 2 && (m >> x & 1))) next |= 1u << x;
        }
        __syncthreads();
        rows[y] = next;
    }
    out[y] = rows[y];
}
extern "C" __global__ void queens(unsigned *q) {
    unsigned columns[9], left[9], right[9], open[9], n = 0;
    int d = 1;
    columns[1] = 1u << threadIdx.x; left[1] = columns[1] << 1; right[1] = columns[1] >> 1;
    open[1] = 255 & ~(columns[1] | left[1] | right[1]);
    while (d > 0) {
        if (open[d] == 0) { d--; continue; }
        unsigned bit = open[d] & -open[d];
        open[d] ^= bit;
        if (d == 7) { n++; continue; }
        columns[d + 1] = columns[d] | bit;
        left[d + 1] = (left[d] | bit) << 1;
        right[d + 1] = (right[d] | bit) >> 1;
        d++;
        open[d] = 255 & ~(columns[d] | left[d] | right[d]);
    }
    q[threadIdx.x] = n;
}
extern "C" __global__ void bitops(unsigned *v) {
    unsigned x = v[threadIdx.x], y = v[threadIdx.x ^ 1], r = 0;
    __syncthreads();
    r += __popc(x) * 3 + __clz(y) * 5 + __ffs(x) * 7;
    r ^= __brev(x) + __byte_perm(x, y, x & 0x7777);
    r += __funnelshift_l(x, y, y) ^ __funnelshift_rc(x, y, x & 63);
    r ^= __popcll((unsigned long long)x << 20 | y) + __clzll((long long)y << 7) + __ffsll(x | 1ull << 40);
    r += (unsigned)(__brevll((unsigned long long)x * y) >> 13);
    r ^= __sad(x, y, 9) + __usad(x, y, 3) + __hadd((int)x, (int)y) + __urhadd(x, y) + __mul24(x, y) + __umul24(x, y);
    r += __umulhi(x, y) ^ __mulhi((int)x, (int)y) ^ (unsigned)__umul64hi((unsigned long long)x << 32 | y, (unsigned long long)y << 31 | x);
    v[threadIdx.x] = r;
}
