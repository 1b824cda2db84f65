// Arrays and structures in local memory, with indices that are not known before.
//! buf in u32 256 rand
//! buf out u32 64 zero out
//! buf m f32 64 zero out 1e-5 1e-5
//! buf b u8 512 zero out
//! launch counting 1 64 0 out in
//! launch inverse 1 64 0 m
//! launch bytes 1 32 0 b in
extern "C" __global__ void counting(unsigned *out, const unsigned *in) {
    unsigned char count[64];
    unsigned short first[64];
    for (int i = 0; i < 64; i++) { count[i] = 0; first[i] = 0xffff; }
    for (int i = 0; i < 256; i++) {
        unsigned k = (in[i] + threadIdx.x) % 64;
        count[k]++;
        if (first[k] == 0xffff) first[k] = i;
    }
    unsigned h = 0;
    for (int i = 0; i < 64; i++) h = h * 31 + count[i] * 1000 + first[i];
    out[threadIdx.x] = h;
}
struct Matrix { float a[4][4]; };
__device__ __noinline__ Matrix invert(Matrix m, int *swaps) {
    Matrix r;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) r.a[i][j] = i == j;
    for (int c = 0; c < 4; c++) {
        int p = c;
        for (int i = c + 1; i < 4; i++)
            if (fabsf(m.a[i][c]) > fabsf(m.a[p][c])) p = i;
        if (p != c) ++*swaps;
        for (int j = 0; j < 4; j++) {
            float t = m.a[p][j]; m.a[p][j] = m.a[c][j]; m.a[c][j] = t;
            t = r.a[p][j]; r.a[p][j] = r.a[c][j]; r.a[c][j] = t;
        }
        float d = m.a[c][c];
        for (int j = 0; j < 4; j++) { m.a[c][j] /= d; r.a[c][j] /= d; }
        for (int i = 0; i < 4; i++)
            if (i != c) {
                float f = m.a[i][c];
                for (int j = 0; j < 4; j++) { m.a[i][j] -= f * m.a[c][j]; r.a[i][j] -= f * r.a[c][j]; }
            }
    }
    return r;
}
extern "C" __global__ void inverse(float *out) {
    Matrix m;
    int swaps = 0;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) m.a[i][j] = ((i * 7 + j * 3 + threadIdx.x * 5) % 11) + (i == (j + threadIdx.x) % 4 ? 20 : 0);
    m = invert(m, &swaps);
    float s = swaps;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) s += m.a[i][j] * (i + 2 * j);
    out[threadIdx.x] = s;
}
struct __align__(4) Packed { char c; short s; signed char t[3]; long long l; bool f; };
extern "C" __global__ void bytes(unsigned char *out, const unsigned *in) {
    Packed p[3];
    unsigned v = in[threadIdx.x];
    for (int i = 0; i < 3; i++) {
        p[i].c = v >> i; p[i].s = v >> (2 * i); p[i].l = (long long)(int)v * (i + 1); p[i].f = v >> i & 1;
        for (int j = 0; j < 3; j++) p[i].t[j] = v >> (i + j);
    }
    unsigned k = v % 3;
    p[(k + 1) % 3] = p[k];
    long long sum = 0;
    for (int i = 0; i < 3; i++) sum = sum * 7 + p[i].c + p[i].s + p[i].t[v >> 8 & 1] + p[i].l + p[i].f;
    for (int i = 0; i < 16; i++) out[threadIdx.x * 16 + i] = sum >> (i * 4);
}
