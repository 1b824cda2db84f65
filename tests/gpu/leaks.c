// Asks whether the driver keeps memory of objects that were created and destroyed. A soak test cannot tell such memory
// from memory that the program leaks.
//
// It takes no CUDA headers:
//
//	gcc -O1 -o leaks tests/gpu/leaks.c -ldl
//	./leaks >leaks.tsv         # all rows, about a minute
//	./leaks cuGreenCtx         # only rows with this in their names
//
// Each row has a process of its own. It makes the calls 100 times, and then 400 times more. The row says by how
// much the device memory in use, the resident memory and the mappings of the process grew meanwhile, for one time.
#define _GNU_SOURCE
#include "blocking.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BEFORE = 100, TIMES = 400 };

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry small() { ret; }\n";

static H ctx, stream, small, module, event, graph, green;
static H description;

static int missing(void) { return -1; }

#define ok(call) check(call, #call)
static void check(int r, const char *call) {
	if (r) {
		printf("not measured: %.*s answers %d\n", (int)strcspn(call, "("), call, r);
		fflush(stdout);
		_exit(3);
	}
}

static int launch(H s) { return cuLaunchKernel(small, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL); }

static void prepare_green(void) {
	static Resource all, some, rest;
	U n = 1;
	ok(cuDeviceGetDevResource(0, &all, RESOURCE_SM));
	ok(cuDevSmResourceSplitByCount(&some, &n, &all, &rest, 0, 8));
	ok(cuDevResourceGenerateDesc(&description, &some, 1));
}

