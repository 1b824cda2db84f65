// Switches with many cases, an interpreter, and a state machine over text.
//! buf code u32 64 rand
//! buf out u32 128 zero out
//! buf text u8 256 mod:96
//! buf n u32 64 zero out
//! launch interpret 2 64 0 out code
//! launch words 1 64 0 n text
extern "C" __global__ void interpret(unsigned *out, const unsigned *code) {
    unsigned id = blockIdx.x * blockDim.x + threadIdx.x, a = id * 17 + 3, b = id ^ 0x5555, pc = id & 7;
    for (int steps = 0; steps < 200; steps++) {
        unsigned w = code[pc & 63];
        switch (w % 13) {
        case 0: a += b; break;
        case 1: a -= w; break;
        case 2: b ^= a << 3; break;
        case 3: a = a * 5 + 1; break;
        case 4: b = __brev(b); break;
        case 5: a = __popc(a) + b; break;
        case 6: if (a & 1) pc += 3; break;
        case 7: b += a >> (w & 31); break;
        case 8: { unsigned t = a; a = b; b = t; } break;
        case 9: a = min(a, b) + 7; break;
        case 10: pc += b & 3; break;
        case 11: b = a / (b | 1); break;
        case 12: a = a % (w | 1) + b; break;
        }
        pc++;
    }
    out[id] = a ^ b * 3 + pc;
}
extern "C" __global__ void words(unsigned *n, const unsigned char *text) {
    int state = 0, counts[4] = {0};
    for (int i = threadIdx.x; i < 256; i++) {
        int c = text[i];
        switch (state) {
        case 0: state = c < 32 ? 1 : c < 64 ? 2 : 3; break;
        case 1: counts[0]++; state = c == 10 ? 0 : c < 48 ? 1 : 3; break;
        case 2: counts[1] += c; if (c > 80) state = 4; else if (c < 8) return; break;
        case 3: counts[2] ^= c; state = c & 3; break;
        case 4: counts[3]++; state = (c >> 2) % 5; continue;
        }
    }
    n[threadIdx.x] = counts[0] + counts[1] * 256 + counts[2] * 65536 + (counts[3] << 24);
}
