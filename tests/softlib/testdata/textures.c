// probe prints what a driver's textures, surfaces and arrays do, in lines "name hex ...". It needs no header of CUDA.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef uint32_t u32;

typedef struct { u64 width, height, depth; u32 format, channels, flags, pad; } Desc3;
typedef struct { u64 width, height; u32 format, channels; } Desc;
typedef struct { u32 type, pad; union { u64 array; struct { u64 ptr; u32 format, channels; u64 a, b, c; } mem; char r[128]; } u; u32 flags, pad2; } Res;
typedef struct { u32 address[3], filter, flags, aniso, mipfilter; float bias, min, max, border[4]; u32 reserved[12]; } Tex;
typedef struct { u32 format, pad; u64 width, height, depth; u32 first, last, firstLayer, lastLayer, reserved[16]; } View;
typedef struct { u64 x, y, z, lod; u32 type, pad; void *host; u64 dev, array, reserved, pitch, height; } End;
typedef struct { End src, dst; u64 width, height, depth; } Copy;

static void *lib;
#define CALL(name, types, args) \
	static int name types { static int (*the_call) types; if (!the_call) the_call = (int (*) types)dlsym(lib, #name); return the_call ? the_call args : -1; }
CALL(cuInit, (u32 a), (a))
CALL(cuDeviceGet, (int *a, int b), (a, b))
CALL(cuDeviceGetAttribute, (int *a, int b, int c), (a, b, c))
CALL(cuDevicePrimaryCtxRetain, (void **a, int b), (a, b))
CALL(cuCtxSetCurrent, (void *a), (a))
CALL(cuCtxSynchronize, (void), ())
CALL(cuMemAlloc_v2, (u64 *a, u64 b), (a, b))
CALL(cuMemFree_v2, (u64 a), (a))
CALL(cuMemGetInfo_v2, (u64 *a, u64 *b), (a, b))
CALL(cuMemcpyHtoD_v2, (u64 a, const void *b, u64 c), (a, b, c))
CALL(cuMemcpyDtoH_v2, (void *a, u64 b, u64 c), (a, b, c))
CALL(cuMemcpy3D_v2, (Copy *a), (a))
CALL(cuMemcpyHtoA_v2, (u64 a, u64 b, const void *c, u64 d), (a, b, c, d))
CALL(cuMemcpyAtoH_v2, (void *a, u64 b, u64 c, u64 d), (a, b, c, d))
CALL(cuMemcpyAtoD_v2, (u64 a, u64 b, u64 c, u64 d), (a, b, c, d))
CALL(cuMemcpyDtoA_v2, (u64 a, u64 b, u64 c, u64 d), (a, b, c, d))
CALL(cuMemcpyAtoA_v2, (u64 a, u64 b, u64 c, u64 d, u64 e), (a, b, c, d, e))
CALL(cuArrayCreate_v2, (u64 *a, Desc *b), (a, b))
CALL(cuArray3DCreate_v2, (u64 *a, Desc3 *b), (a, b))
CALL(cuArrayGetDescriptor_v2, (Desc *a, u64 b), (a, b))
CALL(cuArray3DGetDescriptor_v2, (Desc3 *a, u64 b), (a, b))
CALL(cuArrayDestroy, (u64 a), (a))
CALL(cuTexObjectCreate, (u64 *a, Res *b, Tex *c, View *d), (a, b, c, d))
CALL(cuTexObjectDestroy, (u64 a), (a))
CALL(cuTexObjectGetResourceDesc, (Res *a, u64 b), (a, b))
CALL(cuTexObjectGetTextureDesc, (Tex *a, u64 b), (a, b))
CALL(cuTexObjectGetResourceViewDesc, (View *a, u64 b), (a, b))
CALL(cuSurfObjectCreate, (u64 *a, Res *b), (a, b))
CALL(cuSurfObjectDestroy, (u64 a), (a))
CALL(cuSurfObjectGetResourceDesc, (Res *a, u64 b), (a, b))
CALL(cuModuleLoadDataEx, (void **a, const char *b, u32 c, int *d, void **e), (a, b, c, d, e))
CALL(cuModuleGetFunction, (void **a, void *b, const char *c), (a, b, c))
CALL(cuLaunchKernel, (void *f, u32 a, u32 b, u32 c, u32 d, u32 e, u32 g, u32 s, void *h, void **p, void **x),
	(f, a, b, c, d, e, g, s, h, p, x))

enum { MOST = 4096 };
static u64 in, out;          // memory of the device
static u32 results[MOST * 4];
static float coords[MOST * 4];
static int n;                // how many coordinates there are

static u32 seed;
static u32 rnd(void) { seed = seed * 1664525u + 1013904223u; return seed >> 8; }
static u32 bits(float f) { u32 b; memcpy(&b, &f, 4); return b; }
static float unbits(u32 b) { float f; memcpy(&f, &b, 4); return f; }

// load returns the kernel k of a text, or NULL, and prints the result.
static void *load(const char *name, const char *body) {
	static char text[8192];
	static char log[2048];
	snprintf(text, sizeof text,
		".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 h, .param .u64 in, .param .u64 out, .param .u32 n) {\n"
		".reg .b32 %%i<9>; .reg .f32 %%f<9>; .reg .b32 %%x<9>; .reg .b64 %%h, %%a, %%b, %%o, %%w<5>; .reg .pred %%p; .reg .b32 %%v<9>;\n.reg .b16 %%q<5>;"
		"mov.u32 %%i0, %%ctaid.x; mov.u32 %%i1, %%ntid.x; mov.u32 %%i2, %%tid.x; mad.lo.s32 %%i0, %%i0, %%i1, %%i2;\n"
		"ld.param.u32 %%i3, [n]; setp.ge.u32 %%p, %%i0, %%i3; @%%p ret;\n"
		"ld.param.u64 %%h, [h]; ld.param.u64 %%a, [in]; ld.param.u64 %%b, [out];\n"
		"mul.wide.u32 %%o, %%i0, 16; add.u64 %%a, %%a, %%o; add.u64 %%b, %%b, %%o;\n"
		"ld.global.v4.b32 {%%x0, %%x1, %%x2, %%x3}, [%%a];\n"
		"mov.b32 %%f0, %%x0; mov.b32 %%f1, %%x1; mov.b32 %%f2, %%x2; mov.b32 %%v0, 0; mov.b32 %%v1, 0; mov.b32 %%v2, 0; mov.b32 %%v3, 0;\n"
		"%s\nst.global.v4.b32 [%%b], {%%v0, %%v1, %%v2, %%v3};\nret; }\n", body);
	void *m = NULL, *f = NULL;
	int options[2] = {5, 6};
	void *values[2] = {log, (void *)sizeof log};
	log[0] = 0;
	int r = cuModuleLoadDataEx(&m, text, 2, options, values);
	if (r == 0) r = cuModuleGetFunction(&f, m, "k");
	printf("load %s %d\n", name, r);
	if (r) fprintf(stderr, "%s: %s\n%s\n", name, log, body);
	return r ? NULL : f;
}

static void *texKernel(const char *geom, const char *t, const char *c) {
	static struct { char name[64]; void *f; } known[64];
	static int count;
	char name[64], body[512], at[128];
	snprintf(name, sizeof name, "tex.%s.v4.%s.%s", geom, t, c);
	for (int i = 0; i < count; i++)
		if (!strcmp(known[i].name, name)) return known[i].f;
	char k = c[0] == 'f' ? 'f' : 'x';
	if (!strcmp(geom, "1d")) snprintf(at, sizeof at, "{%%%c0}", k);
	if (!strcmp(geom, "2d")) snprintf(at, sizeof at, "{%%%c0, %%%c1}", k, k);
	if (!strcmp(geom, "3d")) snprintf(at, sizeof at, "{%%%c0, %%%c1, %%%c2, %%%c2}", k, k, k, k);
	if (!strcmp(geom, "a1d")) snprintf(at, sizeof at, "{%%x3, %%%c0}", k);
	if (!strcmp(geom, "a2d")) snprintf(at, sizeof at, "{%%x3, %%%c0, %%%c1, %%%c1}", k, k, k);
	snprintf(body, sizeof body, "%s {%%v0, %%v1, %%v2, %%v3}, [%%h, %s];", name, at);
	strcpy(known[count].name, name);
	return known[count++].f = load(name, body);
}

static int launch(void *f, u64 handle) {
	u32 count = n;
	void *args[] = {&handle, &in, &out, &count};
	if (!f) return -2;
	memset(results, 0xee, sizeof results);
	cuMemcpyHtoD_v2(out, results, 16ul * n);
	cuMemcpyHtoD_v2(in, coords, 16ul * n);
	int r = cuLaunchKernel(f, (n + 63) / 64, 1, 1, 64, 1, 1, 0, NULL, args, NULL);
	if (r == 0) r = cuCtxSynchronize();
	if (r == 0) r = cuMemcpyDtoH_v2(results, out, 16ul * n);
	return r;
}

// show prints the results of a kernel: so many of the four words of each thread.
static void show(const char *name, void *f, u64 handle, int words) {
	int r = launch(f, handle);
	printf("%s", name);
	if (r) { printf(" error %d\n", r); return; }
	for (int i = 0; i < n; i++) {
		putchar(' ');
		for (int j = 0; j < words; j++) printf(j ? ".%x" : "%x", results[4 * i + j]);
	}
	putchar('\n');
}

static const struct { const char *name; u32 code, size; char kind; } formats[] = {
	{"u8", 1, 1, 'u'}, {"u16", 2, 2, 'u'}, {"u32", 3, 4, 'u'}, {"s8", 8, 1, 's'}, {"s16", 9, 2, 's'}, {"s32", 10, 4, 's'},
	{"f16", 16, 2, 'f'}, {"f32", 32, 4, 'f'},
};

// texels fills memory with values of a format.
static void texels(int fmt, int channels, u64 count, unsigned char *to) {
	u32 size = formats[fmt].size;
	for (u64 i = 0; i < count * channels; i++) {
		u32 v = rnd() << 8 ^ rnd();
		if (formats[fmt].code == 32) v = (v & 0x80ffffff) | (120 + rnd() % 12) << 23;
		if (formats[fmt].code == 16) v = (v & 0x83ff) | (10 + rnd() % 10) << 10;
		memcpy(to + i * size, &v, size);
	}
}

static unsigned char host[1 << 20];

static u64 makeArray(int fmt, int channels, u64 w, u64 h, u64 d, u32 flags) {
	Desc3 desc = {w, h, d, formats[fmt].code, channels, flags, 0};
	u64 array = 0;
	int r = cuArray3DCreate_v2(&array, &desc);
	if (r) { printf("array %s %d %lu %lu %lu %x %d\n", formats[fmt].name, channels, w, h, d, flags, r); return 0; }
	u64 row = w * channels * formats[fmt].size, hh = h ? h : 1, dd = d ? d : 1;
	if (h == 0 && d && flags & 1) hh = 1;
	seed = 1 + fmt * 7 + channels;
	texels(fmt, channels, w * hh * dd, host);
	Copy c = {0};
	c.src.type = 1; c.src.host = host; c.src.pitch = row; c.src.height = hh;
	c.dst.type = 3; c.dst.array = array;
	c.width = row; c.height = hh; c.depth = dd;
	r = cuMemcpy3D_v2(&c);
	if (r) printf("copy %s %d %lu %lu %lu %x %d\n", formats[fmt].name, channels, w, h, d, flags, r);
	return array;
}

static u64 makeTex(Res *res, u32 address, u32 filter, u32 flags) {
	Tex t = {0};
	u64 h = 0;
	t.address[0] = t.address[1] = t.address[2] = address;
	t.filter = filter;
	t.flags = flags;
	t.border[0] = 0.25f; t.border[1] = -3.5f; t.border[2] = 300.75f; t.border[3] = 1e-3f;
	int r = cuTexObjectCreate(&h, res, &t, NULL);
	if (r) { printf("texture type %u address %u filter %u flags %x error %d\n", res->type, address, filter, flags, r); return 0; }
	return h;
}

static void put(float x, float y, float z, u32 layer) {
	coords[4 * n] = x; coords[4 * n + 1] = y; coords[4 * n + 2] = z; coords[4 * n + 3] = unbits(layer);
	n++;
}

// special makes coordinates at borders and far beyond for an extent of 7, 5 and 3 texels.
static void special(int normalized) {
	static const float list[] = {0, -0.0f, 0.5f, 1, 1.5f, 2, 2.5f, 3.25f, 4.49609375f, 4.498046875f, 4.499f, 4.5f, 4.501f, 4.501953125f, 4.50390625f,
		6, 6.5f, 6.75f, 6.99f, 6.999999f, 7, 7.25f, 7.5f, 7.75f, 8, 13.5f, 14, 20.9f, 21.1f, -0.25f, -0.5f, -0.501953125f, -0.75f, -1, -1e-6f, -1.25f, -6.75f, -7, -7.5f, -14.1f, 1e-40f,
		100.3f, -100.3f, 65535.5f, 65536.5f, 1e6f, -1e6f, 8388607.5f, 1.6777215e7f, 2147483520.f, 2147483648.f, -2147483648.f, 1e10f, -1e10f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN};
	n = 0;
	float w = normalized ? 7 : 1, h = normalized ? 5 : 1, d = normalized ? 3 : 1;
	for (unsigned i = 0; i < sizeof list / sizeof *list; i++) {
		put(list[i] / w, 1.25f / h, 1.75f / d, i % 5 - 1);
	}
	for (unsigned i = 0; i < sizeof list / sizeof *list; i += 3) put(2.5f / w, list[i] / h, 1.5f / d, i % 2);
	for (unsigned i = 1; i < sizeof list / sizeof *list; i += 3) put(2.25f / w, 2.75f / h, list[i] / d, i % 2);
}

static void randoms(int count, int normalized) {
	n = 0;
	seed = 77;
	for (int i = 0; i < count; i++) {
		float x = (rnd() % 8192) / 1024.f - 0.5f + (rnd() % 16) / 65536.f, y = (rnd() % 6144) / 1024.f - 0.5f + (rnd() % 16) / 65536.f,
			z = (rnd() % 4096) / 1024.f - 0.5f;
		put(normalized ? x / 7 : x, normalized ? y / 5 : y, normalized ? z / 3 : z, rnd() % 4);
	}
}

static void printCoords(const char *name) {
	printf("coords.%s", name);
	for (int i = 0; i < n; i++)
		printf(" %x.%x.%x.%x", bits(coords[4 * i]), bits(coords[4 * i + 1]), bits(coords[4 * i + 2]), bits(coords[4 * i + 3]));
	putchar('\n');
}

static const char *typeOf(int fmt, u32 flags) {
	if (formats[fmt].kind == 'f' || (!(flags & 1) && formats[fmt].size < 4)) return "f32";
	return formats[fmt].kind == 's' ? "s32" : "u32";
}

static void sample(const char *what, const char *geom, u64 array, int fmt, int channels, u32 address, u32 filter, u32 flags, int words) {
	Res r = {0};
	char name[160];
	r.type = 0;
	r.u.array = array;
	u64 t = makeTex(&r, address, filter, flags);
	if (!t) return;
	snprintf(name, sizeof name, "%s.%s.%sx%d.%s.%s.%x", what, geom, formats[fmt].name, channels, (const char *[]){"wrap", "clamp", "mirror", "border"}[address],
		filter ? "linear" : "point", flags);
	show(name, texKernel(geom, typeOf(fmt, flags), "f32"), t, words);
	cuTexObjectDestroy(t);
}

static void samples(void) {
	static const char *geoms[] = {"1d", "2d", "3d", "a1d", "a2d"};
	u64 arrays[5];
	special(0); printCoords("special0");
	special(1); printCoords("special1");
	randoms(64, 0); printCoords("random0");
	randoms(64, 1); printCoords("random1");
	// Address modes.
	for (int fmt = 0; fmt < 8; fmt += 7)
		for (int g = 0; g < 5; g++) {
			arrays[g] = makeArray(fmt, 1, 7, g == 0 || g == 3 ? 0 : 5, g == 2 ? 3 : g >= 3 ? 4 : 0, g >= 3);
			for (u32 filter = 0; filter < 2; filter++)
				for (u32 address = 0; address < 4; address++)
					for (u32 flags = 0; flags < 4; flags += 2) {
						if (fmt == 0 && g != 1) continue;
						special(flags != 0);
						sample("special", geoms[g], arrays[g], fmt, 1, address, filter, flags, 1);
					}
		}
	// Formats.
	for (int fmt = 0; fmt < 8; fmt++)
		for (int channels = 1; channels <= 4; channels *= 2)
			for (int g = 0; g < 3; g++) {
				u64 a = makeArray(fmt, channels, 7, g ? 5 : 0, g == 2 ? 3 : 0, 0);
				for (u32 filter = 0; filter < 2; filter++)
					for (u32 integer = 0; integer < 2; integer++) {
						if (integer && (filter || formats[fmt].kind == 'f')) continue;
						if (!integer && formats[fmt].kind != 'f' && formats[fmt].size == 4 && (g || filter)) continue;
						randoms(g == 1 ? 64 : 24, 0);
						sample("formats", geoms[g], a, fmt, channels, 1, filter, integer, g == 1 && !filter ? 4 : channels);
					}
				if (g == 1) {
					n = 8;
					for (int i = 0; i < n; i++) coords[4 * i] = -1, coords[4 * i + 1] = i;
					sample("border", geoms[g], a, fmt, channels, 3, 0, 1 * (formats[fmt].kind != 'f'), 4);
					if (formats[fmt].size < 4) sample("border", geoms[g], a, fmt, channels, 3, 0, 0, 4);
				}
				cuArrayDestroy(a);
			}
	{ // sRGB
		u64 a = makeArray(0, 4, 64, 1, 0, 0);
		n = 0;
		for (int i = 0; i < 64; i++) put(i + 0.5f, 0.5f, 0, 0);
		sample("srgb", "2d", a, 0, 4, 1, 0, 0x10, 4);
		n = 0;
		for (int i = 0; i < 32; i++) put(i * 1.37f + 0.5f, 0.5f, 0, 0);
		sample("srgb", "2d", a, 0, 4, 1, 1, 0x10, 4);
	}
}

// fit is for the arithmetic of the filter.
static void fit(void) {
	// The weight, from two texels 0 and 1 of floats.
	static const float pair[2] = {0, 1};
	Desc3 d = {2, 0, 0, 32, 1, 0, 0};
	u64 a = 0, t;
	Res r = {0};
	cuArray3DCreate_v2(&a, &d);
	cuMemcpyHtoA_v2(a, 0, pair, 8);
	r.u.array = a;
	t = makeTex(&r, 1, 1, 0);
	n = 0;
	for (int i = 0; i <= 1024; i++) put(0.5f + i / 1024.f, 0, 0, 0);
	show("fit.weight.1024", texKernel("1d", "f32", "f32"), t, 1);
	n = 0;
	for (int i = 0; i < 64; i++) put(unbits(bits(0.5f + (2 * i + 1) / 512.f) + i % 3 - 1), 0, 0, 0);
	show("fit.weight.tie", texKernel("1d", "f32", "f32"), t, 1);
	n = 0;
	seed = 5;
	for (int i = 0; i < 128; i++) put(0.5f + rnd() / 16777216.f, 0, 0, 0);
	printCoords("fit.random");
	show("fit.weight.random", texKernel("1d", "f32", "f32"), t, 1);
	t = makeTex(&r, 1, 1, 2);
	n = 0;
	for (int i = 0; i < 256; i++) put((0.5f + i / 256.f * 1.02f) / 2, 0, 0, 0);
	printCoords("fit.normalized");
	show("fit.weight.normalized", texKernel("1d", "f32", "f32"), t, 1);
	for (int w = 3; w <= 1000; w = w * 5 + 2) { // a width that is no power of two: how the coordinate is multiplied
		float *row = (float *)host;
		for (int i = 0; i < w; i++) row[i] = i;
		d.width = w;
		cuArray3DCreate_v2(&a, &d);
		cuMemcpyHtoA_v2(a, 0, row, 4 * w);
		r.u.array = a;
		n = 0;
		seed = w;
		for (int i = 0; i < 64; i++) put(rnd() / 16777216.f, 0, 0, 0);
		char name[64];
		for (u32 filter = 0; filter < 2; filter++) {
			t = makeTex(&r, 1, filter, 2);
			snprintf(name, sizeof name, "fit.width.%d.%u", w, filter);
			if (!filter) printCoords(name);
			show(name, texKernel("1d", "f32", "f32"), t, 1);
		}
	}
	// Sums of large and small values, and infinities and NaN.
	static const u32 hard[][8] = {
		{0x3f800000, 0x3f800001, 0x3f800003, 0x3f800007, 0x7f7fffff, 0x00000001, 0x80000000, 0x00800000},
		{0x7f800000, 0x3f800000, 0xff800000, 0x7fc00000, 0x40000000, 0x7f7fffff, 0x7f7fffff, 0xff7fffff},
		{0x4b800001, 0x3f800000, 0xcb800001, 0x33800001, 0x42f6e979, 0xc2f6e979, 0x3eaaaaab, 0x3e2aaaab},
	};
	d.width = 8;
	for (int k = 0; k < 3; k++) {
		cuArray3DCreate_v2(&a, &d);
		cuMemcpyHtoA_v2(a, 0, hard[k], 32);
		r.u.array = a;
		t = makeTex(&r, 1, 1, 0);
		n = 0;
		for (int i = 0; i < 8 * 16; i++) put(i / 16.f + 1 / 64.f * (i % 3), 0, 0, 0);
		char name[64];
		snprintf(name, sizeof name, "fit.hard.%d", k);
		show(name, texKernel("1d", "f32", "f32"), t, 1);
	}
	// Impulses: the weight of each texel of a square and of a cube, in floats and in integers.
	for (int fmt = 0; fmt < 8; fmt++) {
		if (formats[fmt].size == 4 && fmt != 7) continue;
		for (int dims = 2; dims <= 3; dims++)
			for (int at = 0; at < (dims == 2 ? 4 : 8); at++) {
				Desc3 s = {2, 2, dims == 3 ? 2 : 0, formats[fmt].code, 1, 0, 0};
				static const u32 one[8] = {0xff, 0xffff, 0, 0x7f, 0x7fff, 0, 0x3c00, 0x3f800000};
				memset(host, 0, 64);
				memcpy(host + at * formats[fmt].size, &one[fmt], formats[fmt].size);
				cuArray3DCreate_v2(&a, &s);
				Copy c = {0};
				c.src.type = 1; c.src.host = host; c.src.pitch = 2 * formats[fmt].size; c.src.height = 2;
				c.dst.type = 3; c.dst.array = a;
				c.width = c.src.pitch; c.height = 2; c.depth = dims == 3 ? 2 : 1;
				cuMemcpy3D_v2(&c);
				r.u.array = a;
				t = makeTex(&r, 1, 1, 0);
				n = 0;
				seed = 9;
				for (int i = 0; i < 32; i++) put(0.5f + rnd() % 257 / 256.f, 0.5f + rnd() % 257 / 256.f, 0.5f + rnd() % 257 / 256.f, 0);
				if (at == 0 && fmt == 0 && dims == 2) printCoords("fit.impulse");
				char name[64];
				snprintf(name, sizeof name, "fit.impulse.%s.%d.%d", formats[fmt].name, dims, at);
				show(name, texKernel(dims == 2 ? "2d" : "3d", "f32", "f32"), t, 1);
				cuTexObjectDestroy(t);
				cuArrayDestroy(a);
			}
	}
}

// memory is textures over memory.
static void memory(void) {
	u64 p;
	Res r = {0};
	cuMemAlloc_v2(&p, 1 << 16);
	for (int fmt = 0; fmt < 8; fmt++)
		for (int channels = 1; channels <= 4; channels *= 2) {
			char name[96];
			seed = 1 + fmt * 7 + channels;
			texels(fmt, channels, 5 * 64, host);
			cuMemcpyHtoD_v2(p, host, 5 * 64 * channels * formats[fmt].size);
			u32 integer = formats[fmt].kind != 'f';
			memset(&r, 0, sizeof r);
			r.type = 2;
			r.u.mem.ptr = p; r.u.mem.format = formats[fmt].code; r.u.mem.channels = channels;
			r.u.mem.a = 13 * channels * formats[fmt].size;
			for (u32 flags = 0; flags <= integer; flags++) {
				if (!flags && integer && formats[fmt].size == 4) continue;
				u64 t = makeTex(&r, 0, 0, flags);
				n = 0;
				for (int i = -3; i < 20; i++) put(unbits(i), 0, 0, 0);
				put(unbits(0x7fffffff), 0, 0, 0);
				put(unbits(0x80000000), 0, 0, 0);
				snprintf(name, sizeof name, "linear.%sx%d.%u", formats[fmt].name, channels, flags);
				show(name, texKernel("1d", typeOf(fmt, flags), "s32"), t, channels == 1 ? 4 : channels);
				cuTexObjectDestroy(t);
			}
			r.type = 3;
			r.u.mem.a = 7; r.u.mem.b = 5; r.u.mem.c = (7 * channels * formats[fmt].size + 31) / 32 * 32;
			for (u32 flags = 0; flags < 4; flags++)
				for (u32 filter = 0; filter < 2; filter++) {
					if ((flags & 1) != 0 && !integer) continue;
					if (filter && strcmp(typeOf(fmt, flags), "f32")) continue;
					if (integer && !(flags & 1) && formats[fmt].size == 4) continue;
					randoms(24, flags & 2);
					u64 t = makeTex(&r, flags & 2 ? (u32)fmt % 4 : 1 + fmt % 2 * 2, filter, flags);
					snprintf(name, sizeof name, "pitch.%sx%d.%u.%u", formats[fmt].name, channels, flags, filter);
					show(name, texKernel("2d", typeOf(fmt, flags), "f32"), t, channels);
					cuTexObjectDestroy(t);
				}
		}
	// Integer coordinates of a rectangle, and floats for linear memory.
	n = 0;
	for (int i = -2; i < 9; i++) put(unbits(i), unbits(i / 2), unbits(1), 1);
	u64 t = makeTex(&r, 1, 0, 0);
	show("pitch.integer.clamp", texKernel("2d", "f32", "s32"), t, 4);
	t = makeTex(&r, 3, 0, 0);
	show("pitch.integer.border", texKernel("2d", "f32", "s32"), t, 4);
	t = makeTex(&r, 0, 0, 2);
	show("pitch.integer.normalized", texKernel("2d", "f32", "s32"), t, 4);
	static const char *geoms[] = {"1d", "2d", "3d", "a1d", "a2d"};
	for (int g = 0; g < 5; g++) {
		u64 a = makeArray(7, 1, 7, g == 0 || g == 3 ? 0 : 5, g == 2 ? 3 : g >= 3 ? 4 : 0, g >= 3);
		Res ra = {0};
		ra.u.array = a;
		for (u32 address = 1; address < 4; address += 2)
			for (u32 filter = 0; filter < 2; filter++) {
				char name[64];
				t = makeTex(&ra, address, filter, 0);
				snprintf(name, sizeof name, "integer.%s.%u.%u", geoms[g], address, filter);
				show(name, texKernel(geoms[g], "f32", "s32"), t, 1);
			}
	}
	r.type = 2;
	r.u.mem.format = 32; r.u.mem.channels = 1; r.u.mem.a = 52;
	t = makeTex(&r, 0, 0, 0);
	special(0);
	show("linear.float", texKernel("1d", "f32", "f32"), t, 1);
}

static void query(void) {
	static const char *what[] = {"width", "height", "depth", "channel_data_type", "channel_order", "normalized_coords", "filter_mode", "addr_mode_0"};
	static const char *geoms[] = {"1d", "2d", "3d", "a1d", "a2d"};
	char name[64], body[256];
	for (int i = 0; i < 16; i++) {
		snprintf(name, sizeof name, "%s.%s.b32", i < 8 ? "txq" : "suq", what[i % 8]);
		snprintf(body, sizeof body, "%s %%v0, [%%h];", name);
		void *f = load(name, body);
		if (!f) continue;
		for (int g = 0; g < 5; g++) {
			Res r = {0};
			r.u.array = makeArray(0, 4, 7, g == 0 || g == 3 ? 0 : 5, g == 2 ? 3 : g >= 3 ? 4 : 0, (g >= 3) | 2);
			u64 h = 0;
			if (i < 8) h = makeTex(&r, 1, 1, 2); else cuSurfObjectCreate(&h, &r);
			n = 1;
			char line[80];
			snprintf(line, sizeof line, "%s.%s", name, geoms[g]);
			show(line, f, h, 1);
		}
	}
	u64 p;
	Res r = {0};
	cuMemAlloc_v2(&p, 4096);
	r.type = 2; r.u.mem.ptr = p; r.u.mem.format = 32; r.u.mem.channels = 1; r.u.mem.a = 400;
	n = 1;
	show("txq.width.linear", load("txq.width", "txq.width.b32 %v0, [%h];"), makeTex(&r, 1, 0, 0), 1);
	for (int c = 0; c < 4; c++) { // gathers
		snprintf(name, sizeof name, "tld4.%c.2d.v4.f32.f32", "rgba"[c]);
		snprintf(body, sizeof body, "%s {%%v0, %%v1, %%v2, %%v3}, [%%h, {%%f0, %%f1}];", name);
		void *f = load(name, body);
		Res ra = {0};
		ra.u.array = makeArray(7, 4, 7, 5, 0, 8);
		for (u32 address = 0; address < 4; address++)
			for (u32 filter = 0; filter < 2; filter++) {
				if (address != 1 && c) continue;
				special(address % 2 == 0 ? 1 : 0);
				u64 h = makeTex(&ra, address, filter, address % 2 == 0 ? 2 : 0);
				char line[96];
				snprintf(line, sizeof line, "%s.%u.%u", name, address, filter);
				if (!c) show(line, f, h, 4);
				randoms(24, 0);
				snprintf(line, sizeof line, "%s.random.%u.%u", name, address, filter);
				show(line, f, h, 4);
			}
	}
	static const char *levels[] = {"tex.level.2d.v4.f32.f32 {%v0,%v1,%v2,%v3}, [%h, {%f0,%f1}], %f2;",
		"tex.grad.2d.v4.f32.f32 {%v0,%v1,%v2,%v3}, [%h, {%f0,%f1}], {%f2,%f2}, {%f2,%f2};",
		"mov.b32 %i4, -1; mov.b32 %i5, 2; tex.2d.v4.f32.f32 {%v0,%v1,%v2,%v3}, [%h, {%f0,%f1}], {%i4,%i5};",
		"tex.base.2d.v4.f32.f32 {%v0,%v1,%v2,%v3}, [%h, {%f0,%f1}];"};
	Res ra = {0};
	ra.u.array = makeArray(7, 1, 7, 5, 0, 0);
	for (int i = 0; i < 4; i++) {
		void *f = load((const char *[]){"level", "grad", "offset", "base"}[i], levels[i]);
		for (u32 filter = 0; filter < 2; filter++) {
			snprintf(name, sizeof name, "%s.%u", (const char *[]){"level", "grad", "offset", "base"}[i], filter);
			randoms(24, 1);
			show(name, f, makeTex(&ra, 1, filter, 2), 1);
		}
	}
}

static void showArray(const char *name, u64 array, u64 row, u64 h, u64 d) {
	Copy c = {0};
	memset(host, 0xcc, row * h * d);
	c.dst.type = 1; c.dst.host = host; c.dst.pitch = row; c.dst.height = h;
	c.src.type = 3; c.src.array = array;
	c.width = row; c.height = h; c.depth = d;
	int r = cuMemcpy3D_v2(&c);
	printf("%s %d ", name, r);
	for (u64 i = 0; r == 0 && i < row * h * d; i++) printf("%02x", host[i]);
	putchar('\n');
}

static void surfaces(void) {
	static const char *geoms[] = {"1d", "2d", "3d", "a1d", "a2d"};
	static const char *at[] = {"{%x0}", "{%x0,%x1}", "{%x0,%x1,%x2,%x2}", "{%x3,%x0}", "{%x3,%x0,%x1,%x1}"};
	static const char *modes[] = {"clamp", "zero", "trap"};
	static const struct { const char *type, *regs; int size; } accesses[] = {
		{"b8", "%q0", 1}, {"b16", "%q0", 2}, {"b32", "%v0", 4}, {"b64", "%w0", 8}, {"v2.b32", "{%v0,%v1}", 8}, {"v4.b32", "{%v0,%v1,%v2,%v3}", 16}, {"v4.b8", "{%q0,%q1,%q2,%q3}", 4}};
	for (int g = 0; g < 5; g++)
		for (int k = 0; k < 7; k++)
			for (int m = 0; m < 3; m++) {
				if (g != 1 && k != 2) continue;
				char name[96], body[512];
				const char *pack = k < 2 || k == 6 ? "cvt.u32.u16 %v0, %q0;" : k == 3 ? "mov.b64 {%v0,%v1}, %w0;" : "";
				if (k == 6) pack = "cvt.u32.u16 %v0, %q0; cvt.u32.u16 %v1, %q1; cvt.u32.u16 %v2, %q2; cvt.u32.u16 %v3, %q3;";
				int channels = accesses[k].size > 4 ? 4 : accesses[k].size >= 4 ? 1 : 1;
				int fmt = k == 6 ? 0 : accesses[k].size == 1 ? 0 : accesses[k].size == 2 ? 1 : accesses[k].size == 8 ? 1 : 2;
				if (k == 6) channels = 4;
				if (accesses[k].size == 8) channels = 4;
				u64 row = 7 * channels * formats[fmt].size;
				u64 h = g == 0 || g == 3 ? 0 : 5, d = g == 2 ? 3 : g >= 3 ? 4 : 0;
				Res r = {0};
				u64 s = 0;
				r.u.array = makeArray(fmt, channels, 7, h, d, (g >= 3) | 2);
				int e = cuSurfObjectCreate(&s, &r);
				if (e) printf("surface %d\n", e);
				n = 0;
				int size = accesses[k].size;
				for (int i = m == 2 ? 0 : -2; i < (m == 2 ? 7 : 9); i++) put(unbits(i * size), unbits(i < 5 ? 1 : 4), unbits(i < 3 ? 1 : 2), i & 3);
				if (m != 2) {
					put(unbits(size), unbits(-1), unbits(0), 0);
					put(unbits(size), unbits(5), unbits(0), 0);
					put(unbits(size), unbits(1), unbits(-1), -1);
					put(unbits(size), unbits(1), unbits(3), 4);
					put(unbits(0x7ffffff0), unbits(1), unbits(1), 1);
					put(unbits(0x80000000), unbits(1), unbits(1), 1);
				}
				snprintf(name, sizeof name, "suld.b.%s.%s.%s", geoms[g], accesses[k].type, modes[m]);
				snprintf(body, sizeof body, "%s %s, [%%h, %s]; %s", name, accesses[k].regs, at[g], pack);
				show(name, load(name, body), s, 4);
				const char *unpack = k < 2 ? "cvt.u16.u32 %q0, %v0;" : k == 3 ? "mov.b64 %w0, {%v0,%v1};" : "";
				if (k == 6) unpack = "cvt.u16.u32 %q0, %v0; cvt.u16.u32 %q1, %v1; cvt.u16.u32 %q2, %v2; cvt.u16.u32 %q3, %v3;";
				for (int y = 0; y < 2; y++) {
					snprintf(name, sizeof name, "sust.%c.%s.%s.%s", "bp"[y], geoms[g], accesses[k].type, modes[m]);
					if (y && (k != 2 && k != 5 && k != 4)) continue;
					snprintf(body, sizeof body, "mul.lo.u32 %%v0, %%x0, 77; add.u32 %%v1, %%v0, 1; add.u32 %%v2, %%v0, 2; add.u32 %%v3, %%v0, 3; %s %s [%%h, %s], %s;",
						unpack, name, at[g], accesses[k].regs);
					void *f = load(name, body);
					n = 0;
					if (m == 2) for (int i = 0; i < 4; i++) put(unbits((i + 1) * (y ? 1 : size)), unbits(i), unbits(i & 1), i);
					else {
						put(unbits(-size), unbits(1), unbits(1), 1);
						put(unbits(3 * (y ? 1 : size)), unbits(2), unbits(2), 2);
						put(unbits(9 * size), unbits(3), unbits(0), 3);
						put(unbits(5 * (y ? 1 : size)), unbits(9), unbits(9), 9);
					}
					if (!f) continue;
					show(name, f, s, 1);
					showArray(name, r.u.array, row, h ? h : 1, d ? d : 1);
				}
				cuSurfObjectDestroy(s);
				cuArrayDestroy(r.u.array);
			}
	for (int fmt = 0; fmt < 8; fmt++) { // formatted stores
		Res r = {0};
		u64 s = 0;
		char line[64];
		r.u.array = makeArray(fmt, 4, 7, 5, 0, 2);
		cuSurfObjectCreate(&s, &r);
		n = 0;
		static const u32 values[] = {0, 0x3f000000, 0x3f800000, 0xbf800000, 0x40000000, 300, 0xfffffff0, 0x12345678};
		for (int i = 0; i < 7; i++) put(unbits(i), unbits(2), unbits(values[i]), values[i + 1]);
		static void *f;
		if (!f) f = load("sust.p.values", "sust.p.2d.v4.b32.trap [%h, {%x0,%x1}], {%x2,%x3,%x2,%x3};");
		show("sust.p", f, s, 1);
		snprintf(line, sizeof line, "sust.p.%s", formats[fmt].name);
		showArray(line, r.u.array, 28 * formats[fmt].size, 5, 1);
	}
}

static void result(const char *name, int r) { printf("%s %d\n", name, r); }

static void errors(void) {
	u64 h, p, a;
	int v;
	static const int attributes[] = {14, 21, 22, 23, 24, 25, 26, 27, 28, 29, 42, 43, 44, 45, 46, 47, 48, 49, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 77};
	for (unsigned i = 0; i < sizeof attributes / sizeof *attributes; i++) {
		v = -1;
		cuDeviceGetAttribute(&v, attributes[i], 0);
		printf("attribute.%d %d\n", attributes[i], v);
	}
	cuMemAlloc_v2(&p, 1 << 20);
	{ // arrays
		static const struct { const char *name; Desc3 d; } list[] = {
			{"1d", {7, 0, 0, 32, 1, 0}}, {"2d", {7, 5, 0, 32, 1, 0}}, {"3d", {7, 5, 3, 32, 1, 0}},
			{"width0", {0, 5, 0, 32, 1, 0}}, {"height0depth", {7, 0, 3, 32, 1, 0}}, {"channels3", {7, 5, 0, 32, 3, 0}}, {"channels0", {7, 5, 0, 32, 0, 0}},
			{"channels5", {7, 5, 0, 32, 5, 0}}, {"format0", {7, 5, 0, 0, 1, 0}}, {"format7", {7, 5, 0, 7, 1, 0}}, {"format99", {7, 5, 0, 99, 1, 0}}, {"nv12", {8, 6, 0, 0xb0, 3, 0}},
			{"unorm8x4", {8, 8, 0, 0xc2, 4, 0}}, {"bc1", {8, 8, 0, 0x91, 4, 0}},
			{"1dmax", {131072, 0, 0, 1, 1, 0}}, {"1dover", {131073, 0, 0, 1, 1, 0}},
			{"2dmaxw", {131072, 1, 0, 1, 1, 0}}, {"2doverw", {131073, 1, 0, 1, 1, 0}}, {"2dmaxh", {1, 65536, 0, 1, 1, 0}}, {"2doverh", {1, 65537, 0, 1, 1, 0}},
			{"3dmaxw", {16384, 1, 1, 1, 1, 0}}, {"3doverw", {16385, 1, 1, 1, 1, 0}}, {"3doverh", {1, 16385, 1, 1, 1, 0}}, {"3doverd", {1, 1, 16385, 1, 1, 0}},
			{"layered1d", {7, 0, 4, 32, 1, 1}}, {"layered2d", {7, 5, 4, 32, 1, 1}}, {"layered0", {7, 5, 0, 32, 1, 1}}, {"layeredmax", {7, 5, 2048, 1, 1, 1}}, {"layeredover", {7, 5, 2049, 1, 1, 1}},
			{"layeredw", {32768, 1, 2, 1, 1, 1}}, {"layeredoverw", {32769, 1, 2, 1, 1, 1}}, {"layered1doverw", {32769, 0, 2, 1, 1, 1}},
			{"cube", {8, 8, 6, 32, 1, 4}}, {"cube5", {8, 8, 5, 32, 1, 4}}, {"cubenosquare", {8, 7, 6, 32, 1, 4}}, {"cubelayered", {8, 8, 12, 32, 1, 5}}, {"cubelayered7", {8, 8, 7, 32, 1, 5}},
			{"surface", {7, 5, 0, 32, 1, 2}}, {"gather", {7, 5, 0, 32, 1, 8}}, {"gather1d", {7, 0, 0, 32, 1, 8}}, {"gather3d", {7, 5, 3, 32, 1, 8}}, {"gatherover", {32769, 1, 0, 1, 1, 8}},
			{"depthtexture", {7, 5, 0, 32, 1, 0x10}}, {"colorattachment", {7, 5, 0, 32, 1, 0x20}}, {"sparse", {7, 5, 0, 32, 1, 0x40}}, {"deferred", {7, 5, 0, 32, 1, 0x80}}, {"flag100", {7, 5, 0, 32, 1, 0x100}}, {"flag200", {7, 5, 0, 32, 1, 0x200}}, {"flag80000000", {7, 5, 0, 32, 1, 0x80000000u}},
			{"surfwide", {32769, 1, 0, 1, 1, 2}}, {"surf2dmaxh", {1, 65536, 0, 1, 1, 2}}, {"huge", {131072, 65536, 0, 32, 4, 0}},
		};
		for (unsigned i = 0; i < sizeof list / sizeof *list; i++) {
			Desc3 d = list[i].d, got;
			char name[64];
			memset(&got, 0xee, sizeof got);
			h = 0;
			int r = cuArray3DCreate_v2(&h, &d);
			printf("array3d.%s %d %d", list[i].name, r, h != 0);
			if (r == 0) {
				r = cuArray3DGetDescriptor_v2(&got, h);
				printf(" %d %lu.%lu.%lu.%x.%u.%x", r, got.width, got.height, got.depth, got.format, got.channels, got.flags);
				Desc two;
				memset(&two, 0xee, sizeof two);
				r = cuArrayGetDescriptor_v2(&two, h);
				printf(" %d %lx.%lx.%x.%x", r, two.width, two.height, two.format, two.channels);
				u64 s = 0, t = 0;
				Res res = {0};
				Tex td = {0};
				res.u.array = h;
				printf(" surf %d", cuSurfObjectCreate(&s, &res));
				printf(" tex %d", cuTexObjectCreate(&t, &res, &td, NULL));
				printf(" destroy %d\n", cuArrayDestroy(h));
			} else putchar('\n');
			(void)name;
		}
		Desc d = {7, 5, 32, 1};
		result("array.create", cuArrayCreate_v2(&h, &d));
		result("array.create.null", cuArrayCreate_v2(NULL, &d));
		result("array.create.nulldesc", cuArrayCreate_v2(&h, NULL));
		result("array3d.create.null", cuArray3DCreate_v2(NULL, NULL));
		result("array.get.null", cuArrayGetDescriptor_v2(NULL, h));
		result("array.get.0", cuArrayGetDescriptor_v2(&d, 0));
		result("array3d.get.0", cuArray3DGetDescriptor_v2(&(Desc3){0}, 0));
		result("array.destroy.0", cuArrayDestroy(0));
		u64 f0, f1, f2, total;
		cuMemGetInfo_v2(&f0, &total);
		Desc big = {8192, 4096, 32, 4};
		result("array.big", cuArrayCreate_v2(&a, &big));
		cuMemGetInfo_v2(&f1, &total);
		result("array.big.destroy", cuArrayDestroy(a));
		cuMemGetInfo_v2(&f2, &total);
		printf("array.big.memory %ld %ld\n", (long)(f0 - f1), (long)(f0 - f2));
		Desc3 hg = {131072, 65536, 0, 32, 4, 0};
		for (int i = 0; i < 2; i++) result("array.huge", cuArray3DCreate_v2(&a, &hg));
	}
	{ // copies
		Desc3 d1 = {7, 0, 0, 32, 1, 0}, d2 = {7, 5, 0, 32, 1, 0}, d3 = {7, 5, 3, 32, 1, 0}, dl = {7, 5, 3, 32, 1, 1};
		u64 a1, a2, a3, al;
		cuArray3DCreate_v2(&a1, &d1); cuArray3DCreate_v2(&a2, &d2); cuArray3DCreate_v2(&a3, &d3); cuArray3DCreate_v2(&al, &dl);
		result("HtoA.1d", cuMemcpyHtoA_v2(a1, 0, host, 28));
		result("HtoA.1d.offset", cuMemcpyHtoA_v2(a1, 8, host, 20));
		result("HtoA.1d.over", cuMemcpyHtoA_v2(a1, 8, host, 24));
		result("HtoA.1d.odd", cuMemcpyHtoA_v2(a1, 2, host, 3));
		result("HtoA.1d.zero", cuMemcpyHtoA_v2(a1, 0, host, 0));
		result("HtoA.1d.null", cuMemcpyHtoA_v2(a1, 0, NULL, 4));
		result("HtoA.0", cuMemcpyHtoA_v2(0, 0, host, 4));
		for (int i = 0; i < 256; i++) host[i] = i;
		result("HtoA.2d", cuMemcpyHtoA_v2(a2, 0, host, 28));
		result("HtoA.2d.rows", cuMemcpyHtoA_v2(a2, 0, host, 56));
		result("HtoA.2d.all", cuMemcpyHtoA_v2(a2, 0, host, 140));
		showArray("HtoA.2d.content", a2, 28, 5, 1);
		result("HtoA.2d.partial", cuMemcpyHtoA_v2(a2, 4, host, 40));
		showArray("HtoA.2d.partial.content", a2, 28, 5, 1);
		result("HtoA.2d.over", cuMemcpyHtoA_v2(a2, 0, host, 144));
		result("HtoA.2d.offset", cuMemcpyHtoA_v2(a2, 28, host, 28));
		result("HtoA.3d", cuMemcpyHtoA_v2(a3, 0, host, 28));
		result("AtoH.1d", cuMemcpyAtoH_v2(host, a1, 4, 24));
		result("AtoH.1d.over", cuMemcpyAtoH_v2(host, a1, 4, 28));
		result("AtoH.2d.rows", cuMemcpyAtoH_v2(host, a2, 4, 48));
		printf("AtoH.2d.content");
		for (int i = 0; i < 56; i++) printf(" %02x", host[i]);
		putchar('\n');
		result("AtoD", cuMemcpyAtoD_v2(p, a1, 0, 28));
		result("AtoD.over", cuMemcpyAtoD_v2(p, a1, 0, 32));
		result("DtoA", cuMemcpyDtoA_v2(a1, 0, p, 28));
		result("DtoA.bad", cuMemcpyDtoA_v2(a1, 0, 16, 28));
		result("AtoA", cuMemcpyAtoA_v2(a1, 0, a2, 0, 28));
		result("AtoA.over", cuMemcpyAtoA_v2(a1, 4, a2, 0, 28));
		static const struct { const char *name; u64 x, y, z, w, h, d; } boxes[] = {
			{"all", 0, 0, 0, 28, 5, 3}, {"part", 4, 1, 1, 8, 2, 1}, {"xover", 24, 0, 0, 8, 1, 1}, {"yover", 0, 4, 0, 28, 2, 1}, {"zover", 0, 0, 2, 28, 5, 2},
			{"odd", 1, 0, 0, 4, 1, 1}, {"oddwidth", 0, 0, 0, 3, 1, 1}, {"w0", 0, 0, 0, 0, 1, 1}, {"h0", 0, 0, 0, 4, 0, 1}, {"xfar", 28, 0, 0, 0, 0, 0}, {"xbeyond", 100, 100, 100, 0, 1, 1}};
		for (unsigned i = 0; i < sizeof boxes / sizeof *boxes; i++)
			for (int k = 0; k < 4; k++) {
				u64 which = ((u64[]){a1, a2, a3, al})[k];
				Copy c = {0};
				c.src.type = 1; c.src.host = host; c.src.pitch = 28; c.src.height = 5;
				c.dst.type = 3; c.dst.array = which; c.dst.x = boxes[i].x; c.dst.y = boxes[i].y; c.dst.z = boxes[i].z;
				c.width = boxes[i].w; c.height = boxes[i].h; c.depth = boxes[i].d;
				printf("copy3d.%s.%d %d\n", boxes[i].name, k, cuMemcpy3D_v2(&c));
			}
		Copy c = {0};
		c.src.type = 1; c.src.host = host;
		c.dst.type = 3; c.width = 4; c.height = 1; c.depth = 1;
		result("copy3d.array0", cuMemcpy3D_v2(&c));
	}
	{ // textures and surfaces
		Res good = {0}, r;
		Tex t0 = {0}, t;
		u64 last = 0;
		good.type = 2; good.u.mem.ptr = p; good.u.mem.format = 32; good.u.mem.channels = 1; good.u.mem.a = 400;
#define TRY(name, change) r = good; t = t0; h = 0; change; result("tex.linear." name, cuTexObjectCreate(&h, &r, &t, NULL)); if (h) last = h
		TRY("good", ); TRY("ptr0", r.u.mem.ptr = 0); TRY("ptr4", r.u.mem.ptr += 4); TRY("ptr16", r.u.mem.ptr += 16); TRY("ptr256", r.u.mem.ptr += 256); TRY("ptr512", r.u.mem.ptr += 512); TRY("channels3", r.u.mem.channels = 3); TRY("channels0", r.u.mem.channels = 0);
		TRY("format0", r.u.mem.format = 0); TRY("format99", r.u.mem.format = 99); TRY("size0", r.u.mem.a = 0); TRY("size3", r.u.mem.a = 3); TRY("size402", r.u.mem.a = 402);
		TRY("max", r.u.mem.a = 4ul << 27); TRY("over", r.u.mem.a = (4ul << 27) + 4); TRY("u8over", (r.u.mem.format = 1, r.u.mem.a = (1ul << 28) + 1)); TRY("beyond", r.u.mem.a = 1 << 21); TRY("outside", r.u.mem.ptr = 0x100000);
		TRY("linearfilter", t.filter = 1); TRY("normalized", t.flags = 2); TRY("filter2", t.filter = 2); TRY("address4", t.address[0] = 4); TRY("mirror", t.address[0] = 2); TRY("flags4", t.flags = 4); TRY("flags8", t.flags = 8); TRY("flags80", t.flags = 0x80); TRY("srgb", t.flags = 0x10);
		TRY("srgb8", (t.flags = 0x10, r.u.mem.format = 1, r.u.mem.channels = 4)); TRY("integer", t.flags = 1); TRY("resflags", r.flags = 1); TRY("type4", r.type = 4); TRY("type99", r.type = 99); TRY("aniso17", t.aniso = 17); TRY("mipfilter2", t.mipfilter = 2); TRY("half", r.u.mem.format = 16);
		good.type = 3; good.u.mem.a = 64; good.u.mem.b = 8; good.u.mem.c = 256;
#undef TRY
#define TRY(name, change) r = good; t = t0; h = 0; change; result("tex.pitch." name, cuTexObjectCreate(&h, &r, &t, NULL))
		TRY("good", ); TRY("ptr0", r.u.mem.ptr = 0); TRY("ptr16", r.u.mem.ptr += 16); TRY("ptr32", r.u.mem.ptr += 32); TRY("ptr256", r.u.mem.ptr += 256); TRY("ptr512", r.u.mem.ptr += 512); TRY("pitch16", r.u.mem.c = 272); TRY("pitch32", r.u.mem.c = 288); TRY("pitch0", r.u.mem.c = 0);
		TRY("pitchshort", r.u.mem.c = 224); TRY("width0", r.u.mem.a = 0); TRY("height0", r.u.mem.b = 0); TRY("widthover", (r.u.mem.format = 1, r.u.mem.a = 131073, r.u.mem.c = 131104)); TRY("widthmax", (r.u.mem.format = 1, r.u.mem.a = 131072, r.u.mem.c = 131072, r.u.mem.b = 1)); TRY("heightover", r.u.mem.b = 65001); TRY("heightmax", r.u.mem.b = 65000);
		TRY("pitchover", r.u.mem.c = 2097184); TRY("pitchmax", r.u.mem.c = 2097120); TRY("beyond", r.u.mem.b = 60000); TRY("channels3", r.u.mem.channels = 3); TRY("linear", t.filter = 1); TRY("u8linear", (t.filter = 1, r.u.mem.format = 1)); TRY("u8linearint", (t.filter = 1, t.flags = 1, r.u.mem.format = 1)); TRY("u32linear", (t.filter = 1, r.u.mem.format = 3)); TRY("u32float", r.u.mem.format = 3); TRY("wrap", t.address[0] = 0); TRY("mirror", t.address[1] = 2); TRY("outside", r.u.mem.ptr = 0x100000);
		Desc3 d = {7, 5, 0, 32, 1, 0};
		cuArray3DCreate_v2(&a, &d);
		memset(&r, 0, sizeof r);
		t = t0;
		result("tex.array.0", cuTexObjectCreate(&h, &r, &t, NULL));
		r.u.array = a;
		result("tex.array", cuTexObjectCreate(&h, &r, &t, NULL));
		result("tex.null", cuTexObjectCreate(NULL, &r, &t, NULL));
		result("tex.nullres", cuTexObjectCreate(&h, NULL, &t, NULL));
		result("tex.nulltex", cuTexObjectCreate(&h, &r, NULL, NULL));
		View view = {0};
		view.width = 7; view.height = 5; view.format = 0x1f;
		for (u32 f = 0; f < 0x24; f++) { view.format = f; printf("tex.view.%x %d\n", f, cuTexObjectCreate(&h, &r, &t, &view)); }
		view.format = 0x1b; view.width = 8;
		result("tex.view.width", cuTexObjectCreate(&h, &r, &t, &view));
		Res got;
		Tex gt;
		View gv;
		memset(&got, 0xee, sizeof got); memset(&gt, 0xee, sizeof gt); memset(&gv, 0xee, sizeof gv);
		printf("tex.get.res %d %u %x %x %lu %x\n", cuTexObjectGetResourceDesc(&got, last), got.type, got.u.mem.format, got.u.mem.channels, got.u.mem.a, got.flags);
		printf("tex.get.tex %d %u.%u.%u %u %x %u %u\n", cuTexObjectGetTextureDesc(&gt, last), gt.address[0], gt.address[1], gt.address[2], gt.filter, gt.flags, gt.aniso, gt.mipfilter);
		printf("tex.get.view %d %x\n", cuTexObjectGetResourceViewDesc(&gv, last), gv.format);
		result("tex.get.null", cuTexObjectGetResourceDesc(NULL, last));
		result("tex.get.0", cuTexObjectGetResourceDesc(&got, 0));
		result("tex.get.bad", cuTexObjectGetResourceDesc(&got, 0x7777777));
		result("tex.destroy", cuTexObjectDestroy(last));
		result("tex.destroy.twice", cuTexObjectDestroy(last));
		result("tex.destroy.get", cuTexObjectGetTextureDesc(&gt, last));
		result("tex.destroy.0", cuTexObjectDestroy(0));
		result("tex.destroy.bad", cuTexObjectDestroy(0x7777777));
		result("surf.noflag", cuSurfObjectCreate(&h, &r));
		r.type = 2;
		r.u.mem.ptr = p; r.u.mem.format = 32; r.u.mem.channels = 1; r.u.mem.a = 400;
		result("surf.linear", cuSurfObjectCreate(&h, &r));
		memset(&r, 0, sizeof r);
		result("surf.0", cuSurfObjectCreate(&h, &r));
		result("surf.null", cuSurfObjectCreate(&h, NULL));
		result("surf.nullout", cuSurfObjectCreate(NULL, &r));
		d.flags = 2;
		cuArray3DCreate_v2(&a, &d);
		r.u.array = a;
		result("surf.good", cuSurfObjectCreate(&last, &r));
		r.flags = 1;
		result("surf.resflags", cuSurfObjectCreate(&h, &r));
		printf("surf.get %d", cuSurfObjectGetResourceDesc(&got, last));
		printf(" %u %d %x\n", got.type, got.u.array == a, got.flags);
		result("surf.get.0", cuSurfObjectGetResourceDesc(&got, 0));
		result("surf.destroy", cuSurfObjectDestroy(last));
		result("surf.destroy.twice", cuSurfObjectDestroy(last));
		result("surf.destroy.0", cuSurfObjectDestroy(0));
		result("array.destroy.used", cuArrayDestroy(a));
	}
	fflush(stdout);
	result("array.destroy.twice", cuArrayDestroy(a)); // a driver may crash
}

// faults has kernels that may end with an error.
static void fault(const char *which) {
	Res r = {0};
	u64 s = 0;
	r.u.array = makeArray(2, 1, 7, 5, 0, 2);
	cuSurfObjectCreate(&s, &r);
	n = 1;
	coords[0] = coords[1] = 0;
	void *f = NULL;
	if (!strcmp(which, "trapload")) { coords[0] = unbits(28); f = load("trapload", "suld.b.2d.b32.trap %v0, [%h, {%x0,%x1}];"); }
	if (!strcmp(which, "trapstore")) { coords[0] = unbits(28); f = load("trapstore", "sust.b.2d.b32.trap [%h, {%x0,%x1}], %v0;"); }
	if (!strcmp(which, "trapy")) { coords[1] = unbits(-1); f = load("trapy", "sust.b.2d.b32.trap [%h, {%x0,%x1}], %v0;"); }
	if (!strcmp(which, "unaligned")) { coords[0] = unbits(2); f = load("unaligned", "suld.b.2d.b32.trap %v0, [%h, {%x0,%x1}];"); }
	if (!strcmp(which, "tex0")) { s = 0; f = texKernel("2d", "f32", "f32"); }
	if (!strcmp(which, "texbad")) { s = 0x12345678; f = texKernel("2d", "f32", "f32"); }
	if (!strcmp(which, "surf0")) { s = 0; f = load("surf0", "suld.b.2d.b32.zero %v0, [%h, {%x0,%x1}];"); }
	if (!strcmp(which, "texfreed") || !strcmp(which, "pitchbeyond")) {
		u64 p;
		cuMemAlloc_v2(&p, 64 << 20);
		r.type = 3; r.u.mem.ptr = p; r.u.mem.format = 32; r.u.mem.channels = 1; r.u.mem.a = 16384; r.u.mem.b = 1024; r.u.mem.c = 65536;
		if (!strcmp(which, "pitchbeyond")) r.u.mem.b = 65000;
		s = makeTex(&r, 1, 0, 0);
		if (!strcmp(which, "texfreed")) cuMemFree_v2(p);
		coords[1] = 60000;
		f = texKernel("2d", "f32", "f32");
	}
	if (!strcmp(which, "dims")) { // a texture of one dimension, read as one of two
		r.u.array = makeArray(7, 1, 7, 0, 0, 0);
		s = makeTex(&r, 1, 0, 0);
		f = texKernel("2d", "f32", "f32");
	}
	if (!strcmp(which, "destroyed")) {
		r.u.array = makeArray(7, 1, 7, 5, 0, 0);
		s = makeTex(&r, 1, 0, 0);
		f = texKernel("2d", "f32", "f32");
		cuTexObjectDestroy(s);
	}
	char name[64];
	snprintf(name, sizeof name, "fault.%s", which);
	show(name, f, s, 4);
}

int main(int argc, char **argv) {
	lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!lib) { fprintf(stderr, "%s\n", dlerror()); return 1; }
	void *ctx;
	int dev;
	const char *what = argc > 1 ? argv[1] : "samples";
	int r = cuInit(0);
	if (r == 0) r = cuDeviceGet(&dev, 0);
	if (r == 0) r = cuDevicePrimaryCtxRetain(&ctx, dev);
	if (r == 0) r = cuCtxSetCurrent(ctx);
	if (r) { printf("no device %d\n", r); return 1; }
	cuMemAlloc_v2(&in, 16 * MOST);
	cuMemAlloc_v2(&out, 16 * MOST);
	if (!strcmp(what, "samples")) samples();
	else if (!strcmp(what, "fit")) fit();
	else if (!strcmp(what, "memory")) memory();
	else if (!strcmp(what, "query")) query();
	else if (!strcmp(what, "surfaces")) surfaces();
	else if (!strcmp(what, "errors")) errors();
	else fault(what);
	fflush(stdout);
	return 0;
}
