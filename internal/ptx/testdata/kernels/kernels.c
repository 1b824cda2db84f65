// Runs the kernels of a PTX file as the lines "//!" of its source say, and writes the results.
//
//	kernels NAME.cu RESULT...
//
// RESULT.ptx is read. RESULT.res gets a line for each step: "launch KERNEL CODE". RESULT.bin has the buffers that are
// results, one after the other; RESULT.out and RESULT.err have what the kernels print. A list of such pairs is run in one
// process. After an error that a context does not survive, the process begins anew with the next pair.
#include <cuda.h>
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

typedef struct { char name[32], type[8]; int size, count, out; unsigned char *host; CUdeviceptr dev; } Buffer;
static Buffer buffers[32];
static int many;
static FILE *res;

static char **self, **rest; // the program, and the pairs that follow

// again runs the rest in a new process.
static void again(void) {
    if (!rest[0]) _exit(0);
    rest[-1] = self[0];
    execv(self[0], rest - 1);
    _exit(1);
}

static void fail(const char *what, int code) {
    fprintf(res, "%s %d\n", what, code);
    fclose(res);
    again();
}

static void late(int s) { again(); }

static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// put writes a value of a type. Values of 16 bits are those that need no rounding.
static void put(unsigned char *p, const char *type, double v, uint64_t bits, int whole) {
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    if (!strcmp(type, "f64")) memcpy(p, &v, 8);
    else if (!strcmp(type, "f32")) memcpy(p, &f, 4);
    else if (!strcmp(type, "bf16")) { p[0] = u >> 16; p[1] = u >> 24; }
    else if (!strcmp(type, "f16")) {
        uint16_t h = f == 0 ? 0 : (u >> 16 & 0x8000) | (((u >> 23 & 255) - 112) << 10) | (u >> 13 & 0x3ff);
        memcpy(p, &h, 2);
    } else {
        uint64_t n = whole ? (uint64_t)(int64_t)v : bits;
        int size = !strcmp(type, "u8") ? 1 : !strcmp(type, "u16") ? 2 : type[1] == '6' ? 8 : 4;
        memcpy(p, &n, size);
    }
}

static int sizeOf(const char *type) {
    if (!strcmp(type, "u8")) return 1;
    if (!strcmp(type, "u16") || !strcmp(type, "f16") || !strcmp(type, "bf16")) return 2;
    return type[1] == '6' ? 8 : 4;
}

static void fill(Buffer *b, const char *how) {
    uint64_t seed = 0xcbf29ce484222325ull;
    for (const char *c = b->name; *c; c++) seed = (seed ^ (unsigned char)*c) * 0x100000001b3ull;
    for (int i = 0; i < b->count; i++) {
        unsigned char *p = b->host + i * b->size;
        uint64_t h = mix(seed + i);
        int small = b->size == 2 && strcmp(b->type, "u16");
        if (!strcmp(how, "zero")) put(p, b->type, 0, 0, 1);
        else if (!strcmp(how, "iota")) put(p, b->type, i, 0, 1);
        else if (!strncmp(how, "const:", 6)) put(p, b->type, atof(how + 6), 0, 1);
        else if (!strncmp(how, "mod:", 4)) put(p, b->type, (double)((h >> 33) % strtoull(how + 4, 0, 10)), 0, 1);
        else if (!strcmp(how, "pos")) put(p, b->type, (double)(h >> 40) / 16777216, 0, 0);
        else if (!strcmp(how, "rand")) put(p, b->type, small ? (double)((int64_t)(h >> 56) - 128) / 128 :
                                           (double)((int64_t)(h >> 40) - 8388608) / 8388608, h, 0);
        else fail("generator", 1);
    }
}

static Buffer *find(const char *name) {
    for (int i = 0; i < many; i++) if (!strcmp(buffers[i].name, name)) return &buffers[i];
    return 0;
}

// pack puts an argument, or the members of a structure, behind each other, and returns its alignment.
static int pack(char **words, int *at, unsigned char *to, int *size) {
    char *w = words[(*at)++];
    if (!strcmp(w, "{")) {
        int most = 1;
        while (words[*at] && strcmp(words[*at], "}")) {
            unsigned char part[256] = {0};
            int n = 0, a = pack(words, at, part, &n);
            *size = (*size + a - 1) / a * a;
            memcpy(to + *size, part, n);
            *size += n;
            if (a > most) most = a;
        }
        ++*at;
        *size = (*size + most - 1) / most * most;
        return most;
    }
    char *colon = strchr(w, ':');
    if (!colon) {
        Buffer *b = find(w);
        if (!b) fail("buffer", 1);
        memcpy(to, &b->dev, 8);
        return *size = 8;
    }
    *colon = 0;
    int s = sizeOf(w);
    if (w[0] == 'f') put(to, w, atof(colon + 1), 0, 0);
    else { uint64_t n = strtoull(colon + 1, 0, 0); memcpy(to, &n, s); }
    return *size = s;
}

