// tensors prints what a driver's tensor maps, the copies that use them, and the products of warpgroups do, in lines
// "name hex ...". It needs no header of CUDA. Its arguments are the sections: maps, layout, products, special, tma.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef uint8_t u8;

static void *lib;
#define CALL(name, types, args) \
	static int name types { static int (*the_call) types; if (!the_call) the_call = (int (*) types)dlsym(lib, #name); return the_call ? the_call args : -1; }
CALL(cuInit, (u32 a), (a))
CALL(cuDevicePrimaryCtxRetain, (void **a, int b), (a, b))
CALL(cuCtxSetCurrent, (void *a), (a))
CALL(cuCtxSynchronize, (void), ())
CALL(cuMemAlloc_v2, (u64 *a, u64 b), (a, b))
CALL(cuMemcpyHtoD_v2, (u64 a, const void *b, u64 c), (a, b, c))
CALL(cuMemcpyDtoH_v2, (void *a, u64 b, u64 c), (a, b, c))
CALL(cuModuleLoadDataEx, (void **a, const char *b, u32 c, int *d, void **e), (a, b, c, d, e))
CALL(cuModuleUnload, (void *a), (a))
CALL(cuModuleGetFunction, (void **a, void *b, const char *c), (a, b, c))
CALL(cuFuncSetAttribute, (void *a, int b, int c), (a, b, c))
CALL(cuLaunchKernel, (void *f, u32 a, u32 b, u32 c, u32 d, u32 e, u32 g, u32 s, void *h, void **p, void **x),
	(f, a, b, c, d, e, g, s, h, p, x))
CALL(cuTensorMapEncodeTiled, (void *m, int t, u32 r, u64 a, const u64 *d, const u64 *s, const u32 *b, const u32 *e, int i, int w, int l, int o),
	(m, t, r, a, d, s, b, e, i, w, l, o))
CALL(cuTensorMapReplaceAddress, (void *m, u64 a), (m, a))

static u32 seed;
static u32 rnd(void) { seed = seed * 1664525u + 1013904223u; return seed >> 8; }

static char text[1 << 18];
static int at;
static void put(const char *f, ...) {
	va_list l;
	va_start(l, f);
	at += vsnprintf(text + at, sizeof text - at, f, l);
	va_end(l);
}

// The number of the present case, and of the first one to run. A fault ends a context, so another process runs the rest.
static int number_, from;
static char **arguments;
static void fault(const char *name, int result) {
	char text[16];
	printf("%s run=%d\n", name, result);
	fflush(stdout);
	snprintf(text, sizeof text, "%d", number_);
	setenv("TENSORS_FROM", text, 1);
	execv("/proc/self/exe", arguments);
	exit(1);
}

// A case's name, and the kernel of the text.
static char name[256];
static void *module;
static void *load(void) {
	static char log[4096];
	int options[] = {5, 6};
	void *values[] = {log, (void *)(uintptr_t)sizeof log}, *f = NULL;
	log[0] = 0;
	int r = cuModuleLoadDataEx(&module, text, 2, options, values);
	if (r != 0) {
		printf("%s load=%d\n", name, r);
		fprintf(stderr, "%s: %s\n", name, log);
		return NULL;
	}
	cuModuleGetFunction(&f, module, "k");
	cuFuncSetAttribute(f, 8, 200 << 10);
	return f;
}

enum { SHARED = 69632, IDS = 65536 };
static u8 image[SHARED];            // the content of shared memory
static u32 first[128 * 128], as[4 * 128], results[1 << 20];
static u64 inD, firstD, aD, outD;

// product runs a product of a warpgroup: the accumulators are in results, by registers and threads.
static int product(int n, const char *types, int dregs, int aInRegisters, const char *immediates, u64 da, u64 db, u32 scale, int times) {
	if (number_++ < from) return 0;
	at = 0;
	put(".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 sm[];\n"
		".visible .entry k(.param .u64 in, .param .u64 first, .param .u64 as, .param .u64 out, .param .u64 da, .param .u64 db, .param .u32 scale, .param .u32 size) {\n"
		".reg .b32 %%d<%d>; .reg .b32 %%a<4>; .reg .b64 %%w<9>; .reg .b64 %%da, %%db; .reg .b32 %%t, %%i, %%x, %%s, %%n; .reg .pred %%p, %%q;\n"
		"mov.u32 %%t, %%tid.x; ld.param.u64 %%w0, [in]; mov.u32 %%s, sm; ld.param.u32 %%n, [size]; shl.b32 %%i, %%t, 2;\n"
		"L: cvt.u64.u32 %%w1, %%i; add.u64 %%w1, %%w1, %%w0; ld.global.b32 %%x, [%%w1]; add.u32 %%n, %%s, %%i; st.shared.b32 [%%n], %%x;\n"
		"add.u32 %%i, %%i, 512; ld.param.u32 %%n, [size]; setp.lt.u32 %%p, %%i, %%n; @%%p bra L;\n"
		"fence.proxy.async; bar.sync 0;\n"
		"ld.param.u64 %%da, [da]; ld.param.u64 %%db, [db]; shr.u32 %%x, %%s, 4; cvt.u64.u32 %%w1, %%x; add.u64 %%da, %%da, %%w1; add.u64 %%db, %%db, %%w1;\n"
		"ld.param.u32 %%x, [scale]; setp.ne.b32 %%p, %%x, 0; mul.wide.u32 %%w2, %%t, 4;\n"
		"ld.param.u64 %%w3, [first]; add.u64 %%w3, %%w3, %%w2; ld.param.u64 %%w4, [as]; add.u64 %%w4, %%w4, %%w2; ld.param.u64 %%w5, [out]; add.u64 %%w5, %%w5, %%w2;\n",
		dregs);
	for (int i = 0; i < dregs; i++) put("ld.global.b32 %%d%d, [%%w3+%d];\n", i, i * 512);
	for (int i = 0; i < 4; i++) put("ld.global.b32 %%a%d, [%%w4+%d];\n", i, i * 512);
	put("wgmma.fence.sync.aligned;\n");
	for (int j = 0; j < times; j++) {
		put("wgmma.mma_async.sync.aligned.m64n%d%s {", n, types);
		for (int i = 0; i < dregs; i++) put("%s%%d%d", i ? "," : "", i);
		put("}, %s, %%db, %%p%s;\n", aInRegisters ? "{%a0,%a1,%a2,%a3}" : "%da", immediates);
	}
	put("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
	for (int i = 0; i < dregs; i++) put("st.global.b32 [%%w5+%d], %%d%d;\n", i * 512, i);
	put("ret; }\n");
	if (getenv("TENSORS_TEXT")) fprintf(stderr, "// %s\n%s\n", name, text);
	void *f = load();
	if (!f) return 0;
	u32 size = SHARED;
	void *params[] = {&inD, &firstD, &aD, &outD, &da, &db, &scale, &size};
	cuMemcpyHtoD_v2(inD, image, sizeof image);
	cuMemcpyHtoD_v2(firstD, first, sizeof first);
	cuMemcpyHtoD_v2(aD, as, sizeof as);
	int r = cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, SHARED, NULL, params, NULL);
	if (r == 0) r = cuCtxSynchronize();
	if (r != 0) fault(name, r);
	cuMemcpyDtoH_v2(results, outD, dregs * 512);
	cuModuleUnload(module);
	return 1;
}

static u64 descriptor(u32 start, u32 leading, u32 stride, u32 base, u32 swizzle) {
	return (u64)(start >> 4 & 0x3fff) | (u64)(leading >> 4 & 0x3fff) << 16 | (u64)(stride >> 4 & 0x3fff) << 32 | (u64)(base & 7) << 49 | (u64)swizzle << 62;
}

// The bits of a small integer in a type of elements.
static u32 encode(const char *type, int v) {
	float f = v;
	u32 b;
	memcpy(&b, &f, 4);
	if (!strcmp(type, "tf32") || !strcmp(type, "f32")) return b;
	if (!strcmp(type, "bf16")) return b >> 16;
	if (type[0] == 's' || type[0] == 'u') return (u32)v & 0xff;
	u32 sign = b >> 31, exponent = b >> 23 & 0xff, fraction = b & 0x7fffff;
	int e = exponent ? (int)exponent - 127 : -1000;
	if (!strcmp(type, "f16")) return e == -1000 ? sign << 15 : sign << 15 | (u32)(e + 15) << 10 | fraction >> 13;
	if (!strcmp(type, "e4m3")) return e == -1000 ? sign << 7 : sign << 7 | (u32)(e + 7) << 3 | fraction >> 20;
	return e == -1000 ? sign << 7 : sign << 7 | (u32)(e + 15) << 2 | fraction >> 21; // e5m2
}
static int sizeOf(const char *type) { return !strcmp(type, "tf32") ? 4 : type[0] == 'f' || type[0] == 'b' ? 2 : 1; }
static void element(u8 *p, const char *type, u32 bits) { memcpy(p, &bits, sizeOf(type)); }

// ids sets the part of the number of each element.
static void ids(const char *type, int part) {
	int s = sizeOf(type);
	for (int i = 0; i < IDS / s; i++) element(image + i * s, type, encode(type, part ? i >> 8 : i & 255));
}
static int number(u32 bits, int isInteger) { float f; if (isInteger) return bits; memcpy(&f, &bits, 4); return (int)f; }
// where returns the register and thread of an element of the result of 32 bits.
static int where(int row, int column) { return ((column / 8 * 4 + row % 16 / 8 * 2 + column % 2) * 128) + row / 16 * 32 + row % 8 * 4 + column % 8 / 2; }

// layouts prints which elements a descriptor is about.
static void layouts(const char *type, int swizzle, int trans, u32 start, u32 leading, u32 stride, u32 base) {
	int s = sizeOf(type), k = 32 / s, isInteger = s == 1;
	char types[64], immediates[64];
	static int numbers[2][64 * 64];
	snprintf(types, sizeof types, "k%d.%s.%s.%s", k, isInteger ? "s32" : "f32", type, type);
	for (int isA = 0; isA < 2; isA++) {
		int n = isA ? k : 64;
		if (s == 2) snprintf(immediates, sizeof immediates, isA ? ", 1, 1, %d, 0" : ", 1, 1, %d", trans);
		else snprintf(immediates, sizeof immediates, isInteger ? "" : ", 1, 1");
		snprintf(name, sizeof name, "layout.%s.%s.%d.%d.%u.%u.%u.%u", isA ? "a" : "b", type, swizzle, trans, start, leading, stride, base);
		for (int part = 0; part < 2; part++) {
			memset(image, 0, sizeof image);
			memset(as, 0, sizeof as);
			ids(type, part);
			for (int i = 0; i < k; i++) element(image + IDS + i * s / 16 * 128 + i / 8 * 256 + i % 8 * 16 + i * s % 16, type, encode(type, 1));
			for (int r = 0; r < 4; r++) for (int t = 0; t < 128; t++) for (int j = 0; j < 4 / s; j++) {
				int row = t / 32 * 16 + t % 32 / 4 + r % 2 * 8, column = r / 2 * 4 * (4 / s) + t % 4 * (4 / s) + j;
				if (row == column) as[r * 128 + t] |= encode(type, 1) << 8 * s * j;
			}
			u64 d = descriptor(start, leading, stride, base, swizzle);
			if (!product(n, types, n / 2, !isA, immediates, isA ? d : 0, isA ? descriptor(IDS, 128, 256, 0, 0) : d, 0, 1)) goto next;
			for (int r = 0; r < (isA ? 64 : k); r++) for (int c = 0; c < n; c++) numbers[part][r * n + c] = number(results[where(r, c)], isInteger);
		}
		printf("%s", name);
		for (int i = 0; i < (isA ? 64 : k) * n; i++) printf(" %x", (numbers[0][i] + numbers[1][i] * 256) * s);
		printf("\n");
	next:;
	}
}

static u32 hash(const void *p, int n) {
	const u8 *b = p;
	u32 h = 2166136261u;
	for (int i = 0; i < n; i++) h = (h ^ b[i]) * 16777619u;
	return h;
}

// fill sets the operands to small integers, or to any bits.
static void fill(const char *a, const char *b, const char *d, int any) {
	int small = !strcmp(d, "f16") ? 5 : 9, start = 4096; // those of b are behind those of a
	for (int half = 0; half < 2; half++) {
		const char *type = half ? b : a;
		int s = sizeOf(type);
		for (int i = half ? start : 0; i < (half ? SHARED : start); i += s) {
			int v = (int)(rnd() % small) - small / 2;
			if (type[0] == 's' || type[0] == 'u' || !strcmp(type, "b1")) image[i] = rnd(), image[i + s - 1] = rnd();
			else element(image + i, type, any ? rnd() << 8 ^ rnd() : encode(type, v));
		}
	}
	for (int i = 0; i < 4 * 128; i++) {
		u32 word = 0;
		int s = sizeOf(a);
		for (int j = 0; j < 4; j += s) word |= (any ? (rnd() << 8 ^ rnd()) & (s == 4 ? -1u : (1u << 8 * s) - 1) : encode(a, (int)(rnd() % small) - small / 2)) << 8 * j;
		as[i] = a[0] == 's' || a[0] == 'u' || !strcmp(a, "b1") ? rnd() << 8 ^ rnd() : word;
	}
	for (int i = 0; i < 128 * 128; i++) {
		u32 v = (u32)(int)(rnd() % 9) - 4;
		first[i] = !strcmp(d, "s32") ? (any ? rnd() << 8 ^ rnd() : v) : !strcmp(d, "f32") ? encode("f32", (int)v) : encode("f16", (int)v) | encode("f16", -(int)v) << 16;
	}
}

// one prints the hash of a product, or all of it.
static void one(int n, const char *d, const char *a, const char *b, const char *suffix, int inRegisters, const char *immediates, u32 scale, int times, int any, int sat) {
	int s = sizeOf(a), k = !strcmp(a, "b1") ? 256 : 32 / s, dregs = !strcmp(d, "f16") ? n / 4 : n / 2;
	char types[64];
	snprintf(types, sizeof types, "k%d%s.%s.%s.%s%s", k, sat ? ".satfinite" : "", d, a, b, suffix);
	snprintf(name, sizeof name, "product.n%d.%s.%s.%d.%u.%d.%d", n, types, inRegisters ? "r" : "s", (int)strlen(immediates), scale, times, any);
	for (const char *p = immediates; *p; p++) if (*p != ' ') { size_t l = strlen(name); name[l] = *p; name[l + 1] = 0; }
	seed = 1;
	fill(a, b, d, any);
	if (!product(n, types, dregs, inRegisters, immediates, descriptor(0, 128, 256, 0, 0), descriptor(4096, 128, 256, 0, 0), scale, times)) return;
	printf("%s %x", name, hash(results, dregs * 512));
	if (any) for (int i = 0; i < dregs * 128; i++) printf(" %x", results[i]);
	printf("\n");
}

static void products(void) {
	static const int integers[] = {8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 0};
	static const char *tiny[] = {"e4m3", "e5m2"}, *bytes[] = {"s8", "u8"};
	for (int n = 8; n <= 256; n += 8) {
		one(n, "f32", "f16", "f16", "", 0, ", 1, 1, 0, 0", 1, 1, 0, 0);
		one(n, "f16", "f16", "f16", "", 0, ", 1, 1, 0, 0", 1, 1, 0, 0);
		one(n, "f32", "bf16", "bf16", "", 0, ", 1, 1, 0, 0", 1, 1, 0, 0);
		one(n, "f32", "tf32", "tf32", "", 0, ", 1, 1", 1, 1, 0, 0);
		one(n, n % 16 ? "f16" : "f32", tiny[n / 8 % 2], tiny[n / 16 % 2], "", n / 32 % 2, ", 1, 1", 1, 1, 0, 0);
	}
	for (int i = 0; integers[i]; i++) {
		one(integers[i], "s32", bytes[i % 2], bytes[i / 2 % 2], "", 0, "", 1, 1, 0, 0);
		one(integers[i], "s32", "b1", "b1", ".and.popc", i % 2, "", 1, 1, 0, 0);
	}
	for (int n = 8; n <= 256; n *= 2) {
		one(n, "f32", "f16", "f16", "", 1, ", 1, 1, 0", 1, 1, 0, 0);
		one(n, "f16", "f16", "f16", "", 1, ", -1, 1, 0", 1, 2, 0, 0);
		one(n, "f32", "bf16", "bf16", "", 1, ", 1, -1, 0", 1, 2, 0, 0);
		one(n, "f32", "tf32", "tf32", "", 1, ", -1, -1", 1, 1, 0, 0);
		one(n, "f32", "e4m3", "e5m2", "", 1, ", -1, 1", 0, 1, 0, 0);
		one(n, "f32", "e5m2", "e4m3", "", 0, ", 1, -1", 0, 1, 0, 0);
		for (int i = 0; i < 4; i++) one(n, "s32", bytes[i % 2], bytes[i / 2], "", 1, "", i % 2, 3, 1, 0), one(n, "s32", bytes[i % 2], bytes[i / 2], "", 0, "", 1, 3, 1, 1);
	}
	// These must not be accepted.
	one(12, "f32", "f16", "f16", "", 0, ", 1, 1, 0, 0", 1, 1, 0, 0);
	one(40, "s32", "s8", "s8", "", 0, "", 1, 1, 0, 0);
	one(8, "f16", "bf16", "bf16", "", 0, ", 1, 1, 0, 0", 1, 1, 0, 0);
	one(8, "f32", "f16", "bf16", "", 0, ", 1, 1, 0, 0", 1, 1, 0, 0);
	one(8, "f32", "f16", "f16", "", 0, ", 0, 1, 0, 0", 1, 1, 0, 0);
	one(8, "f32", "f16", "f16", "", 0, ", 2, 1, 0, 0", 1, 1, 0, 0);
	one(8, "f32", "f16", "f16", "", 0, ", 1, 1, 2, 0", 1, 1, 0, 0);
	one(8, "f32", "f16", "f16", "", 0, ", 1, 1, 0", 1, 1, 0, 0);
	one(8, "f32", "f16", "f16", "", 1, ", 1, 1, 0, 0", 1, 1, 0, 0);
	one(8, "f32", "tf32", "tf32", "", 0, ", 1, 1, 0, 0", 1, 1, 0, 0);
	one(8, "s32", "s8", "s8", "", 0, ", 1, 1", 1, 1, 0, 0);
	one(8, "s32", "b1", "b1", ".xor.popc", 0, "", 1, 1, 0, 0);
	one(8, "f32", "e4m3", "e4m3", "", 0, "", 1, 1, 0, 0);
}

static void special(void) { // any bits: infinities, NaNs, and sums that are rounded
	for (int n = 8; n <= 32; n += 24) for (int r = 0; r < 2; r++) {
		one(n, "f32", "f16", "f16", "", r, r ? ", 1, 1, 0" : ", 1, 1, 0, 0", 1, 1, 1, 0);
		one(n, "f16", "f16", "f16", "", r, r ? ", 1, 1, 0" : ", 1, 1, 0, 0", 1, 1, 1, 0);
		one(n, "f32", "f16", "f16", "", r, r ? ", -1, 1, 0" : ", -1, 1, 0, 0", 0, 1, 1, 0);
		one(n, "f32", "bf16", "bf16", "", r, r ? ", 1, 1, 0" : ", 1, 1, 0, 0", 1, 1, 1, 0);
		one(n, "f32", "tf32", "tf32", "", r, ", 1, 1", 1, 1, 1, 0);
		one(n, "f32", "e4m3", "e4m3", "", r, ", 1, 1", 1, 1, 1, 0);
		one(n, "f32", "e5m2", "e5m2", "", r, ", 1, -1", 1, 1, 1, 0);
		one(n, "f16", "e4m3", "e5m2", "", r, ", 1, 1", 1, 1, 1, 0);
	}
}

static void layout(void) {
	static const char *types[] = {"f16", "tf32", "u8"};
	static const u32 starts[] = {0, 16, 32, 64, 96, 128, 256, 512, 1024, 1152}, strides[][2] = {{128, 256}, {256, 128}, {1024, 2048}, {4096, 512}, {2048, 1024}, {16, 1024}, {0, 1024}};
	for (int t = 0; t < 3; t++) for (int s = 0; s < 4; s++) for (int trans = 0; trans < (t == 0 ? 2 : 1); trans++) {
		for (int i = 0; i < 7; i++) layouts(types[t], s, trans, 0, strides[i][0], strides[i][1], 0);
		for (int i = 1; i < (t == 0 ? 10 : 4); i++) layouts(types[t], s, trans, starts[i], 4096, 1024, 0);
		for (int i = 1; i < (t == 0 ? 8 : 2); i += 3) layouts(types[t], s, trans, 128 * i, 4096, 1024, i);
	}
}

typedef struct {
	int type, rank;
	u64 dims[5], strides[4];
	u32 box[5], steps[5];
	int interleave, swizzle, l2, fill;
} Map;

static struct { u8 bytes[128]; } maps[4] __attribute__((aligned(128)));
static u64 tensorD;
enum { TENSOR = 1 << 20 };

static int encodeMap(Map *m, u64 address, void *to) {
	return cuTensorMapEncodeTiled(to, m->type, m->rank, address, m->dims, m->strides, m->box, m->steps, m->interleave, m->swizzle, m->l2, m->fill);
}
static const int sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1};

static Map tensor(int type, int rank, int width, int box) {
	Map m = {.type = type, .rank = rank};
	u64 stride = ((u64)width * sizes[type] + 15) / 16 * 16;
	for (int i = 0; i < 5; i++) {
		m.dims[i] = i == 0 ? width : 6;
		m.box[i] = i == 0 ? box : i == 1 ? 8 : 2;
		m.steps[i] = 1;
		if (i < 4) m.strides[i] = stride, stride *= 6;
	}
	return m;
}

static void errors(void) {
#define TRY(label, change) { Map m = tensor(6, 3, 64, 32); u64 a = tensorD; void *to = maps; change; printf("maps.%s %d\n", label, encodeMap(&m, a, to)); }
	TRY("good", )
	for (int i = -1; i <= 20; i++) { char l[32]; snprintf(l, sizeof l, "type%d", i); TRY(l, m.type = i; m.box[0] = 16) }
	for (int i = 0; i <= 6; i++) { char l[32]; snprintf(l, sizeof l, "rank%d", i); TRY(l, m.rank = i) }
	for (int i = -1; i <= 4; i++) { char l[32]; snprintf(l, sizeof l, "interleave%d", i); TRY(l, m.interleave = i) snprintf(l, sizeof l, "interleave%d.swizzle32", i); TRY(l, m.interleave = i; m.swizzle = 1; m.box[0] = 16) }
	for (int i = 0; i <= 4; i++) { char l[32]; snprintf(l, sizeof l, "interleave.rank%d", i); TRY(l, m.interleave = 1; m.rank = i) }
	for (int i = -1; i <= 8; i++) { char l[32]; snprintf(l, sizeof l, "swizzle%d", i); TRY(l, m.swizzle = i; m.box[0] = 16) }
	for (int i = -1; i <= 4; i++) { char l[32]; snprintf(l, sizeof l, "l2.%d", i); TRY(l, m.l2 = i) }
	for (int i = -1; i <= 2; i++) { char l[32]; snprintf(l, sizeof l, "fill%d", i); TRY(l, m.fill = i) snprintf(l, sizeof l, "fill%d.integers", i); TRY(l, m.type = 3; m.fill = i) }
	static const int someBoxes[] = {0, 1, 4, 7, 8, 9, 16, 17, 24, 32, 33, 48, 64, 65, 128, 256, 257};
	for (int s = 0; s < 4; s++) for (int i = 0; i < 17; i++) { char l[32]; snprintf(l, sizeof l, "box.%d.%d", s, someBoxes[i]); TRY(l, m.swizzle = s; m.box[0] = someBoxes[i]) }
	for (int i = 0; i < 10; i++) { char l[32]; snprintf(l, sizeof l, "step%d", i); TRY(l, m.steps[1] = i) snprintf(l, sizeof l, "step.inner%d", i); TRY(l, m.steps[0] = i) }
	TRY("box1.0", m.box[1] = 0) TRY("box1.257", m.box[1] = 257) TRY("box1.256", m.box[1] = 256)
	TRY("box.step", m.box[0] = 8; m.steps[0] = 2) TRY("box.large", m.box[0] = 256; m.box[1] = 256; m.box[2] = 256)
	TRY("dim.0", m.dims[0] = 0) TRY("dim1.0", m.dims[1] = 0) TRY("dim.2^32", m.dims[2] = 1ull << 32) TRY("dim.2^32+1", m.dims[2] = (1ull << 32) + 1)
	TRY("dim.unused", m.rank = 2; m.dims[2] = 0; m.box[2] = 0; m.steps[2] = 0)
	TRY("stride.0", m.strides[0] = 0) TRY("stride.8", m.strides[0] = 136) TRY("stride.small", m.strides[0] = 16) TRY("stride1.small", m.strides[1] = 16)
	TRY("stride.2^40", m.strides[1] = 1ull << 40) TRY("stride.2^40-16", m.strides[1] = (1ull << 40) - 16) TRY("stride.16.interleave32", m.interleave = 2; m.strides[0] = 144; m.swizzle = 1; m.box[0] = 16)
	TRY("address.8", a += 8) TRY("address.16", a += 16) TRY("address.16.interleave32", m.interleave = 2; a += 16; m.swizzle = 1; m.box[0] = 16) TRY("address.0", a = 0) TRY("address.any", a = 0x123450)
	TRY("address.host", a = (u64)(uintptr_t)maps & ~15ull) TRY("address.high", a = 1ull << 57) TRY("address.2^63", a = 1ull << 63)
	TRY("map.32", to = maps[0].bytes + 32) TRY("map.64", to = maps[0].bytes + 64) TRY("map.nil", to = NULL)
	TRY("width.large", m.dims[0] = 1ull << 31; m.strides[0] = 1ull << 33)
	for (int type = 13; type <= 15; type++) for (int s = 0; s < 5; s++) for (int b = 32; b <= 256; b *= 2) { char l[64]; snprintf(l, sizeof l, "narrow%d.%d.%d", type, s, b); TRY(l, m.type = type; m.swizzle = s; m.box[0] = b; m.dims[0] = 256) }
	Map m = tensor(6, 2, 64, 32);
	encodeMap(&m, tensorD, maps);
	printf("maps.bytes");
	for (int i = 0; i < 128; i++) printf(" %x", maps[0].bytes[i]);
	printf("\nmaps.replace %d\n", cuTensorMapReplaceAddress(maps, tensorD + 4096));
	printf("maps.replace.8 %d\n", cuTensorMapReplaceAddress(maps, tensorD + 8));
	printf("maps.replace.0 %d\n", cuTensorMapReplaceAddress(maps, 0));
	memset(maps, 0, sizeof maps);
	printf("maps.replace.zeros %d\n", cuTensorMapReplaceAddress(maps, tensorD));
}

static u32 before[TENSOR / 4];

// copy runs one instruction about a map, and prints shared memory after a load, or the tensor after a store.
static void copyAt(const char *label, const char *how, Map *m, const int *c, int values, u32 most) {
	if (number_++ < from) return;
	int load_ = !strncmp(how, "load", 4), box = sizes[m->type], blocks = 1;
	for (int i = 0; i < m->rank; i++) box *= i ? (m->box[i] + m->steps[i] - 1) / m->steps[i] : m->box[i]; // the first step does not count
	snprintf(name, sizeof name, "tma.%s.%s.t%d.r%d.w%d.f%d", label, how, m->type, m->rank, m->swizzle, m->fill);
	for (int i = 0; i < m->rank; i++) { char part[32]; snprintf(part, sizeof part, ".%d", c[i]); strcat(name, part); }
	int r = encodeMap(m, tensorD, maps);
	if (r) { printf("%s encode=%d\n", name, r); return; }
	char coords[64] = "";
	for (int i = 0; i < m->rank; i++) { char part[16]; snprintf(part, sizeof part, "%s%%c%d", i ? "," : "", i); strcat(coords, part); }
	if (!strcmp(how, "load.multicast")) blocks = 2;
	at = 0;
	put(".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 sm[];\n.shared .align 8 .b64 bar;\n"
		".visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 c0, .param .u32 c1, .param .u32 c2, .param .u32 c3, .param .u32 c4, .param .u32 bytes, .param .u32 size)\n%s{\n"
		".reg .b64 %%m, %%o, %%w; .reg .b32 %%c<5>, %%t, %%i, %%n, %%s, %%b, %%x, %%r, %%y; .reg .pred %%p, %%q, %%z; .reg .b16 %%h;\n"
		"mov.b64 %%m, map; cvta.param.u64 %%m, %%m; ld.param.u64 %%o, [out]; mov.u32 %%t, %%tid.x; mov.u32 %%s, sm; ld.param.u32 %%n, [size]; mov.u32 %%b, bar;\n",
		blocks > 1 ? ".reqnctapercluster 2\n" : "");
	for (int i = 0; i < 5; i++) put("ld.param.u32 %%c%d, [c%d];\n", i, i);
	put("mov.u32 %%y, %%ctaid.x; mul.lo.u32 %%y, %%y, %%n; cvt.u64.u32 %%w, %%y; add.u64 %%o, %%o, %%w;\n"
		"setp.eq.u32 %%q, %%t, 0; shl.b32 %%i, %%t, 2;\n"
		"L: add.u32 %%x, %%s, %%i; %s add.u32 %%i, %%i, 128; setp.lt.u32 %%p, %%i, %%n; @%%p bra L;\n",
		load_ ? "st.shared.b32 [%x], 0xa5a5a5a5;" : "cvt.u64.u32 %w, %i; add.u64 %w, %w, %o; ld.global.b32 %r, [%w]; st.shared.b32 [%x], %r;");
	put("@!%%q bra B; mbarrier.init.shared.b64 [%%b], 1; fence.mbarrier_init.release.cluster; B: fence.proxy.async; bar.sync 0;\n");
	if (blocks > 1) put("barrier.cluster.arrive; barrier.cluster.wait;\n");
	if (load_) {
		put("@!%%q bra C; ld.param.u32 %%x, [bytes]; mbarrier.arrive.expect_tx.shared.b64 _, [%%b], %%x;\n");
		if (blocks > 1) put("mov.u16 %%h, 3; mov.u32 %%y, %%ctaid.x; setp.eq.u32 %%z, %%y, 0; @%%z cp.async.bulk.tensor.%dd.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%%s], [%%m, {%s}], [%%b], %%h;\n", m->rank, coords);
		else put("cp.async.bulk.tensor.%dd.shared::cluster.global%s.mbarrier::complete_tx::bytes [%%s], [%%m, {%s}], [%%b];\n", m->rank, strcmp(how, "load") ? ".tile" : "", coords);
		put("C: mov.u32 %%i, 0;\nW: mbarrier.test_wait.parity.shared.b64 %%p, [%%b], 0; nanosleep.u32 1000; add.u32 %%i, %%i, 1; setp.gt.u32 %%z, %%i, 100000; or.pred %%z, %%z, %%p; @!%%z bra W;\n"
			"@!%%p bra END; shl.b32 %%i, %%t, 2;\n"
			"D: add.u32 %%x, %%s, %%i; ld.shared.b32 %%r, [%%x]; cvt.u64.u32 %%w, %%i; add.u64 %%w, %%w, %%o; st.global.b32 [%%w], %%r; add.u32 %%i, %%i, 128; setp.lt.u32 %%p, %%i, %%n; @%%p bra D;\n");
		if (blocks > 1) put("barrier.cluster.arrive; barrier.cluster.wait;\n");
	} else {
		if (!strcmp(how, "store")) put("@%%q cp.async.bulk.tensor.%dd.global.shared::cta.bulk_group [%%m, {%s}], [%%s];\n", m->rank, coords);
		else put("@%%q cp.reduce.async.bulk.tensor.%dd.global.shared::cta.%s.bulk_group [%%m, {%s}], [%%s];\n", m->rank, how, coords);
		put("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n");
	}
	put("END: ret; }\n");
	if (getenv("TENSORS_TEXT")) fprintf(stderr, "// %s\n%s\n", name, text);
	void *f = load();
	if (!f) return;
	u32 size = (box + 127) / 128 * 128 + 256, bytes = box;
	seed = 7;
	for (int i = 0; i < TENSOR / 4; i++) before[i] = values ? rnd() << 16 ^ rnd() : (u32)i;
	cuMemcpyHtoD_v2(tensorD, before, TENSOR);
	for (u32 i = 0; i < sizeof results / 4; i++) results[i] = values ? rnd() << 16 ^ rnd() : 0x100000 + i;
	cuMemcpyHtoD_v2(outD, results, sizeof results);
	void *params[] = {maps, &outD, (void *)&c[0], (void *)&c[1], (void *)&c[2], (void *)&c[3], (void *)&c[4], &bytes, &size};
	r = cuLaunchKernel(f, blocks, 1, 1, 32, 1, 1, size, NULL, params, NULL);
	if (r == 0) r = cuCtxSynchronize();
	if (r) fault(name, r);
	u32 *got = results;
	if (load_) cuMemcpyDtoH_v2(results, outD, size *= blocks);
	else cuMemcpyDtoH_v2(results, tensorD, size = TENSOR);
	printf("%s %x", name, hash(got, size));
	if (load_) { for (u32 i = 0; i < size / 4 && i < most; i++) printf(" %x", got[i]); }
	else for (u32 i = 0; i < size / 4 && most; i++) if (got[i] != before[i]) printf(" %x:%x", i, got[i]), most--;
	printf("\n");
	cuModuleUnload(module);
}

// copy is copyAt for coordinates of which the first one counts parts of 16 bytes.
static void copy(const char *label, const char *how, Map *m, const int *c, int values, u32 most) {
	int at[5] = {c[0] * 16 / sizes[m->type], c[1], c[2], c[3], c[4]};
	copyAt(label, how, m, at, values, most);
}

static void tma(void) {
	static const int origins[][5] = {{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {-1, -1, -1, -1, -1}, {6, 4, 5, 5, 5}, {-25, 0, 0, 0, 0}, {0, 100, 0, 0, 0}, {-1, 0, 0, 0, 0}, {0, -1, 0, 0, 0}, {0, 0, -1, 0, 0}, {100, 0, 0, 0, 0}};
	static const int types[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	for (int rank = 1; rank <= 5; rank++) for (int o = 0; o < 10; o++) for (int w = 0; w < 4; w++) {
		if (w && o > 3) continue;
		Map m = tensor(6, rank, 64, w == 1 ? 16 : w == 2 ? 32 : 64);
		m.swizzle = w;
		copy("ranks", "load", &m, origins[o], 0, 300);
		copy("ranks", "store", &m, origins[o], 0, 300);
	}
	for (int c = -8; c <= 8; c += c == -1 || c == 0 ? 1 : 3) for (int t = 0; t < 8; t++) { // coordinates of any elements
		int at[5] = {c, 0, 0, 0, 0};
		Map m = tensor(t, 2, 64, 16);
		copyAt("unaligned", "load", &m, at, 0, 100);
	}
	for (int t = 0; t < 13; t++) for (int fill = 0; fill < 2; fill++) {
		Map m = tensor(types[t], 2, 100, 16);
		m.fill = fill;
		copy("types", "load", &m, origins[3], 1, 2000);
		m = tensor(types[t], 2, 100, 16);
		copy("inside", "load", &m, origins[1], 1, 2000);
		if (fill == 0) copy("types", "store", &m, origins[1], 1, 2000);
	}
	for (int w = 0; w < 4; w++) { // boxes narrower than the swizzle
		Map m = tensor(6, 3, 64, 8);
		m.swizzle = w;
		copy("narrow", "load.tile", &m, origins[0], 0, 1000);
		copy("narrow", "store", &m, origins[0], 0, 1000);
		m = tensor(6, 2, 64, 24);
		m.swizzle = w;
		copy("odd", "load", &m, origins[0], 0, 1000);
	}
	for (int s = 2; s <= 8; s++) {
		char steps[16], inner[16], swizzled[16];
		snprintf(steps, sizeof steps, "steps%d", s), snprintf(inner, sizeof inner, "inner%d", s), snprintf(swizzled, sizeof swizzled, "swizzled%d", s);
		Map m = tensor(6, 3, 64, 32);
		m.steps[1] = s;
		copy(steps, "load", &m, origins[s % 3], 0, 1000);
		copy(steps, "store", &m, origins[s % 3], 0, 1000);
		m = tensor(2, 2, 64, 32);
		m.steps[0] = s;
		copy(inner, "load", &m, origins[s % 3], 0, 1000);
		copy(inner, "store", &m, origins[s % 3], 0, 1000);
		m.swizzle = 1 + s % 3;
		m.box[0] = 8;
		copy(swizzled, "load", &m, origins[s % 3], 0, 1000);
	}
	static const char *ops[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
	for (int o = 0; o < 8; o++) for (int t = 0; t < 13; t++) {
		Map m = tensor(types[t], 2, 100, 16);
		copy("reduce", ops[o], &m, origins[1], 1, 2000);
	}
	Map m = tensor(6, 2, 64, 64);
	m.swizzle = 3;
	copy("cluster", "load.multicast", &m, origins[1], 0, 2000);
	m = tensor(0, 2, 256, 256);
	m.box[1] = 128;
	m.dims[1] = 200;
	copy("large", "load", &m, origins[2], 0, 0);
}

int main(int argc, char **argv) { // with one section
	arguments = argv;
	from = getenv("TENSORS_FROM") ? atoi(getenv("TENSORS_FROM")) : 0;
	setvbuf(stdout, NULL, _IOLBF, 1 << 16);
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib) { fprintf(stderr, "%s\n", dlerror()); return 1; }
	void *context;
	int r = cuInit(0);
	if (r == 0) r = cuDevicePrimaryCtxRetain(&context, 0);
	if (r == 0) r = cuCtxSetCurrent(context);
	if (r == 0) r = cuMemAlloc_v2(&inD, sizeof image);
	if (r == 0) r = cuMemAlloc_v2(&firstD, sizeof first);
	if (r == 0) r = cuMemAlloc_v2(&aD, sizeof as);
	if (r == 0) r = cuMemAlloc_v2(&outD, sizeof results);
	if (r == 0) r = cuMemAlloc_v2(&tensorD, TENSOR);
	if (r) { fprintf(stderr, "result %d\n", r); return 1; }
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "maps")) errors();
		if (!strcmp(argv[i], "layout")) layout();
		if (!strcmp(argv[i], "products")) products();
		if (!strcmp(argv[i], "special")) special();
		if (!strcmp(argv[i], "tma")) tma();
	}
	return 0;
}