static void nothing(void) {}
static void streams(void) {
	H s;
	ok(cuStreamCreate(&s, STREAM_NON_BLOCKING));
	ok(cuStreamDestroy(s));
}
static void used_streams(void) {
	H s;
	ok(cuStreamCreate(&s, STREAM_NON_BLOCKING));
	ok(launch(s));
	ok(cuStreamDestroy(s));
}
static void events(void) {
	H e;
	ok(cuEventCreate(&e, EVENT_TIMED));
	ok(cuEventRecord(e, stream));
	ok(cuEventDestroy(e));
}
static void shared_events(void) {
	H e;
	Ipc handle;
	ok(cuEventCreate(&e, EVENT_INTERPROCESS));
	ok(cuIpcGetEventHandle(&handle, e));
	ok(cuEventDestroy(e));
}
static void memory(void) {
	D d;
	ok(cuMemAlloc(&d, 4096));
	ok(cuMemFree(d));
}
static void pinned(void) {
	void *p;
	ok(cuMemHostAlloc(&p, 4096, HOST_MAPPED));
	ok(cuMemFreeHost(p));
}
static void modules(void) {
	H m, f;
	ok(cuModuleLoadData(&m, ptx));
	ok(cuModuleGetFunction(&f, m, "small"));
	ok(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	ok(cuModuleUnload(m));
}
static void captures(void) {
	H g;
	ok(cuStreamBeginCapture(stream, CAPTURE_RELAXED));
	ok(launch(stream));
	ok(cuStreamEndCapture(stream, &g));
	ok(cuGraphDestroy(g));
}
static void graphs(void) {
	H x;
	ok(cuGraphInstantiateWithFlags(&x, graph, 0));
	ok(cuGraphExecDestroy(x));
}
static void used_graphs(void) {
	H x;
	ok(cuGraphInstantiateWithFlags(&x, graph, 0));
	ok(cuGraphLaunch(x, stream));
	ok(cuGraphExecDestroy(x));
}
static void greens(void) {
	H g;
	ok(cuGreenCtxCreate(&g, description, 0, GREEN_DEFAULT_STREAM));
	ok(cuGreenCtxDestroy(g));
}
static void descriptions(void) { prepare_green(); }
static void green_streams(void) {
	H s;
	ok(cuGreenCtxStreamCreate(&s, green, STREAM_NON_BLOCKING, 0));
	ok(launch(s));
	ok(cuStreamDestroy(s));
}
static void greens_with_streams(void) {
	H g, s;
	ok(cuGreenCtxCreate(&g, description, 0, GREEN_DEFAULT_STREAM));
	ok(cuGreenCtxStreamCreate(&s, g, STREAM_NON_BLOCKING, 0));
	ok(launch(s));
	ok(cuStreamSynchronize(s));
	ok(cuStreamDestroy(s));
	ok(cuGreenCtxDestroy(g));
}
static void greens_before_streams(void) {
	H g, s;
	ok(cuGreenCtxCreate(&g, description, 0, GREEN_DEFAULT_STREAM));
	ok(cuGreenCtxStreamCreate(&s, g, STREAM_NON_BLOCKING, 0));
	ok(cuStreamSynchronize(s));
	ok(cuGreenCtxDestroy(g));
	cuStreamDestroy(s);
}
static void call(void *arg) { (void)arg; }
static void host_functions(void) { ok(cuLaunchHostFunc(stream, call, NULL)); }
static void contexts(void) {
	H c, popped;
	ok(cuCtxCreate_v2(&c, 0, 0));
	ok(cuCtxPopCurrent(&popped));
	ok(cuCtxDestroy(c));
}

static const struct row {
	const char *name;
	void (*prepare)(void), (*turn)(void);
	int times;
} rows[] = {
	{"nothing", nothing, nothing, 0},
	{"cuStreamCreate, cuStreamDestroy", nothing, streams, 0},
	{"cuStreamCreate, cuLaunchKernel, cuStreamDestroy", nothing, used_streams, 0},
	{"cuEventCreate, cuEventRecord, cuEventDestroy", nothing, events, 0},
	{"cuEventCreate, cuIpcGetEventHandle, cuEventDestroy", nothing, shared_events, 0},
	{"cuMemAlloc, cuMemFree", nothing, memory, 0},
	{"cuMemHostAlloc, cuMemFreeHost", nothing, pinned, 0},
	{"cuModuleLoadData, cuLaunchKernel, cuModuleUnload", nothing, modules, 0},
	{"cuStreamBeginCapture, cuLaunchKernel, cuStreamEndCapture, cuGraphDestroy", nothing, captures, 0},
	{"cuGraphInstantiateWithFlags, cuGraphExecDestroy", nothing, graphs, 0},
	{"cuGraphInstantiateWithFlags, cuGraphLaunch, cuGraphExecDestroy", nothing, used_graphs, 0},
	{"cuLaunchHostFunc", nothing, host_functions, 0},
	{"cuDevSmResourceSplitByCount, cuDevResourceGenerateDesc", nothing, descriptions, 0},
	{"cuGreenCtxCreate, cuGreenCtxDestroy", prepare_green, greens, 0},
	{"cuGreenCtxStreamCreate, cuLaunchKernel, cuStreamDestroy", prepare_green, green_streams, 0},
	{"cuGreenCtxCreate, cuGreenCtxStreamCreate, cuLaunchKernel, cuStreamDestroy, cuGreenCtxDestroy", prepare_green,
	 greens_with_streams, 0},
	{"cuGreenCtxCreate, cuGreenCtxStreamCreate, cuGreenCtxDestroy, cuStreamDestroy", prepare_green,
	 greens_before_streams, 0},
	{"cuCtxCreate, cuCtxDestroy", nothing, contexts, 10},
};

// what is in use: device memory, and the process's resident memory, in KiB, and mappings.
struct use {
	long device, resident, mappings;
};

static struct use now(void) {
	struct use u = {0};
	size_t available = 0, total = 0;
	char line[4096];
	ok(cuCtxSynchronize());
	ok(cuMemGetInfo(&available, &total));
	u.device = (long)((total - available) >> 10);
	FILE *f = fopen("/proc/self/maps", "r");
	for (; f && fgets(line, sizeof line, f); u.mappings++)
		;
	if (f)
		fclose(f);
	f = fopen("/proc/self/statm", "r");
	long size, pages;
	if (f && fscanf(f, "%ld %ld", &size, &pages) == 2)
		u.resident = pages * (sysconf(_SC_PAGESIZE) >> 10);
	if (f)
		fclose(f);
	return u;
}

static void run(const struct row *r) {
	int before = r->times ? r->times / 2 : BEFORE, times = r->times ? r->times : TIMES;
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib)
		printf("not measured: %s\n", dlerror()), fflush(stdout), _exit(3);
#define LOOK_UP(name, export, parameters)                                                                              \
	if (!(*(void **)&name = dlsym(lib, export)))                                                                   \
		*(void **)&name = (void *)(uintptr_t)missing;
	FUNCTIONS(LOOK_UP)
	ok(cuInit(0));
	ok(cuDevicePrimaryCtxRetain(&ctx, 0));
	ok(cuCtxSetCurrent(ctx));
	ok(cuModuleLoadData(&module, ptx));
	ok(cuModuleGetFunction(&small, module, "small"));
	ok(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
	ok(cuEventCreate(&event, EVENT_UNTIMED));
	ok(launch(stream));
	ok(cuStreamBeginCapture(stream, CAPTURE_RELAXED));
	for (int i = 0; i < 4; i++)
		ok(launch(stream));
	ok(cuStreamEndCapture(stream, &graph));
	r->prepare();
	if (strstr(r->name, "cuGreenCtxStreamCreate, cuLaunchKernel, cuStreamDestroy") == r->name)
		ok(cuGreenCtxCreate(&green, description, 0, GREEN_DEFAULT_STREAM));
	for (int i = 0; i < before; i++)
		r->turn();
	struct use a = now();
	for (int i = 0; i < times; i++)
		r->turn();
	struct use b = now();
	printf("%d\t%.1f\t%.1f\t%.2f\n", times, (double)(b.device - a.device) / times,
	       (double)(b.resident - a.resident) / times, (double)(b.mappings - a.mappings) / times);
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv) {
	printf("# What the driver keeps of what was destroyed. Made by tests/gpu/leaks.c.\n"
	       "# calls\ttimes\tKiB of device memory\tKiB resident\tmappings, for one time\n");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int wanted = argc < 2, status = 0;
		for (int k = 1; k < argc; k++)
			wanted |= strstr(rows[i].name, argv[k]) != NULL;
		if (!wanted)
			continue;
		printf("%s\t", rows[i].name);
		fflush(stdout);
		pid_t child = fork();
		if (child == 0)
			run(&rows[i]);
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			printf("not measured: signal %d\n", WTERMSIG(status));
		fflush(stdout);
	}
	return 0;
}
