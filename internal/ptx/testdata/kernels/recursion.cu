// Functions that call themselves, and each other.
//! stack 16384
//! buf r u32 256 zero out
//! buf q u32 256 rand out
//! buf h u64 32 zero out
//! launch numbers 1 64 0 r
//! launch sorts 1 8 0 q
//! launch towers 1 32 0 h
__device__ __noinline__ unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
__device__ bool odd(unsigned n);
__device__ __noinline__ bool even(unsigned n) { return n == 0 || odd(n - 1); }
__device__ __noinline__ bool odd(unsigned n) { return n != 0 && even(n - 1); }
__device__ __noinline__ void quick(unsigned *a, int low, int high) {
    if (low >= high) return;
    unsigned p = a[(low + high) / 2];
    int i = low, j = high;
    while (i <= j) {
        while (a[i] < p) i++;
        while (a[j] > p) j--;
        if (i <= j) { unsigned v = a[i]; a[i++] = a[j]; a[j--] = v; }
    }
    quick(a, low, j);
    quick(a, i, high);
}
struct State { int pegs[3]; unsigned long long moves, hash; };
__device__ __noinline__ State hanoi(State s, int n, int from, int to) {
    if (n == 0) return s;
    s = hanoi(s, n - 1, from, 3 - from - to);
    s.pegs[from]--; s.pegs[to]++; s.moves++;
    s.hash = s.hash * 31 + from * 3 + to;
    return hanoi(s, n - 1, 3 - from - to, to);
}
extern "C" __global__ void numbers(unsigned *r) {
    unsigned x = threadIdx.x;
    r[x] = fib(x % 12);
    r[64 + x] = ackermann(x % 3, x % 4);
    r[128 + x] = even(x);
    r[192 + x] = odd(x * 3);
}
extern "C" __global__ void sorts(unsigned *q) { quick(q + threadIdx.x * 32, 0, 31); }
extern "C" __global__ void towers(unsigned long long *h) {
    State s = {{5, 0, 0}, 0, threadIdx.x};
    s = hanoi(s, threadIdx.x % 6, 0, 2);
    h[threadIdx.x] = s.hash * 1000 + s.moves + s.pegs[2];
}