static CUcontext context;

// run does what a source says with the kernels of one text, and reports whether the context is lost.
static int run(const char *source, const char *result) {
    char base[512], line[1024];
    snprintf(base, sizeof base, "%s.res", result);
    res = fopen(base, "w");
    setvbuf(res, 0, _IOLBF, 1024);
    snprintf(base, sizeof base, "%s.out", result);
    int o = open(base, O_WRONLY | O_CREAT | O_TRUNC, 0644), broken = 0;
    snprintf(base, sizeof base, "%s.err", result);
    int e = open(base, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    dup2(o, 1);
    dup2(e, 2);
    close(o);
    close(e);
    snprintf(base, sizeof base, "%s.ptx", result);
    FILE *f = fopen(base, "r");
    if (!f) fail("file", 1);
    static char text[8 << 20];
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    CUdevice d; CUmodule m; CUresult r;
    if (!context && ((r = cuInit(0)) || (r = cuDeviceGet(&d, 0)) || (r = cuDevicePrimaryCtxRetain(&context, d)) ||
                     (r = cuCtxSetCurrent(context)))) fail("init", r);
    static char log[8192];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    if ((r = cuModuleLoadDataEx(&m, text, 2, options, values))) { fprintf(res, "%s\n", log); fail("load", r); }
    if (!(f = fopen(source, "r"))) fail("source", 1);
    many = 0;
    while (fgets(line, sizeof line, f)) {
        char *words[64] = {0};
        int n = 0;
        if (strncmp(line, "//! ", 4)) continue;
        for (char *w = strtok(line + 4, " \n"); w; w = strtok(0, " \n")) words[n++] = w;
        if (!strcmp(words[0], "buf")) {
            Buffer *b = &buffers[many++];
            strcpy(b->name, words[1]); strcpy(b->type, words[2]);
            b->size = sizeOf(b->type); b->count = atoi(words[3]); b->out = n > 5;
            b->host = calloc(b->count, b->size);
            fill(b, words[4]);
            if ((r = cuMemAlloc(&b->dev, b->count * b->size)) || (r = cuMemcpyHtoD(b->dev, b->host, b->count * b->size))) fail("alloc", r);
        } else if (!strcmp(words[0], "stack")) {
            if ((r = cuCtxSetLimit(CU_LIMIT_STACK_SIZE, atoi(words[1])))) fail("stack", r);
        } else if (!strcmp(words[0], "launch") || !strcmp(words[0], "coop")) {
            unsigned g[3] = {1, 1, 1}, t[3] = {1, 1, 1};
            static unsigned char args[16][256];
            void *list[16];
            int n_args = 0, at = 5;
            CUfunction k;
            if ((r = cuModuleGetFunction(&k, m, words[1]))) { fprintf(res, "launch %s %d\n", words[1], r); continue; }
            sscanf(words[2], "%u,%u,%u", &g[0], &g[1], &g[2]);
            sscanf(words[3], "%u,%u,%u", &t[0], &t[1], &t[2]);
            while (at < n) {
                int size = 0;
                memset(args[n_args], 0, 256);
                pack(words, &at, args[n_args], &size);
                list[n_args] = args[n_args];
                n_args++;
            }
            unsigned shared = atoi(words[4]);
            r = words[0][0] == 'c' ? cuLaunchCooperativeKernel(k, g[0], g[1], g[2], t[0], t[1], t[2], shared, 0, list)
                                   : cuLaunchKernel(k, g[0], g[1], g[2], t[0], t[1], t[2], shared, 0, list, 0);
            if (!r) r = cuCtxSynchronize();
            fprintf(res, "launch %s %d\n", words[1], r);
            if (r == 700 || (r >= 709 && r <= 719)) broken = 1;
        }
    }
    if (!broken) {
        snprintf(base, sizeof base, "%s.bin", result);
        FILE *o = fopen(base, "wb");
        for (int i = 0; i < many; i++)
            if (buffers[i].out) {
                if ((r = cuMemcpyDtoH(buffers[i].host, buffers[i].dev, buffers[i].count * buffers[i].size))) fail("copy", r);
                fwrite(buffers[i].host, buffers[i].size, buffers[i].count, o);
            }
        fclose(o);
    }
    for (int i = 0; i < many && !broken; i++) cuMemFree(buffers[i].dev);
    if (!broken) cuModuleUnload(m);
    fprintf(res, "end 0\n");
    fclose(res);
    fflush(stdout);
    return broken;
}

int main(int argc, char **argv) {
    self = argv;
    signal(SIGALRM, late);
    signal(SIGSEGV, late);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, 0);
    for (int i = 1; i + 1 < argc; i += 2) {
        rest = argv + i + 2;
        alarm(30);
        if (run(argv[i], argv[i + 1])) again();
    }
    return 0;
}
