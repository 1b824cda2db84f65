// A program in C that loads a kernel in all ways that the driver's manual describes, launches it in all ways, and
// compares what it has written: load LIBRARY DIRECTORY. It exits with 0, or says what is wrong.
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle;
typedef unsigned long long address;

static void *library;

// CALL calls a function of the driver. Its arguments have the types that C gives them.
#define CALL(name, ...) (((int (*)())symbol(#name))(__VA_ARGS__))
#define WANT(result, name, ...)                                                           \
	do {                                                                                  \
		int answer = CALL(name, __VA_ARGS__);                                                \
		if (answer != (result)) {                                                            \
			fprintf(stderr, "%s:%d: %s: %d, want %d\n", __FILE__, __LINE__, #name, answer, (int)(result)); \
			exit(1);                                                                      \
		}                                                                                 \
	} while (0)
#define OK(name, ...) WANT(0, name, __VA_ARGS__)
#define CHECK(condition)                                                                  \
	do {                                                                                  \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
			exit(1);                                                                      \
		}                                                                                 \
	} while (0)

static void *symbol(const char *name)
{
	void *p = dlsym(library, name);
	if (!p) {
		fprintf(stderr, "no %s\n", name);
		exit(1);
	}
	return p;
}

// The kernel adds a number to each element, and the variable's value. Its second function is in another text.
#define HEADER ".version 6.0\n.target sm_50\n.address_size 64\n"
#define KERNEL(other) HEADER other                                                        \
	".visible .global .align 4 .u32 bias = 1;\n"                                          \
	".visible .entry add(.param .u64 p, .param .u32 n) {\n"                               \
	"	.reg .b64 a, b; .reg .b32 i, x, y; .param .b32 v<2>; .param .b32 r;\n"            \
	"	ld.param.u64 a, [p]; mov.u32 i, %tid.x; mul.wide.u32 b, i, 4; add.u64 a, a, b;\n" \
	"	ld.global.u32 x, [a]; ld.param.u32 y, [n];\n"                                     \
	"	st.param.b32 [v0], x; st.param.b32 [v1], y; call (r), plus, (v0, v1); ld.param.b32 x, [r];\n" \
	"	ld.global.u32 y, [bias]; add.u32 x, x, y; st.global.u32 [a], x; ret;\n}\n"
#define PLUS "(.param .b32 r) plus(.param .b32 a, .param .b32 b)"
#define BODY " { .reg .b32 x, y; ld.param.b32 x, [a]; ld.param.b32 y, [b]; add.u32 x, x, y;" \
	" st.param.b32 [r], x; ret; }\n"

static const char whole[] = KERNEL(".func " PLUS BODY);
static const char half[] = KERNEL(".extern .func " PLUS ";\n");
static const char other[] = HEADER ".visible .func " PLUS BODY;

enum { threads = 4 };
static address memory;
static unsigned expected;

// added checks that a launch has added to all elements.
static void added(unsigned n)
{
	unsigned got[threads];
	OK(cuCtxSynchronize);
	OK(cuMemcpyDtoH_v2, got, memory, sizeof got);
	expected += n;
	for (int i = 0; i < threads; i++)
		if (got[i] != expected) {
			fprintf(stderr, "element %d is %u, want %u\n", i, got[i], expected);
			exit(1);
		}
}

