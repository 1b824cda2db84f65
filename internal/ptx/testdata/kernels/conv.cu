// Convolutions: with weights in constant memory, with a border in shared memory, and of bytes.
//! buf in f32 1024 rand
//! buf out f32 1024 zero out 1e-5 1e-6
//! buf sep f32 1024 zero out 1e-5 1e-6
//! buf bytes u8 1024 rand
//! buf blur u8 1024 zero out
//! launch conv2d 2,2 16,16 0 out in u32:32
//! launch conv1d 4 256 1056 sep in u32:1024
//! launch blur8 4,4 8,8 0 blur bytes u32:32 u32:32
__constant__ float weights[5][5] = {
    {0.01f, 0.02f, 0.03f, 0.02f, 0.01f}, {0.02f, 0.06f, 0.1f, 0.06f, 0.02f}, {0.03f, 0.1f, 0.2f, 0.1f, 0.03f},
    {0.02f, 0.06f, 0.1f, 0.06f, 0.02f}, {0.01f, 0.02f, 0.03f, 0.02f, -0.01f}};
__constant__ float line[9] = {-1, 0.5f, 0.25f, 2, 3, 2, 0.25f, 0.5f, -1};
extern "C" __global__ void conv2d(float *out, const float *in, int n) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int j = 0; j < 5; j++)
        for (int i = 0; i < 5; i++) {
            int u = x + i - 2, v = y + j - 2;
            if (u >= 0 && u < n && v >= 0 && v < n) sum += weights[j][i] * in[v * n + u];
        }
    out[y * n + x] = sum;
}
extern "C" __global__ void conv1d(float *out, const float *in, int n) {
    extern __shared__ float s[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x + 4] = in[i];
    if (threadIdx.x < 4) {
        s[threadIdx.x] = i >= 4 ? in[i - 4] : 0;
        int after = i + blockDim.x;
        s[threadIdx.x + blockDim.x + 4] = after < n ? in[after] : 0;
    }
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 9; k++) sum += line[k] * s[threadIdx.x + k];
    out[i] = sum;
}
extern "C" __global__ void blur8(unsigned char *out, const unsigned char *in, int w, int h) {
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, sum = 0, n = 0;
    for (int v = max(y - 1, 0); v <= min(y + 1, h - 1); v++)
        for (int u = max(x - 1, 0); u <= min(x + 1, w - 1); u++) { sum += in[v * w + u]; n++; }
    out[y * w + x] = sum / n;
}
