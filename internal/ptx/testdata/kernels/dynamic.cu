// Dynamic programming: the distance between texts, a knapsack, and triangles with templates.
//! buf a u8 256 mod:4
//! buf o u32 32 zero out
//! buf k u32 256 zero out
//! buf f f64 64 zero out 1e-12 1e-12
//! launch edit 1 32 0 o a
//! launch knapsack 1 256 0 k
//! launch integrate 1 64 0 f
extern "C" __global__ void edit(unsigned *o, const unsigned char *a) {
    unsigned short row[33];
    const unsigned char *s = a + threadIdx.x * 4, *t = a + 100 + threadIdx.x * 3;
    for (int j = 0; j <= 32; j++) row[j] = j;
    for (int i = 1; i <= 32; i++) {
        unsigned short diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= 32; j++) {
            unsigned short up = row[j];
            unsigned short best = diagonal + (s[i - 1] != t[j - 1]);
            if (up + 1 < best) best = up + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
            diagonal = up;
        }
    }
    o[threadIdx.x] = row[32];
}
extern "C" __global__ void knapsack(unsigned *k) {
    __shared__ unsigned best[2][256];
    int w = threadIdx.x;
    best[0][w] = 0;
    for (int i = 0; i < 30; i++) {
        __syncthreads();
        int weight = (i * 37) % 23 + 3, value = (i * 53) % 41 + 1;
        unsigned b = best[i & 1][w];
        if (w >= weight) b = max(b, best[i & 1][w - weight] + value);
        best[~i & 1][w] = b;
    }
    __syncthreads();
    k[w] = best[0][w];
}
template <class F> __device__ double simpson(F f, double a, double b, int n) {
    double h = (b - a) / n, s = f(a) + f(b);
    for (int i = 1; i < n; i++) s += (i & 1 ? 4 : 2) * f(a + i * h);
    return s * h / 3;
}
extern "C" __global__ void integrate(double *o) {
    double c = threadIdx.x * 0.1;
    o[threadIdx.x] = threadIdx.x & 1 ? simpson([=](double x) { return x * x * c + 1; }, 0, 2, 20)
                                     : simpson([=](double x) { return 1 / (1 + x * x) + c; }, 0, 1, 30);
}
