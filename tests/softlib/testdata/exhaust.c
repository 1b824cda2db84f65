// A program in C that has used libcuda.so.1 when it uses up its memory: exhaust LIBRARY RESOURCE MIB. The limit of the
// resource, address or data, may be smaller than what the process has. Threads that call the library for the first time
// create things, of which each call must succeed or return 2, and destroy things, which must succeed. Another one asks
// so often that the Go heap, which is large, has to grow. It writes what is wrong.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

typedef void *handle;
typedef unsigned long long address;

static void *library;

#define CALL(name, types, ...) (((int (*) types)dlsym(library, #name))(__VA_ARGS__))

// NEED makes a call that must succeed. MAY makes one that may lack memory, and reports whether it has succeeded.
#define NEED(name, types, ...) check(#name, CALL(name, types, __VA_ARGS__), 0)
#define MAY(name, types, ...) (!check(#name, CALL(name, types, __VA_ARGS__), 2))

static int check(const char *name, int result, int also)
{
	if (result && result != also)
		printf("%s %d\n", name, result);
	return result;
}

enum { THINGS = 20, WORKERS = 40, ROUNDS = 200, GRAPHS = 10, NODES = 20000, QUESTIONS = 300 };

static handle context, stream[THINGS], event[THINGS], module, function;
static handle graph[GRAPHS];
static address memory[THINGS];

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry one(.param .u64 p)\n{\n.reg .b64 %rd<2>;\n"
	"ld.param.u64 %rd1, [p];\nst.global.u32 [%rd1], 7;\nret;\n}\n";

static pthread_barrier_t exhausted;

// worker creates things and destroys them.
static void *worker(void *unused)
{
	pthread_barrier_wait(&exhausted);
	NEED(cuCtxSetCurrent, (handle), context);
	for (int i = 0; i < ROUNDS; i++) {
		address m;
		handle s, other;
		if (MAY(cuMemAlloc_v2, (address *, size_t), &m, 1 << 20))
			NEED(cuMemFree_v2, (address), m);
		if (MAY(cuStreamCreate, (handle *, int), &s, 1))
			NEED(cuStreamDestroy_v2, (handle), s);
		if (MAY(cuModuleLoadData, (handle *, const void *), &other, ptx))
			NEED(cuModuleUnload, (handle), other);
	}
	return unused;
}

// ender destroys what there was before.
static void *ender(void *unused)
{
	pthread_barrier_wait(&exhausted);
	NEED(cuCtxSetCurrent, (handle), context);
	for (int i = 0; i < THINGS; i++) {
		NEED(cuStreamSynchronize, (handle), stream[i]);
		NEED(cuStreamDestroy_v2, (handle), stream[i]);
		NEED(cuEventDestroy_v2, (handle), event[i]);
		NEED(cuMemFree_v2, (address), memory[i]);
	}
	NEED(cuModuleUnload, (handle), module);
	return unused;
}

// ask asks for the nodes of the graphs, and destroys them.
static void ask(void)
{
	static handle nodes[NODES]; // the stack cannot grow
	size_t n = NODES;
	for (int i = 0; i < QUESTIONS; i++)
		for (int g = 0; g < GRAPHS; g++)
			NEED(cuGraphGetNodes, (handle, handle *, size_t *), graph[g], nodes, &n);
	for (int g = 0; g < GRAPHS; g++)
		NEED(cuGraphDestroy, (handle), graph[g]);
}

static void hoard(void)
{
	for (size_t n = (size_t)1 << 40; n >= 4096; n /= 2)
		while (mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED)
			;
}

int main(int argc, char **argv)
{
	pthread_t threads[WORKERS];
	pthread_attr_t small;
	int device;
	if (argc != 4)
		return 2;
	if (!(library = dlopen(argv[1], RTLD_NOW))) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	NEED(cuInit, (int), 0);
	NEED(cuDeviceGet, (int *, int), &device, 0);
	NEED(cuDevicePrimaryCtxRetain, (handle *, int), &context, 0);
	NEED(cuCtxSetCurrent, (handle), context);
	for (int i = 0; i < THINGS; i++) {
		NEED(cuStreamCreate, (handle *, int), &stream[i], 1);
		NEED(cuEventCreate, (handle *, int), &event[i], 0);
		NEED(cuMemAlloc_v2, (address *, size_t), &memory[i], 1 << 20);
		NEED(cuMemsetD8_v2, (address, int, size_t), memory[i], 1, 1 << 20); // it has memory now
	}
	NEED(cuModuleLoadData, (handle *, const void *), &module, ptx);
	NEED(cuModuleGetFunction, (handle *, handle, const char *), &function, module, "one");
	for (int g = 0; g < GRAPHS; g++) {
		handle node;
		NEED(cuGraphCreate, (handle *, int), &graph[g], 0);
		for (int i = 0; i < NODES; i++)
			NEED(cuGraphAddEmptyNode, (handle *, handle, handle *, size_t), &node, graph[g], NULL, 0);
	}
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	pthread_barrier_init(&exhausted, NULL, WORKERS + 1);
	for (int i = 0; i < WORKERS; i++)
		if (pthread_create(&threads[i], &small, i ? worker : ender, NULL))
			return 3;
	struct rlimit limit = {(rlim_t)atol(argv[3]) << 20, RLIM_INFINITY};
	if (setrlimit(strcmp(argv[2], "data") ? RLIMIT_AS : RLIMIT_DATA, &limit))
		return 4;
	hoard();
	void *params[] = {&memory[0]};
	for (int i = 0; i < THINGS; i++)
		(void)MAY(cuLaunchKernel, (handle, int, int, int, int, int, int, int, handle, void **, void **), function, 1, 1, 1, 1, 1,
		    1, 0, stream[0], params, NULL);
	pthread_barrier_wait(&exhausted);
	ask();
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