// launch launches a function, or a kernel of a library, in all ways.
static void launch(handle f, int library_kernel)
{
	unsigned n = 10;
	void *params[] = {&memory, &n};
	OK(cuLaunchKernel, f, 1, 1, 1, threads, 1, 1, 0, NULL, params, NULL);
	added(11);

	struct { address p; unsigned n; } packed = {memory, 20};
	size_t size = offsetof(typeof(packed), n) + sizeof n; // without what C adds to the struct
	void *extra[] = {(void *)1, &packed, (void *)2, &size, NULL};
	OK(cuLaunchKernel, f, 1, 1, 1, threads, 1, 1, 0, NULL, NULL, extra);
	added(21);

	if (!library_kernel) { // as before CUDA 4
		OK(cuFuncSetBlockShape, f, threads, 1, 1);
		OK(cuFuncSetSharedSize, f, 16);
		OK(cuParamSetSize, f, size);
		OK(cuParamSetv, f, 0, &memory, sizeof memory);
		OK(cuParamSeti, f, (int)sizeof memory, 30);
		OK(cuLaunch, f);
		added(31);
		OK(cuLaunchGrid, f, 1, 1);
		added(31);
		union { unsigned bits; float number; } forty = {40};
		CHECK(((int (*)(handle, int, float))symbol("cuParamSetf"))(f, (int)sizeof memory, forty.number) == 0);
		OK(cuLaunchGridAsync, f, 1, 1, NULL);
		added(41);
		WANT(1, cuFuncSetBlockShape, f, 0, 1, 1);
		WANT(1, cuParamSetSize, f, 5000);
		WANT(1, cuParamSetv, f, 4090, &memory, sizeof memory);
		WANT(1, cuParamSetv, f, -1, &memory, sizeof memory);
		WANT(1, cuParamSetv, f, 0, NULL, sizeof memory);
		WANT(1, cuLaunchGrid, f, 0, 1);
		WANT(400, cuLaunch, NULL);
		added(0);
	}

	struct { unsigned grid[3], block[3], shared; handle stream; void *attributes; unsigned count; } config =
		{{1, 1, 1}, {threads, 1, 1}, 0, NULL, NULL, 0};
	OK(cuLaunchKernelEx, &config, f, params, NULL);
	added(11);
	OK(cuLaunchCooperativeKernel, f, 1, 1, 1, threads, 1, 1, 0, NULL, params);
	added(11);

	handle graph, node, exec;
	struct { handle f; unsigned grid[3], block[3], shared; void **params, **extra; handle kernel, ctx; } about =
		{f, {1, 1, 1}, {threads, 1, 1}, 0, params, NULL, NULL, NULL};
	if (library_kernel)
		about.f = NULL, about.kernel = f;
	OK(cuGraphCreate, &graph, 0);
	OK(cuGraphAddKernelNode_v2, &node, graph, NULL, (size_t)0, &about);
	OK(cuGraphInstantiateWithFlags, &exec, graph, (uint64_t)0);
	OK(cuGraphLaunch, exec, NULL);
	added(11);
	about.params = NULL, about.extra = extra;
	OK(cuGraphExecKernelNodeSetParams_v2, exec, node, &about);
	OK(cuGraphLaunch, exec, NULL);
	added(21);
	OK(cuGraphExecDestroy, exec);
	OK(cuGraphDestroy, graph);
}

// The callback of an occupancy: what it returns, and what it was called with.
static handle asked;
static size_t each, constant;
static int asks, largest, smallest;

static size_t shared_of(int threads)
{
	int value = 0;
	OK(cuFuncGetAttribute, &value, 0, asked); // calls of the driver are allowed
	CHECK(threads > 0 && threads <= value && (!asks || threads < smallest));
	if (!asks++)
		largest = threads;
	smallest = threads;
	return constant + each * threads;
}

// occupancy asks for the best size of a block, with and without a function for its shared memory.
static void occupancy(handle f)
{
	asked = f;
	each = 0;
	for (constant = 0; constant <= 256 << 10; constant += 5000)
		for (int limit = 0; limit <= 1024; limit += 100) {
			int grid = -1, block = -1, want_grid = -1, want_block = -1;
			OK(cuOccupancyMaxPotentialBlockSize, &want_grid, &want_block, f, NULL, constant, limit);
			asks = 0;
			OK(cuOccupancyMaxPotentialBlockSize, &grid, &block, f, shared_of, (size_t)7, limit);
			CHECK(grid == want_grid && block == want_block && asks > 0 && largest == (limit ? limit : 1024));
			asks = 0;
			OK(cuOccupancyMaxPotentialBlockSizeWithFlags, &grid, &block, f, shared_of, (size_t)7, limit, 1);
			CHECK(grid == want_grid && block == want_block);
		}
	// With 64 bytes for each thread, a block of more than 768 threads does not fit into 48 KiB.
	int grid = -1, block = -1, active = -1, best = 0, best_block = 0;
	constant = asks = 0;
	each = 64;
	OK(cuOccupancyMaxPotentialBlockSize, &grid, &block, f, shared_of, (size_t)0, 0);
	for (int threads = 1024; threads > 0; threads -= 32) {
		OK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &active, f, threads, each * threads);
		if (active * threads > best) {
			best = active * threads;
			best_block = threads;
		}
	}
	CHECK(block == best_block && block < 1024 && grid > 0);
}

// use uses a module.
static void use(handle m)
{
	handle f;
	address variable;
	size_t size;
	int value, blocks, threads_of_block;
	OK(cuModuleGetFunction, &f, m, "add");
	WANT(500, cuModuleGetFunction, &f, m, "subtract");
	OK(cuModuleGetGlobal_v2, &variable, &size, m, "bias");
	CHECK(size == 4);
	OK(cuFuncGetAttribute, &value, 0, f); // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
	CHECK(value == 1024);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, f, 1024, (size_t)0);
	CHECK(blocks == 2);
	OK(cuOccupancyMaxPotentialBlockSize, &blocks, &threads_of_block, f, NULL, (size_t)0, 0);
	CHECK(blocks > 0 && threads_of_block == 1024);
	occupancy(f);
	OK(cuFuncLoad, f);
	launch(f, 0);
	OK(cuModuleUnload, m);
}

