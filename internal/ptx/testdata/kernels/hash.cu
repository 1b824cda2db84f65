// Hashes: SHA-256 of a block of 64 bytes, CRC-32, SipHash, MurmurHash3, and MD5.
//! buf in u32 1024 rand
//! buf sha u32 512 zero out
//! buf crc u32 64 zero out
//! buf sip u64 64 zero out
//! buf md5 u32 256 zero out
//! launch sha256 2 32 0 sha in
//! launch crc32 1 64 0 crc in
//! launch siphash 1 64 0 sip in
//! launch md5sum 1 64 0 md5 in
__constant__ unsigned K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
__device__ unsigned right(unsigned x, int n) { return __funnelshift_r(x, x, n); }
__device__ unsigned left(unsigned x, int n) { return x << n | x >> (32 - n); }
extern "C" __global__ void sha256(unsigned *out, const unsigned *in) {
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned w[64], h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int i = 0; i < 16; i++) w[i] = __byte_perm(in[id * 16 + i], 0, 0x0123);
    for (int i = 16; i < 64; i++) {
        unsigned a = right(w[i - 15], 7) ^ right(w[i - 15], 18) ^ (w[i - 15] >> 3);
        unsigned b = right(w[i - 2], 17) ^ right(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    unsigned v[8];
    for (int i = 0; i < 8; i++) v[i] = h[i];
    for (int i = 0; i < 64; i++) {
        unsigned s1 = right(v[4], 6) ^ right(v[4], 11) ^ right(v[4], 25), ch = (v[4] & v[5]) ^ (~v[4] & v[6]);
        unsigned t1 = v[7] + s1 + ch + K[i] + w[i];
        unsigned s0 = right(v[0], 2) ^ right(v[0], 13) ^ right(v[0], 22);
        unsigned t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        for (int j = 7; j > 0; j--) v[j] = v[j - 1];
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++) out[id * 8 + i] = h[i] + v[i];
}
extern "C" __global__ void crc32(unsigned *out, const unsigned *in) {
    __shared__ unsigned table[256];
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) {
        unsigned c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >> 1) : c >> 1;
        table[i] = c;
    }
    __syncthreads();
    const unsigned char *p = (const unsigned char *)(in + threadIdx.x * 16);
    unsigned c = ~0u;
    for (int i = 0; i < 64; i++) c = table[(c ^ p[i]) & 255] ^ (c >> 8);
    out[threadIdx.x] = ~c;
}
typedef unsigned long long u64;
__device__ u64 rotl(u64 x, int n) { return x << n | x >> (64 - n); }
__device__ void rounds(u64 *v, int n) {
    while (n-- > 0) {
        v[0] += v[1]; v[1] = rotl(v[1], 13) ^ v[0]; v[0] = rotl(v[0], 32);
        v[2] += v[3]; v[3] = rotl(v[3], 16) ^ v[2];
        v[0] += v[3]; v[3] = rotl(v[3], 21) ^ v[0];
        v[2] += v[1]; v[1] = rotl(v[1], 17) ^ v[2]; v[2] = rotl(v[2], 32);
    }
}
extern "C" __global__ void siphash(u64 *out, const u64 *in) {
    u64 k0 = 0x0706050403020100ull, k1 = 0x0f0e0d0c0b0a0908ull;
    u64 v[4] = {k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull, k0 ^ 0x6c7967656e657261ull, k1 ^ 0x7465646279746573ull};
    for (int i = 0; i < 8; i++) {
        u64 m = in[threadIdx.x * 8 + i];
        v[3] ^= m; rounds(v, 2); v[0] ^= m;
    }
    v[3] ^= 64ull << 56; rounds(v, 2); v[0] ^= 64ull << 56;
    v[2] ^= 255; rounds(v, 4);
    u64 h = v[0] ^ v[1] ^ v[2] ^ v[3];
    h ^= h >> 33; h *= 0xff51afd7ed558ccdull; h ^= h >> 33; h *= 0xc4ceb9fe1a85ec53ull; h ^= h >> 33;
    out[threadIdx.x] = h;
}
extern "C" __global__ void md5sum(unsigned *out, const unsigned *in) {
    const int s[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    unsigned a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;
    const unsigned *m = in + threadIdx.x * 16;
    for (int i = 0; i < 64; i++) {
        unsigned f;
        int g;
        switch (i / 16) {
        case 0: f = (b & c) | (~b & d); g = i; break;
        case 1: f = (d & b) | (~d & c); g = (5 * i + 1) & 15; break;
        case 2: f = b ^ c ^ d; g = (3 * i + 5) & 15; break;
        default: f = c ^ (b | ~d); g = (7 * i) & 15;
        }
        f += a + K[i] + m[g];
        a = d; d = c; c = b;
        b += left(f, s[i / 16][i & 3]);
    }
    out[threadIdx.x * 4] = a; out[threadIdx.x * 4 + 1] = b; out[threadIdx.x * 4 + 2] = c; out[threadIdx.x * 4 + 3] = d;
}
