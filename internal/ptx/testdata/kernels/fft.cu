// A Fourier transform of 256 values in shared memory, and its inverse.
//! buf in f32 512 rand
//! buf f f32 512 zero out 1e-5 1e-4
//! buf back f32 512 zero out 1e-5 1e-5
//! launch fft 1 128 0 f in f32:-1
//! launch fft 1 128 0 back f f32:1
extern "C" __global__ void fft(float2 *out, const float2 *in, float sign) {
    __shared__ float2 s[256];
    int x = threadIdx.x;
    for (int i = x; i < 256; i += 128) s[__brev(i) >> 24] = in[i];
    for (int h = 1; h < 256; h *= 2) {
        __syncthreads();
        int k = x % h, i = x / h * 2 * h + k;
        float c, d;
        sincospif(sign * k / h, &d, &c);
        float2 a = s[i], b = s[i + h], t = make_float2(b.x * c - b.y * d, b.x * d + b.y * c);
        s[i] = make_float2(a.x + t.x, a.y + t.y);
        s[i + h] = make_float2(a.x - t.x, a.y - t.y);
    }
    __syncthreads();
    float f = sign > 0 ? 1.0f / 256 : 1;
    for (int i = x; i < 256; i += 128) out[i] = make_float2(s[i].x * f, s[i].y * f);
}