// file writes a file, and returns its path.
static const char *file(const char *directory, const char *name, const char *text)
{
	static char path[4096];
	CHECK(snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path);
	FILE *f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
	return path;
}

int main(int argc, char **argv)
{
	handle ctx, m, l, k, f, state;
	char info[512] = "", problem[512] = "";
	int options[] = {3, 4, 5, 6, 12}; // the logs and their sizes, and CU_JIT_LOG_VERBOSE
	void *values[5];
#define LOGS (values[0] = info, values[1] = (void *)sizeof info, values[2] = problem, \
	values[3] = (void *)sizeof problem, values[4] = (void *)1)
	CHECK(argc == 3);
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	OK(cuInit, 0);
	OK(cuDevicePrimaryCtxRetain, &ctx, 0);
	OK(cuCtxSetCurrent, ctx);
	OK(cuMemAlloc_v2, &memory, (size_t)(4 * threads));
	OK(cuMemsetD32_v2, memory, 0, (size_t)threads);

	OK(cuModuleLoadData, &m, whole);
	use(m);
	OK(cuModuleLoadDataEx, &m, whole, 0, NULL, NULL);
	use(m);
	LOGS;
	OK(cuModuleLoadDataEx, &m, whole, 5, options, values);
	CHECK(strstr(info, "add") && (size_t)values[1] == strlen(info) + 1 && !*problem);
	use(m);
	LOGS;
	WANT(218, cuModuleLoadDataEx, &m, HEADER ".entry broken(", 5, options, values);
	CHECK(strstr(problem, "line 4"));
	OK(cuModuleLoad, &m, file(argv[2], "whole.ptx", whole));
	use(m);
	WANT(301, cuModuleLoad, &m, "/nowhere/whole.ptx");

	OK(cuLibraryLoadData, &l, whole, NULL, NULL, 0, NULL, NULL, 0);
	OK(cuLibraryGetModule, &m, l);
	OK(cuLibraryGetKernel, &k, l, "add");
	OK(cuKernelGetFunction, &f, k);
	launch(f, 0);
	launch(k, 1);
	OK(cuLibraryUnload, l);
	OK(cuLibraryLoadFromFile, &l, file(argv[2], "whole.ptx", whole), NULL, NULL, 0, NULL, NULL, 0);
	OK(cuLibraryGetKernel, &k, l, "add");
	launch(k, 1);
	OK(cuLibraryUnload, l);

	// A name is optional.
	const char *names[] = {"half", "", NULL};
	for (int i = 0; i < 3; i++) {
		void *image;
		size_t size;
		LOGS;
		*problem = 0;
		OK(cuLinkCreate_v2, 5, options, values, &state);
		OK(cuLinkAddData_v2, state, 1, half, sizeof half, names[i], 0, NULL, NULL);
		if (i == 0)
			OK(cuLinkAddFile_v2, state, 1, file(argv[2], "other.ptx", other), 0, NULL, NULL);
		else
			OK(cuLinkAddData_v2, state, 1, other, sizeof other, names[i], 0, NULL, NULL);
		OK(cuLinkComplete, state, &image, &size);
		CHECK(size > 0 && !*problem);
		OK(cuModuleLoadData, &m, image);
		OK(cuLinkDestroy, state);
		use(m);
	}
	LOGS;
	OK(cuLinkCreate_v2, 5, options, values, &state);
	OK(cuLinkAddData_v2, state, 1, half, sizeof half, NULL, 0, NULL, NULL);
	void *image;
	size_t size;
	CHECK(CALL(cuLinkComplete, state, &image, &size) != 0);
	CHECK(strstr(problem, "plus"));
	OK(cuLinkDestroy, state);
	OK(cuMemFree_v2, memory);
	OK(cuDevicePrimaryCtxRelease_v2, 0);
	// As before CUDA 4, contexts count their users.
	handle made, same, current;
	OK(cuCtxCreate_v2, &made, 0, 0);
	OK(cuCtxAttach, &same, 0);
	CHECK(same == made);
	WANT(1, cuCtxAttach, &same, 1);
	OK(cuCtxDetach, made);
	OK(cuCtxGetCurrent, &current);
	CHECK(current == made);
	WANT(201, cuCtxDetach, NULL);
	OK(cuCtxDetach, made);
	OK(cuCtxGetCurrent, &current);
	CHECK(current != made);
	return 0;
}
