// A program in C that loads libcuda.so.1 as programs load NVIDIA's, by its path and by
// the functions' names: host LIBRARY SCENARIO. It exits with 0, or says what is wrong.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *handle;
typedef unsigned long long address;

static void *library;

#define CHECK(condition)                                                                  \
	do {                                                                                  \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
			_exit(1);                                                                     \
		}                                                                                 \
	} while (0)

#define WANT(result, call)                                                                \
	do {                                                                                  \
		int got = (call);                                                                 \
		if (got != (result)) {                                                            \
			fprintf(stderr, "%s:%d: %d, want %d: %s\n", __FILE__, __LINE__, got, (int)(result), #call); \
			_exit(1);                                                                     \
		}                                                                                 \
	} while (0)

#define OK(call) WANT(0, call)

static void *symbol(const char *name)
{
	void *p = dlsym(library, name);
	if (!p) {
		fprintf(stderr, "no %s\n", name);
		_exit(1);
	}
	return p;
}

// F declares a function of the driver's.
#define F(name, ...) static int name(__VA_ARGS__)
#define AS(name, types, args) { static int (*function) types; if (!function) function = symbol(#name); return function args; }

F(cuInit, unsigned flags) AS(cuInit, (unsigned), (flags))
F(cuProfilerStart, void) AS(cuProfilerStart, (void), ())
F(cuProfilerStop, void) AS(cuProfilerStop, (void), ())
F(cuGLInit, void) AS(cuGLInit, (void), ())
F(cuDriverGetVersion, int *v) AS(cuDriverGetVersion, (int *), (v))
F(cuGetExportTable, const void **t, const void *id) AS(cuGetExportTable, (const void **, const void *), (t, id))
F(cuGetErrorName, int r, const char **s) AS(cuGetErrorName, (int, const char **), (r, s))
F(cuGetErrorString, int r, const char **s) AS(cuGetErrorString, (int, const char **), (r, s))
F(cuGetProcAddress_v2, const char *n, void **p, int v, uint64_t f, int *s) AS(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *), (n, p, v, f, s))
F(cuLogsCurrent, unsigned *at, unsigned f) AS(cuLogsCurrent, (unsigned *, unsigned), (at, f))
F(cuLogsDumpToMemory, unsigned *at, char *b, uint64_t *n, unsigned f) AS(cuLogsDumpToMemory,
	(unsigned *, char *, uint64_t *, unsigned), (at, b, n, f))
F(cuCheckpointProcessGetState, int p, int *s) AS(cuCheckpointProcessGetState, (int, int *), (p, s))
F(cuCheckpointProcessLock, int p, void *a) AS(cuCheckpointProcessLock, (int, void *), (p, a))
F(cuCheckpointProcessCheckpoint, int p, void *a) AS(cuCheckpointProcessCheckpoint, (int, void *), (p, a))
F(cuCheckpointProcessRestore, int p, void *a) AS(cuCheckpointProcessRestore, (int, void *), (p, a))
F(cuCheckpointProcessUnlock, int p, void *a) AS(cuCheckpointProcessUnlock, (int, void *), (p, a))
F(cuDeviceGetUuid_v2, void *id, int d) AS(cuDeviceGetUuid_v2, (void *, int), (id, d))
F(cuDeviceGetCount, int *n) AS(cuDeviceGetCount, (int *), (n))
F(cuDeviceGet, int *d, int n) AS(cuDeviceGet, (int *, int), (d, n))
F(cuDeviceGetName, char *s, int n, int d) AS(cuDeviceGetName, (char *, int, int), (s, n, d))
F(cuDeviceComputeCapability, int *a, int *b, int d) AS(cuDeviceComputeCapability, (int *, int *, int), (a, b, d))
F(cuDevicePrimaryCtxRetain, handle *c, int d) AS(cuDevicePrimaryCtxRetain, (handle *, int), (c, d))
F(cuDevicePrimaryCtxRelease_v2, int d) AS(cuDevicePrimaryCtxRelease_v2, (int), (d))
F(cuCtxSetCurrent, handle c) AS(cuCtxSetCurrent, (handle), (c))
F(cuCtxGetCurrent, handle *c) AS(cuCtxGetCurrent, (handle *), (c))
F(cuCtxPushCurrent_v2, handle c) AS(cuCtxPushCurrent_v2, (handle), (c))
F(cuCtxPopCurrent_v2, handle *c) AS(cuCtxPopCurrent_v2, (handle *), (c))
F(cuCtxSynchronize, void) AS(cuCtxSynchronize, (void), ())
F(cuCtxGetDevice_v2, int *d, handle c) AS(cuCtxGetDevice_v2, (int *, handle), (d, c))
F(cuCtxSynchronize_v2, handle c) AS(cuCtxSynchronize_v2, (handle), (c))
F(cuCtxGetStreamPriorityRange, int *a, int *b) AS(cuCtxGetStreamPriorityRange, (int *, int *), (a, b))
F(cuEventCreate, handle *e, unsigned f) AS(cuEventCreate, (handle *, unsigned), (e, f))
F(cuEventDestroy_v2, handle e) AS(cuEventDestroy_v2, (handle), (e))
F(cuEventRecord, handle e, handle s) AS(cuEventRecord, (handle, handle), (e, s))
F(cuEventQuery, handle e) AS(cuEventQuery, (handle), (e))
F(cuEventSynchronize, handle e) AS(cuEventSynchronize, (handle), (e))
F(cuEventElapsedTime_v2, float *ms, handle a, handle b) AS(cuEventElapsedTime_v2, (float *, handle, handle), (ms, a, b))
F(cuStreamCreate, handle *s, unsigned f) AS(cuStreamCreate, (handle *, unsigned), (s, f))
F(cuStreamDestroy_v2, handle s) AS(cuStreamDestroy_v2, (handle), (s))
F(cuStreamQuery, handle s) AS(cuStreamQuery, (handle), (s))
F(cuStreamQuery_ptsz, handle s) AS(cuStreamQuery_ptsz, (handle), (s))
F(cuStreamSynchronize, handle s) AS(cuStreamSynchronize, (handle), (s))
F(cuStreamWaitValue32_v2, handle s, address p, unsigned v, unsigned f) AS(cuStreamWaitValue32_v2, (handle, address, unsigned, unsigned), (s, p, v, f))
F(cuStreamGetId, handle s, uint64_t *id) AS(cuStreamGetId, (handle, uint64_t *), (s, id))
F(cuStreamGetId_ptsz, handle s, uint64_t *id) AS(cuStreamGetId_ptsz, (handle, uint64_t *), (s, id))
F(cuStreamBeginCapture, handle s) AS(cuStreamBeginCapture, (handle), (s))
F(cuStreamBeginCapture_v2_ptsz, handle s, int mode) AS(cuStreamBeginCapture_v2_ptsz, (handle, int), (s, mode))
F(cuStreamGetCaptureInfo, handle s, int *st, uint64_t *id) AS(cuStreamGetCaptureInfo, (handle, int *, uint64_t *), (s, st, id))
F(cuStreamEndCapture, handle s, handle *g) AS(cuStreamEndCapture, (handle, handle *), (s, g))
F(cuGraphInstantiate_v2, handle *x, handle g, handle *n, char *log, size_t size) AS(cuGraphInstantiate_v2, (handle *, handle, handle *, char *, size_t), (x, g, n, log, size))
F(cuGraphGetNodes, handle g, handle *nodes, size_t *n) AS(cuGraphGetNodes, (handle, handle *, size_t *), (g, nodes, n))
F(cuGraphGetEdges, handle g, handle *from, handle *to, size_t *n) AS(cuGraphGetEdges, (handle, handle *, handle *, size_t *), (g, from, to, n))
F(cuGraphExecUpdate, handle x, handle g, handle *n, int *r) AS(cuGraphExecUpdate, (handle, handle, handle *, int *), (x, g, n, r))
F(cuGraphExecUpdate_v2, handle x, handle g, void *info) AS(cuGraphExecUpdate_v2, (handle, handle, void *), (x, g, info))
F(cuGraphLaunch, handle x, handle s) AS(cuGraphLaunch, (handle, handle), (x, s))
F(cuGraphExecDestroy, handle x) AS(cuGraphExecDestroy, (handle), (x))
F(cuGraphDestroy, handle g) AS(cuGraphDestroy, (handle), (g))
F(cuGraphCreate, handle *g, unsigned f) AS(cuGraphCreate, (handle *, unsigned), (g, f))
F(cuGraphAddKernelNode, handle *n, handle g, handle *d, size_t c, void *p) AS(cuGraphAddKernelNode,
	(handle *, handle, handle *, size_t, void *), (n, g, d, c, p))
F(cuGraphAddKernelNode_v2, handle *n, handle g, handle *d, size_t c, void *p) AS(cuGraphAddKernelNode_v2,
	(handle *, handle, handle *, size_t, void *), (n, g, d, c, p))
F(cuGraphAddMemcpyNode, handle *n, handle g, handle *d, size_t c, void *p, handle x) AS(cuGraphAddMemcpyNode,
	(handle *, handle, handle *, size_t, void *, handle), (n, g, d, c, p, x))
F(cuGraphAddMemsetNode, handle *n, handle g, handle *d, size_t c, void *p, handle x) AS(cuGraphAddMemsetNode,
	(handle *, handle, handle *, size_t, void *, handle), (n, g, d, c, p, x))
F(cuGraphAddHostNode, handle *n, handle g, handle *d, size_t c, void *p) AS(cuGraphAddHostNode,
	(handle *, handle, handle *, size_t, void *), (n, g, d, c, p))
F(cuGraphAddMemAllocNode, handle *n, handle g, handle *d, size_t c, void *p) AS(cuGraphAddMemAllocNode,
	(handle *, handle, handle *, size_t, void *), (n, g, d, c, p))
F(cuGraphAddMemFreeNode, handle *n, handle g, handle *d, size_t c, address a) AS(cuGraphAddMemFreeNode,
	(handle *, handle, handle *, size_t, address), (n, g, d, c, a))
F(cuDeviceGetGraphMemAttribute, int d, int a, uint64_t *v) AS(cuDeviceGetGraphMemAttribute, (int, int, uint64_t *), (d, a, v))
F(cuDeviceGraphMemTrim, int d) AS(cuDeviceGraphMemTrim, (int), (d))
F(cuGraphAddChildGraphNode, handle *n, handle g, handle *d, size_t c, handle x) AS(cuGraphAddChildGraphNode,
	(handle *, handle, handle *, size_t, handle), (n, g, d, c, x))
F(cuGraphMemsetNodeSetParams, handle n, void *p) AS(cuGraphMemsetNodeSetParams, (handle, void *), (n, p))
F(cuGraphExecKernelNodeSetParams_v2, handle x, handle n, void *p) AS(cuGraphExecKernelNodeSetParams_v2,
	(handle, handle, void *), (x, n, p))
F(cuGraphExecMemcpyNodeSetParams, handle x, handle n, void *p, handle c) AS(cuGraphExecMemcpyNodeSetParams,
	(handle, handle, void *, handle), (x, n, p, c))
F(cuGraphExecHostNodeSetParams, handle x, handle n, void *p) AS(cuGraphExecHostNodeSetParams, (handle, handle, void *),
	(x, n, p))
F(cuGraphNodeSetEnabled, handle x, handle n, unsigned e) AS(cuGraphNodeSetEnabled, (handle, handle, unsigned),
	(x, n, e))
F(cuGraphNodeGetEnabled, handle x, handle n, unsigned *e) AS(cuGraphNodeGetEnabled, (handle, handle, unsigned *),
	(x, n, e))
F(cuGraphDestroyNode, handle n) AS(cuGraphDestroyNode, (handle), (n))
F(cuGraphAddDependencies, handle g, handle *a, handle *b, size_t n) AS(cuGraphAddDependencies,
	(handle, handle *, handle *, size_t), (g, a, b, n))
F(cuGraphRemoveDependencies, handle g, handle *a, handle *b, size_t n) AS(cuGraphRemoveDependencies,
	(handle, handle *, handle *, size_t), (g, a, b, n))
F(cuGraphInstantiateWithParams, handle *x, handle g, void *p) AS(cuGraphInstantiateWithParams,
	(handle *, handle, void *), (x, g, p))
F(cuGraphAddEmptyNode, handle *n, handle g, handle *d, size_t c) AS(cuGraphAddEmptyNode,
	(handle *, handle, handle *, size_t), (n, g, d, c))
F(cuStreamGetCaptureInfo_v2, handle s, int *st, uint64_t *id, handle *g, handle **d, size_t *n) AS(
	cuStreamGetCaptureInfo_v2, (handle, int *, uint64_t *, handle *, handle **, size_t *), (s, st, id, g, d, n))
F(cuStreamUpdateCaptureDependencies, handle s, handle *d, size_t n, unsigned flags) AS(
	cuStreamUpdateCaptureDependencies, (handle, handle *, size_t, unsigned), (s, d, n, flags))
F(cuUserObjectCreate, handle *o, void *d, void (*f)(void *), unsigned n, unsigned flags) AS(cuUserObjectCreate,
	(handle *, void *, void (*)(void *), unsigned, unsigned), (o, d, f, n, flags))
F(cuGraphRetainUserObject, handle g, handle o, unsigned n, unsigned flags) AS(cuGraphRetainUserObject,
	(handle, handle, unsigned, unsigned), (g, o, n, flags))
F(cuLaunchHostFunc, handle s, void (*f)(void *), void *d) AS(cuLaunchHostFunc, (handle, void (*)(void *), void *), (s, f, d))
F(cuStreamAddCallback, handle s, void (*f)(handle, int, void *), void *d, unsigned fl) AS(cuStreamAddCallback, (handle, void (*)(handle, int, void *), void *, unsigned), (s, f, d, fl))
typedef struct { char bytes[64]; } shared;
F(cuIpcGetMemHandle, shared *m, address p) AS(cuIpcGetMemHandle, (shared *, address), (m, p))
F(cuIpcOpenMemHandle_v2, address *p, shared m, unsigned f) AS(cuIpcOpenMemHandle_v2,
	(address *, shared, unsigned), (p, m, f))
F(cuIpcCloseMemHandle, address p) AS(cuIpcCloseMemHandle, (address), (p))
F(cuMemAlloc_v2, address *p, size_t n) AS(cuMemAlloc_v2, (address *, size_t), (p, n))
F(cuMemFree_v2, address p) AS(cuMemFree_v2, (address), (p))
F(cuMemAllocHost_v2, void **p, size_t n) AS(cuMemAllocHost_v2, (void **, size_t), (p, n))
F(cuMemFreeHost, void *p) AS(cuMemFreeHost, (void *), (p))
F(cuMemcpyHtoD_v2, address d, const void *s, size_t n) AS(cuMemcpyHtoD_v2, (address, const void *, size_t), (d, s, n))
F(cuMemcpyDtoH_v2, void *d, address s, size_t n) AS(cuMemcpyDtoH_v2, (void *, address, size_t), (d, s, n))
F(cuMemcpyHtoD_v2_ptds, address d, const void *s, size_t n) AS(cuMemcpyHtoD_v2_ptds, (address, const void *, size_t), (d, s, n))
F(cuMemcpyDtoH_v2_ptds, void *d, address s, size_t n) AS(cuMemcpyDtoH_v2_ptds, (void *, address, size_t), (d, s, n))
F(cuMemcpyHtoDAsync_v2, address d, const void *s, size_t n, handle st) AS(cuMemcpyHtoDAsync_v2, (address, const void *, size_t, handle), (d, s, n, st))
F(cuMemcpyDtoHAsync_v2, void *d, address s, size_t n, handle st) AS(cuMemcpyDtoHAsync_v2, (void *, address, size_t, handle), (d, s, n, st))
F(cuMemcpy, address d, address s, size_t n) AS(cuMemcpy, (address, address, size_t), (d, s, n))
F(cuMemcpyAsync, address d, address s, size_t n, handle st) AS(cuMemcpyAsync, (address, address, size_t, handle), (d, s, n, st))
F(cuMemsetD32_v2, address d, unsigned v, size_t n) AS(cuMemsetD32_v2, (address, unsigned, size_t), (d, v, n))
F(cuMemAddressReserve, address *p, size_t n, size_t a, address h, uint64_t f) AS(cuMemAddressReserve, (address *, size_t, size_t, address, uint64_t), (p, n, a, h, f))
F(cuMemAddressFree, address p, size_t n) AS(cuMemAddressFree, (address, size_t), (p, n))
F(cuMemCreate, uint64_t *h, size_t n, const void *p, uint64_t f) AS(cuMemCreate, (uint64_t *, size_t, const void *, uint64_t), (h, n, p, f))
F(cuMemRelease, uint64_t h) AS(cuMemRelease, (uint64_t), (h))
F(cuMemMap, address p, size_t n, size_t o, uint64_t h, uint64_t f) AS(cuMemMap, (address, size_t, size_t, uint64_t, uint64_t), (p, n, o, h, f))
F(cuMemUnmap, address p, size_t n) AS(cuMemUnmap, (address, size_t), (p, n))
F(cuMemSetAccess, address p, size_t n, const void *d, size_t c) AS(cuMemSetAccess, (address, size_t, const void *, size_t), (p, n, d, c))
F(cuMemExportToShareableHandle, void *s, uint64_t h, int t, uint64_t f) AS(cuMemExportToShareableHandle, (void *, uint64_t, int, uint64_t), (s, h, t, f))
F(cuMemImportFromShareableHandle, uint64_t *h, void *s, int t) AS(cuMemImportFromShareableHandle, (uint64_t *, void *, int), (h, s, t))
F(cuImportExternalMemory, handle *m, const void *d) AS(cuImportExternalMemory, (handle *, const void *), (m, d))
F(cuExternalMemoryGetMappedBuffer, address *p, handle m, const void *d) AS(cuExternalMemoryGetMappedBuffer, (address *, handle, const void *), (p, m, d))
F(cuDestroyExternalMemory, handle m) AS(cuDestroyExternalMemory, (handle), (m))
F(cuImportExternalSemaphore, handle *x, const void *d) AS(cuImportExternalSemaphore, (handle *, const void *), (x, d))
F(cuDestroyExternalSemaphore, handle x) AS(cuDestroyExternalSemaphore, (handle), (x))
F(cuSignalExternalSemaphoresAsync, const handle *x, const void *p, unsigned n, handle s) AS(cuSignalExternalSemaphoresAsync, (const handle *, const void *, unsigned, handle), (x, p, n, s))
F(cuWaitExternalSemaphoresAsync, const handle *x, const void *p, unsigned n, handle s) AS(cuWaitExternalSemaphoresAsync, (const handle *, const void *, unsigned, handle), (x, p, n, s))
F(cuGraphAddExternalSemaphoresWaitNode, handle *n, handle g, const handle *d, size_t c, const void *p) AS(cuGraphAddExternalSemaphoresWaitNode, (handle *, handle, const handle *, size_t, const void *), (n, g, d, c, p))
F(cuGraphExternalSemaphoresWaitNodeGetParams, handle n, void *p) AS(cuGraphExternalSemaphoresWaitNodeGetParams, (handle, void *), (n, p))
F(cuModuleLoad, handle *m, const char *path) AS(cuModuleLoad, (handle *, const char *), (m, path))
F(cuModuleLoadData, handle *m, const void *image) AS(cuModuleLoadData, (handle *, const void *), (m, image))
F(cuModuleLoadDataEx, handle *m, const void *image, unsigned n, int *o, void **v) AS(cuModuleLoadDataEx, (handle *, const void *, unsigned, int *, void **), (m, image, n, o, v))
F(cuModuleGetFunction, handle *f, handle m, const char *n) AS(cuModuleGetFunction, (handle *, handle, const char *), (f, m, n))
F(cuModuleUnload, handle m) AS(cuModuleUnload, (handle), (m))
F(cuFuncGetName, const char **n, handle f) AS(cuFuncGetName, (const char **, handle), (n, f))
F(cuLaunchKernelEx, const void *c, handle f, void **p, void **x) AS(cuLaunchKernelEx, (const void *, handle, void **, void **), (c, f, p, x))
F(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *n, handle f, int b, size_t m, unsigned fl) AS(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int *, handle, int, size_t, unsigned), (n, f, b, m, fl))
F(cuOccupancyMaxPotentialBlockSizeWithFlags, int *g, int *b, handle f, void *sh, size_t m, int l, unsigned fl) AS(cuOccupancyMaxPotentialBlockSizeWithFlags, (int *, int *, handle, void *, size_t, int, unsigned), (g, b, f, sh, m, l, fl))
F(cuMipmappedArrayDestroy, handle a) AS(cuMipmappedArrayDestroy, (handle), (a))

F(cuLaunchKernelEx_ptsz, const void *c, handle f, void **p, void **x)
AS(cuLaunchKernelEx_ptsz, (const void *, handle, void **, void **), (c, f, p, x))

// cuLaunchKernel of one block of threads.
static int launch(handle f, unsigned threads, handle s, void **params)
{
	static int (*call)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **);
	if (!call)
		call = symbol("cuLaunchKernel");
	return call(f, 1, 1, 1, threads, 1, 1, 0, s, params, NULL);
}

static const char ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry spin(.param .u64 ns) {\n"
	".reg .u64 limit, begin, now; .reg .pred more;\n"
	"ld.param.u64 limit, [ns]; mov.u64 begin, %globaltimer;\n"
	"again: mov.u64 now, %globaltimer; sub.u64 now, now, begin; setp.lt.u64 more, now, limit; @more bra again; ret; }\n"
	".visible .entry fill_u32(.param .u64 dst, .param .u32 value, .param .u32 n) {\n"
	".reg .u64 p; .reg .u32 i, v, most; .reg .pred out;\n"
	"mov.u32 i, %tid.x; ld.param.u32 most, [n]; setp.ge.u32 out, i, most; @out ret;\n"
	"ld.param.u64 p, [dst]; mad.wide.u32 p, i, 4, p; ld.param.u32 v, [value]; st.global.u32 [p], v; ret; }\n";

static handle setup(void)
{
	handle ctx;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

// threads counts the threads of this process.
static int threads(void)
{
	int n = 0;
	DIR *d = opendir("/proc/self/task");
	CHECK(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

// maps reports whether a file of this name is mapped.
static int maps(const char *name)
{
	char line[4096];
	int found = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	CHECK(f);
	while (fgets(line, sizeof line, f))
		found |= strstr(line, name) != NULL;
	fclose(f);
	return found;
}

// hold makes a stream wait, until let_go is called with what it returns.
static address hold(handle s)
{
	address gate;
	OK(cuMemAlloc_v2(&gate, 4));
	OK(cuMemsetD32_v2(gate, 0, 1));
	OK(cuStreamWaitValue32_v2(s, gate, 1, 1)); // CU_STREAM_WAIT_VALUE_EQ
	return gate;
}

// let_go lets a non-blocking stream go on, and returns when it has nothing left to do.
static void let_go(address gate)
{
	OK(cuMemsetD32_v2(gate, 1, 1));
	OK(cuMemFree_v2(gate)); // it waits for all
}

// work uses most of what there is.
static void work(void)
{
	handle ctx = setup(), s, start, end, m, f;
	address p;
	unsigned buf[64];
	float ms = -1;
	uint64_t ns = 1000 * 1000;
	unsigned value = 42, n = 64;
	void *spin[] = {&ns}, *fill[] = {&p, &value, &n};

	OK(cuStreamCreate(&s, 1));
	OK(cuEventCreate(&start, 0));
	OK(cuEventCreate(&end, 0));
	CHECK(s && start && end && start != end);
	OK(cuModuleLoadData(&m, ptx));
	OK(cuMemAlloc_v2(&p, sizeof buf));
	OK(cuMemsetD32_v2(p, 7, n));
	OK(cuModuleGetFunction(&f, m, "spin"));
	OK(cuEventRecord(start, s));
	address gate = hold(s);
	OK(launch(f, 1, s, spin));
	OK(cuEventRecord(end, s));
	WANT(600, cuEventQuery(end));
	WANT(600, cuEventElapsedTime_v2(&ms, start, end));
	let_go(gate);
	OK(cuEventQuery(end));
	OK(launch(f, 1, s, spin));
	OK(cuEventRecord(end, s));
	int r;
	while ((r = cuEventQuery(end)) == 600)
		;
	OK(r);
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime_v2(&ms, start, end));
	CHECK(ms >= 0);
	OK(cuModuleGetFunction(&f, m, "fill_u32"));
	OK(cuMemcpyDtoH_v2(buf, p, sizeof buf));
	CHECK(buf[0] == 7 && buf[63] == 7);
	n = 63;
	OK(launch(f, 64, s, fill));
	OK(cuStreamSynchronize(s));
	OK(cuMemcpyDtoH_v2(buf, p, sizeof buf));
	CHECK(buf[0] == 42 && buf[62] == 42 && buf[63] == 7);

	OK(cuMemFree_v2(p));
	OK(cuModuleUnload(m));
	OK(cuEventDestroy_v2(start));
	OK(cuEventDestroy_v2(end));
	OK(cuStreamDestroy_v2(s));
	handle current;
	OK(cuCtxGetCurrent(&current));
	CHECK(current == ctx);
	OK(cuCtxSetCurrent(NULL));
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

// unstarted does what needs no driver behind the stubs.
static void unstarted(void)
{
	int v = 0, status = -1, n;
	const char *s, *again;
	void *p = NULL;
	handle e;
	OK(cuDriverGetVersion(&v));
	CHECK(v == 13000);
	WANT(1, cuDriverGetVersion(NULL));
	OK(cuGetErrorName(600, &s));
	CHECK(!strcmp(s, "CUDA_ERROR_NOT_READY"));
	OK(cuGetErrorName(600, &again));
	CHECK(s == again);
	OK(cuGetErrorString(0, &s));
	CHECK(!strcmp(s, "no error"));
	WANT(1, cuGetErrorName(12345, &s));
	CHECK(!s);
	OK(cuGetProcAddress_v2("cuEventRecord", &p, 12000, 2, &status));
	CHECK(p == symbol("cuEventRecord_ptsz") && status == 0);
	WANT(1, cuInit(1));
	WANT(3, cuDeviceGetCount(&n));
	WANT(3, cuEventCreate(&e, 0));
	WANT(3, cuEventCreate(NULL, 0));
	WANT(400, cuEventQuery(NULL));
	WANT(3, cuMipmappedArrayDestroy(NULL));
	WANT(3, cuProfilerStart());
	WANT(3, cuGLInit());
}

static void lazy(void)
{
	CHECK(threads() == 1);
	unstarted();
	CHECK(threads() == 1);
	CHECK(!maps("libcusim.so"));
	work();
	CHECK(maps("libcusim.so"));
	WANT(801, cuMipmappedArrayDestroy(NULL));
	WANT(801, cuGLInit());
	WANT(201, cuProfilerStart());
	WANT(201, cuProfilerStop());
}

// reap waits for a child, which has to end well.
static void reap(pid_t child)
{
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	if (status) {
		fprintf(stderr, "the child ended with status %#x\n", status);
		_exit(1);
	}
}

static void fork_before(void)
{
	unstarted();
	for (int i = 0; i < 2; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (!child) {
			alarm(20);
			work();
			exit(0);
		}
		if (i == 1)
			work(); // with a child that has its own
		reap(child);
	}
}

// in_context makes the primary context current in a child.
static void in_context(void)
{
	handle ctx;
	alarm(20);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
}

// siblings lets children share memory that another child opens. Their Go runtimes have begun with the same random
// numbers.
static void siblings(void)
{
	enum { SHARERS = 4 };
	int handles[2], end[2], found = 0;
	pid_t children[SHARERS];
	CHECK(!pipe(handles) && !pipe(end));
	for (int k = 0; k < SHARERS; k++) {
		CHECK((children[k] = fork()) >= 0);
		if (children[k])
			continue;
		address p;
		shared m;
		char c;
		in_context();
		OK(cuMemAlloc_v2(&p, 4));
		OK(cuMemsetD32_v2(p, 1 << k, 1));
		OK(cuCtxSynchronize());
		OK(cuIpcGetMemHandle(&m, p));
		CHECK(write(handles[1], &m, sizeof m) == sizeof m);
		close(end[1]);
		CHECK(read(end[0], &c, 1) == 0); // until the parent closes it
		_exit(0);
	}
	pid_t opener = fork();
	CHECK(opener >= 0);
	if (!opener) {
		address p[SHARERS];
		in_context();
		for (int k = 0; k < SHARERS; k++) {
			shared m;
			int v = 0;
			CHECK(read(handles[0], &m, sizeof m) == sizeof m);
			OK(cuIpcOpenMemHandle_v2(&p[k], m, 1));
			OK(cuMemcpyDtoH_v2(&v, p[k], 4));
			found |= v;
		}
		CHECK(found == (1 << SHARERS) - 1);
		for (int k = 0; k < SHARERS; k++)
			OK(cuIpcCloseMemHandle(p[k]));
		_exit(0);
	}
	reap(opener);
	close(end[1]);
	for (int k = 0; k < SHARERS; k++)
		reap(children[k]);
}

static void refused(void)
{
	int v = 0, n;
	handle h = NULL;
	const char *s;
	WANT(3, cuInit(0));
	WANT(3, cuDeviceGetCount(&n));
	WANT(3, cuCtxGetCurrent(&h));
	WANT(3, cuEventCreate(&h, 0));
	WANT(3, cuCtxSynchronize());
	WANT(3, cuMipmappedArrayDestroy(NULL));
	WANT(3, cuCheckpointProcessGetState(4711, &n));
	WANT(400, cuEventQuery(NULL));
	OK(cuDriverGetVersion(&v));
	CHECK(v == 13000);
	OK(cuGetErrorName(3, &s));
	CHECK(!strcmp(s, "CUDA_ERROR_NOT_INITIALIZED"));
}

static void *refused_thread(void *unused)
{
	refused();
	return unused;
}

static void *query_for_ever(void *e)
{
	for (;;)
		cuEventQuery(e);
	return NULL;
}

static void fork_after(void)
{
	handle e;
	pthread_t t;
	setup();
	OK(cuEventCreate(&e, 0));
	OK(pthread_create(&t, NULL, query_for_ever, e)); // a fork finds it anywhere
	for (int i = 0; i < 200; i++) {
		pid_t child = fork();
		CHECK(child >= 0);
		if (!child) {
			alarm(20);
			refused();
			OK(pthread_create(&t, NULL, refused_thread, NULL));
			OK(pthread_join(t, NULL));
			if (i % 2)
				pthread_exit(NULL); // the thread ends, and the process with it
			exit(0);
		}
		reap(child);
		OK(cuEventRecord(e, NULL));
		OK(cuEventSynchronize(e));
	}
	work();
}

// fork_while forks while other threads start the driver.
static void *start_driver(void *unused)
{
	OK(cuInit(0));
	return unused;
}

static void fork_while(void)
{
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		OK(pthread_create(&t[i], NULL, start_driver, NULL));
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child) {
		int n;
		alarm(20);
		int r = cuInit(0); // it depends on who was first
		CHECK(r == 0 || r == 3);
		WANT(r, cuDeviceGetCount(&n));
		exit(0);
	}
	for (int i = 0; i < 4; i++)
		OK(pthread_join(t[i], NULL));
	reap(child);
	work();
}

static void *one_thread(void *arg)
{
	handle ctx = arg, current = (handle)1, e;
	uint64_t legacy, own, again;
	OK(cuCtxGetCurrent(&current));
	CHECK(!current);
	WANT(201, cuEventCreate(&e, 0));
	OK(cuCtxPushCurrent_v2(ctx));
	OK(cuStreamGetId(NULL, &legacy));
	OK(cuStreamGetId_ptsz(NULL, &own));
	OK(cuStreamGetId_ptsz(NULL, &again));
	CHECK(own != legacy && own == again);
	OK(cuStreamQuery_ptsz(NULL));
	OK(cuEventCreate(&e, 2));
	OK(cuEventRecord(e, (handle)2));
	OK(cuEventSynchronize(e));
	OK(cuEventDestroy_v2(e));
	OK(cuCtxPopCurrent_v2(NULL));
	WANT(201, cuCtxPopCurrent_v2(&current));
	return (void *)(uintptr_t)own;
}

// capturing begins a capture on its own default stream, and leaves it.
static void *capturing(void *ctx)
{
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamBeginCapture_v2_ptsz(NULL, 0));
	return NULL;
}

static void many_threads(void)
{
	enum { rounds = 50, n = 8 };
	handle ctx = setup();
	for (int i = 0; i < rounds; i++) {
		pthread_t t[n];
		void *own[n];
		for (int j = 0; j < n; j++)
			OK(pthread_create(&t[j], NULL, one_thread, ctx));
		for (int j = 0; j < n; j++) {
			OK(pthread_join(t[j], &own[j]));
			for (int k = 0; k < j; k++)
				CHECK(own[j] != own[k]);
		}
	}

	// What a thread began ends with it.
	pthread_t t;
	address p;
	OK(pthread_create(&t, NULL, capturing, ctx));
	OK(pthread_join(t, NULL));
	OK(cuMemAlloc_v2(&p, 16)); // which a capture would forbid
}

struct told {
	handle event;
	pthread_t by;
	atomic_int calls, status, blocked;
	handle stream;
};

static void host_func(void *arg)
{
	struct told *t = arg;
	sigset_t mask;
	handle current;
	int v = 0;
	t->by = pthread_self();
	WANT(800, cuCtxGetCurrent(&current)); // there is none here
	OK(cuEventQuery(t->event));
	OK(cuDriverGetVersion(&v)); // but what needs no driver
	CHECK(v == 13000);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	t->blocked = sigismember(&mask, SIGINT) && sigismember(&mask, SIGALRM);
	t->calls++;
}

static void stream_callback(handle s, int status, void *arg)
{
	struct told *t = arg;
	t->stream = s;
	t->status = status;
	host_func(arg);
}

static void callbacks(void)
{
	struct told a = {0}, b = {0};
	handle s;
	setup();
	OK(cuStreamCreate(&s, 0));
	OK(cuEventCreate(&a.event, 0));
	b.event = a.event;
	b.status = -1;
	for (int i = 1; i <= 100; i++) {
		OK(cuLaunchHostFunc(s, host_func, &a));
		OK(cuStreamAddCallback(s, stream_callback, &b, 0));
		OK(cuStreamSynchronize(s));
		CHECK(a.calls == i && b.calls == i);
		CHECK(!pthread_equal(a.by, pthread_self()) && !pthread_equal(b.by, pthread_self()));
		CHECK(b.stream == s && b.status == 0 && a.blocked && b.blocked);
	}
	WANT(1, cuLaunchHostFunc(s, NULL, &a));
	WANT(1, cuStreamAddCallback(s, NULL, &b, 0));

	struct told c = {.event = a.event};
	handle o, g;
	OK(cuGraphCreate(&g, 0));
	OK(cuUserObjectCreate(&o, &c, host_func, 1, 1));
	WANT(1, cuUserObjectCreate(&o, &c, NULL, 1, 1));
	OK(cuGraphRetainUserObject(g, o, 1, 1));
	CHECK(!c.calls);
	OK(cuGraphDestroy(g));
	while (!c.calls)
		usleep(100);
	CHECK(!pthread_equal(c.by, pthread_self()));

	// A captured node comes after one that the program adds.
	handle of, n, *deps, ends[4];
	int status;
	size_t count;
	OK(cuStreamBeginCapture(s));
	OK(cuStreamGetCaptureInfo_v2(s, &status, NULL, &of, &deps, &count));
	CHECK(status == 1 && count == 0);
	OK(cuGraphAddEmptyNode(&n, of, NULL, 0));
	OK(cuStreamUpdateCaptureDependencies(s, &n, 1, 1));
	OK(cuLaunchHostFunc(s, host_func, &a));
	OK(cuStreamGetCaptureInfo_v2(s, &status, NULL, NULL, &deps, &count));
	CHECK(count == 1 && deps[0] != n);
	handle last = deps[0];
	OK(cuStreamEndCapture(s, &g));
	CHECK(g == of);
	count = 2;
	OK(cuGraphGetEdges(g, ends, ends + 2, &count));
	CHECK(count == 1 && ends[0] == n && ends[2] == last);
	OK(cuGraphDestroy(g));
}

static void memory(void)
{
	enum { size = 1 << 20 };
	handle s;
	address p, q;
	unsigned char *a = malloc(size), *b = calloc(size, 1), *pinned;
	setup();
	OK(cuStreamCreate(&s, 1));
	for (int i = 0; i < size; i++)
		a[i] = i * 7 + i / 256;
	OK(cuMemAlloc_v2(&p, size));
	OK(cuMemAlloc_v2(&q, size));
	OK(cuMemcpyHtoD_v2(p, a, size));
	OK(cuMemcpyDtoH_v2(b, p, size));
	CHECK(!memcmp(a, b, size));

	OK(cuMemAllocHost_v2((void **)&pinned, size));
	memcpy(pinned, a, size);
	memset(b, 0, size);
	OK(cuMemcpyAsync(q, (address)(uintptr_t)pinned, size, s));
	OK(cuMemcpyDtoHAsync_v2(b, q, size, s));
	OK(cuStreamSynchronize(s));
	CHECK(!memcmp(a, b, size));

	// Every direction, through the one function that finds out itself.
	memset(b, 0, size);
	OK(cuMemcpy(p, (address)(uintptr_t)a, size / 2));
	OK(cuMemcpy(p + size / 2, q + size / 2, size / 2));
	OK(cuMemcpy((address)(uintptr_t)b, p, size));
	CHECK(!memcmp(a, b, size));
	OK(cuMemcpy((address)(uintptr_t)(b + 1), (address)(uintptr_t)a, 16));
	CHECK(!memcmp(a, b + 1, 16));

	OK(cuMemsetD32_v2(p, 0x01020304, size / 4));
	memset(b, 0, size);
	OK(cuMemcpyDtoH_v2_ptds(b, p, size));
	CHECK(b[0] == 4 && b[size - 1] == 1);
	OK(cuMemcpyHtoD_v2_ptds(p, a, size));
	OK(cuMemcpyDtoH_v2(b, p, size));
	CHECK(!memcmp(a, b, size));

	WANT(1, cuMemcpyHtoD_v2(p, NULL, 1));
	OK(cuMemcpyHtoD_v2(p, NULL, 0));
	WANT(1, cuMemcpyDtoH_v2(NULL, p, 1));
	WANT(1, cuMemcpyHtoD_v2(p, a, size + 1));
	WANT(1, cuMemcpyHtoD_v2(p, a, (size_t)-1));
	OK(cuMemFreeHost(pinned));
	OK(cuMemFree_v2(p));
	OK(cuMemFree_v2(q));
}

// external imports a file of memory as memory of another API, and as a semaphore: both descriptors become the driver's.
static void external(int fd, size_t size)
{
	struct {
		int type, pad, fd, more[3];
		uint64_t size;
		unsigned flags, reserved[16];
	} memory = {.type = 1, .fd = dup(fd), .size = size};
	struct {
		uint64_t offset, size;
		unsigned flags, reserved[16];
	} part = {.offset = 1, .size = 3};
	struct {
		int type, pad, fd, more;
		void *name;
		unsigned flags, reserved[16];
	} semaphore = {.type = 9, .fd = dup(fd)};
	struct {
		uint64_t value, more[8];
		unsigned flags, reserved[17];
	} at[2] = {{.value = 5}, {.value = 4}}, *seen;
	struct {
		handle *semaphores;
		void *at;
		unsigned n;
	} node = {NULL, at, 1}, told = {NULL, NULL, 0};
	handle m, x, g, n;
	address p;
	unsigned char c[4] = {0};
	CHECK(sizeof(memory) == 104 && sizeof(part) == 88 && sizeof(semaphore) == 96 && sizeof(at[0]) == 144);
	WANT(1, cuImportExternalMemory(NULL, &memory));
	WANT(1, cuImportExternalMemory(&m, NULL));
	OK(cuImportExternalMemory(&m, &memory));
	CHECK(fcntl(memory.fd, F_GETFD) < 0);
	OK(cuExternalMemoryGetMappedBuffer(&p, m, &part));
	OK(cuMemcpyDtoH_v2(c, p, 3));
	CHECK(c[0] == 2 && c[2] == 4);
	OK(cuMemFree_v2(p));
	OK(cuDestroyExternalMemory(m));

	OK(cuImportExternalSemaphore(&x, &semaphore));
	CHECK(fcntl(semaphore.fd, F_GETFD) < 0);
	WANT(1, cuSignalExternalSemaphoresAsync(NULL, NULL, 0, NULL));
	WANT(1, cuSignalExternalSemaphoresAsync(&x, NULL, 1, NULL));
	OK(cuSignalExternalSemaphoresAsync(&x, at, 1, NULL));
	OK(cuWaitExternalSemaphoresAsync(&x, &at[1], 1, NULL));
	OK(cuCtxSynchronize());
	node.semaphores = &x;
	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddExternalSemaphoresWaitNode(&n, g, NULL, 0, &node));
	OK(cuGraphExternalSemaphoresWaitNodeGetParams(n, &told));
	seen = told.at;
	CHECK(told.n == 1 && told.semaphores[0] == x && seen->value == 5);
	OK(cuGraphDestroy(g));
	OK(cuDestroyExternalSemaphore(x));
}

// virtual_memory maps memory, and again what it has exported and imported.
static void virtual_memory(void)
{
	enum { size = 2 << 20 };
	struct {
		int type, handles, location, id;
		void *security;
		unsigned char flags[8];
	} props = {1, 1, 1, 0, NULL, {0}};
	struct { int location, id, flags; } access = {1, 0, 3};
	int fd[2] = {-1, 1234};
	uint64_t h, h2;
	address p;
	unsigned char b[4] = {1, 2, 3, 4}, c[4] = {0};
	setup();
	OK(cuMemAddressReserve(&p, 2 * size, 0, 0, 0));
	OK(cuMemCreate(&h, size, &props, 0));
	OK(cuMemExportToShareableHandle(fd, h, 1, 0));
	CHECK(fd[0] >= 0 && fd[1] == 1234);
	OK(cuMemImportFromShareableHandle(&h2, (void *)(uintptr_t)fd[0], 1));
	OK(cuMemMap(p, size, 0, h, 0));
	OK(cuMemMap(p + size, size, 0, h2, 0));
	WANT(1, cuMemcpyHtoD_v2(p, b, 4));
	OK(cuMemSetAccess(p, 2 * size, &access, 1));
	OK(cuMemcpyHtoD_v2(p, b, 4));
	OK(cuMemcpyDtoH_v2(c, p + size, 4));
	CHECK(!memcmp(b, c, 4));
	external(fd[0], size);
	OK(cuMemRelease(h));
	OK(cuMemRelease(h2));
	WANT(1, cuMemAddressFree(p, 2 * size));
	OK(cuMemUnmap(p, 2 * size));
	OK(cuMemAddressFree(p, 2 * size));
	WANT(1, cuMemCreate(NULL, size, &props, 0));
	WANT(1, cuMemCreate(&h, size, NULL, 0));
}

// Memory that is not there is a fault of the device's, and no end of the process.
static void wild(void)
{
	address p;
	setup();
	OK(cuMemAlloc_v2(&p, 4096));
	void *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(gone != MAP_FAILED);
	WANT(700, cuMemcpyHtoD_v2(p, gone, 4096));
	WANT(700, cuCtxSynchronize());
}

static void nulls(void)
{
	handle ctx = setup(), e, s, g, m, f;
	int a, b;
	float ms;
	char name[8];
	OK(cuEventCreate(&e, 0));
	OK(cuStreamCreate(&s, 0));
	WANT(1, cuEventCreate(NULL, 0));
	WANT(1, cuStreamCreate(NULL, 0));
	WANT(1, cuMemAlloc_v2(NULL, 16));
	WANT(1, cuMemAllocHost_v2(NULL, 16));
	WANT(1, cuDeviceGetCount(NULL));
	WANT(1, cuDeviceGet(NULL, 0));
	WANT(1, cuCtxGetCurrent(NULL));
	WANT(1, cuDevicePrimaryCtxRetain(NULL, 0));
	WANT(1, cuModuleLoadData(&m, NULL));
	WANT(1, cuModuleLoadData(NULL, ptx));
	WANT(1, cuStreamGetId(s, NULL));
	WANT(400, cuEventElapsedTime_v2(NULL, e, e)); // what is wrong with the events comes first
	OK(cuEventRecord(e, s));
	OK(cuEventSynchronize(e));
	OK(cuEventElapsedTime_v2(&ms, e, e));
	WANT(400, cuEventElapsedTime_v2(NULL, e, e));
	OK(cuModuleLoadData(&m, ptx));
	WANT(1, cuModuleGetFunction(&f, m, NULL));
	WANT(1, cuModuleGetFunction(NULL, m, "spin"));
	OK(cuModuleGetFunction(&f, m, "spin"));
	WANT(1, cuFuncGetName(NULL, f));
	WANT(1, launch(f, 1, s, NULL));
	WANT(1, cuDeviceGetName(NULL, 8, 0));
	WANT(1, cuDeviceGetName(name, 0, 0));
	WANT(1, cuDeviceGetName(name, -1, 0));
	OK(cuDeviceGetName(name, sizeof name, 0));
	CHECK(!strcmp(name, "Simulat"));
	WANT(401, cuStreamEndCapture(s, NULL));

	// Host to host, in a capture.
	OK(cuStreamBeginCapture(s));
	OK(cuMemcpyAsync((address)(uintptr_t)&a, (address)(uintptr_t)&b, sizeof a, s));
	OK(cuStreamEndCapture(s, &g));
	OK(cuGraphDestroy(g));

	// These may be NULL.
	OK(cuCtxGetStreamPriorityRange(NULL, &a));
	OK(cuCtxGetStreamPriorityRange(&b, NULL));
	CHECK(a == -5 && b == 0);
	OK(cuStreamBeginCapture(s));
	OK(cuStreamGetCaptureInfo(s, &a, NULL));
	CHECK(a == 1);
	OK(cuEventRecord(e, s));
	OK(launch(f, 1, s, (void *[]){&(uint64_t){1000}}));
	OK(cuStreamEndCapture(s, &g));
	size_t n = 99;
	OK(cuGraphGetNodes(g, NULL, &n));
	CHECK(n == 1);
	handle nodes[3] = {s, s, s};
	n = 3;
	OK(cuGraphGetNodes(g, nodes, &n));
	CHECK(n == 1 && nodes[0] && nodes[0] != s && !nodes[1] && !nodes[2]);
	WANT(1, cuGraphGetNodes(g, nodes, NULL));
	n = 99;
	OK(cuGraphGetEdges(g, NULL, NULL, &n));
	CHECK(n == 0);
	WANT(1, cuGraphGetEdges(g, nodes, NULL, &(size_t){1}));
	handle x;
	OK(cuGraphInstantiate_v2(&x, g, NULL, NULL, 0));
	OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
	handle other, node = s;
	OK(cuStreamBeginCapture(s));
	OK(cuStreamEndCapture(s, &other));
	a = -1;
	WANT(910, cuGraphExecUpdate(x, other, &node, &a)); // and why
	CHECK(!node && a == 6);
	struct {
		int result;
		handle node, from;
	} info = {-1, s, s};
	WANT(910, cuGraphExecUpdate_v2(x, other, &info)); // for another reason
	CHECK(info.result == 2 && !info.node && !info.from);
	OK(cuGraphExecUpdate(x, g, &node, &a));
	CHECK(!node && a == 0);
	OK(cuGraphExecUpdate(x, g, NULL, &a));
	OK(cuGraphDestroy(other));
	OK(cuGraphExecDestroy(x));
	OK(cuGraphDestroy(g));
	OK(cuCtxPopCurrent_v2(NULL));
	OK(cuCtxSetCurrent(ctx));
}

// What is made of other functions.
static void count(void *n) { ++*(int *)n; }

// nodes builds a graph of a memset, a kernel, a copy to the host and a host function, and changes it.
static void nodes(void)
{
	handle ctx = setup(), s, m, f, g, outer, x, n[5];
	int calls = 0, more = 0;
	void *out;
	address p;
	OK(cuStreamCreate(&s, 1));
	OK(cuModuleLoadData(&m, ptx));
	OK(cuModuleGetFunction(&f, m, "fill_u32"));
	OK(cuMemAlloc_v2(&p, 64));
	OK(cuMemAllocHost_v2(&out, 64));
	unsigned value = 42, count4 = 4;
	void *args[] = {&p, &value, &count4};
	struct {
		handle f;
		unsigned grid[3], block[3], shared;
		void **params, **extra;
		handle kernel, ctx;
	} kernel = {f, {1, 1, 1}, {64, 1, 1}, 0, args, NULL, NULL, NULL};
	struct {
		size_t at[4];
		int kind;
		void *host;
		address device;
		handle array, reserved;
		size_t pitch, height;
		size_t to_at[4];
		int to_kind;
		void *to_host;
		address to_device;
		handle to_array, to_reserved;
		size_t to_pitch, to_height, width, rows, depth;
	} copy = {.kind = 2, .device = p, .pitch = 16, .height = 2, .to_kind = 1, .to_host = out, .to_pitch = 16,
		.to_height = 2,
		.width = 16, .rows = 2, .depth = 1}; // two rows of 16 bytes
	struct {
		address p;
		size_t pitch;
		unsigned value, size;
		size_t width, height;
	} set = {p, 0, 7, 4, 16, 1};
	struct { void (*f)(void *); void *data; } host = {count, &calls};
	struct { uint64_t flags; handle stream, node; int result; } how = {0};

	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddMemsetNode(&n[0], g, NULL, 0, &set, ctx));
	OK(cuGraphAddKernelNode_v2(&n[1], g, n, 1, &kernel));
	OK(cuGraphAddMemcpyNode(&n[2], g, n + 1, 1, &copy, ctx));
	OK(cuGraphAddHostNode(&n[3], g, n + 2, 1, &host));
	WANT(1, cuGraphAddKernelNode_v2(&n[4], g, NULL, 0, NULL));
	WANT(1, cuGraphAddHostNode(&n[4], g, NULL, 0, NULL));
	WANT(1, cuGraphAddMemsetNode(&n[4], g, n, 2, NULL, ctx));
	OK(cuGraphInstantiateWithParams(&x, g, &how));
	CHECK(how.result == 0 && !how.node);
	OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
	CHECK(calls == 1 && ((unsigned *)out)[3] == 42 && ((unsigned *)out)[4] == 7 && ((unsigned *)out)[7] == 7);

	// Other work for later launches.
	value = 43;
	host.data = &more;
	OK(cuGraphExecKernelNodeSetParams_v2(x, n[1], &kernel));
	OK(cuGraphExecHostNodeSetParams(x, n[3], &host));
	copy.height = 1;
	WANT(1, cuGraphExecMemcpyNodeSetParams(x, n[2], &copy, ctx)); // there are two rows
	copy.height = 2;
	OK(cuGraphExecMemcpyNodeSetParams(x, n[2], &copy, ctx));
	WANT(1, cuGraphExecKernelNodeSetParams_v2(x, n[0], &kernel)); // a memset
	OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
	CHECK(calls == 1 && more == 1 && ((unsigned *)out)[3] == 43);
	unsigned on = 1;
	OK(cuGraphNodeSetEnabled(x, n[1], 0));
	OK(cuGraphNodeGetEnabled(x, n[1], &on));
	CHECK(!on);
	WANT(1, cuGraphNodeSetEnabled(x, n[3], 0)); // a host function
	OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
	CHECK(((unsigned *)out)[3] == 7);
	OK(cuGraphExecDestroy(x));

	// The graph without the kernel, within another graph, after a kernel of the function's first version.
	OK(cuGraphDestroyNode(n[1]));
	OK(cuGraphAddDependencies(g, n, n + 2, 1));
	WANT(1, cuGraphAddDependencies(g, n, n + 2, 1));
	OK(cuGraphRemoveDependencies(g, n, n + 2, 1));
	WANT(1, cuGraphRemoveDependencies(g, n, n + 2, 1));
	OK(cuGraphAddDependencies(g, n, n + 2, 1));
	set.value = 9;
	OK(cuGraphMemsetNodeSetParams(n[0], &set));
	OK(cuGraphCreate(&outer, 0));
	OK(cuGraphAddKernelNode(&n[1], outer, NULL, 0, &kernel));
	OK(cuGraphAddChildGraphNode(&n[4], outer, n + 1, 1, g));
	OK(cuGraphDestroy(g));
	OK(cuGraphInstantiateWithParams(&x, outer, &how));
	OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
	CHECK(calls == 2 && ((unsigned *)out)[3] == 9);
	OK(cuGraphExecDestroy(x));
	OK(cuGraphDestroy(outer));
	OK(cuStreamDestroy_v2(s));
	OK(cuModuleUnload(m));
	OK(cuMemFree_v2(p));
	OK(cuMemFreeHost(out));
}

// allocations builds a graph that allocates memory, sets it, and frees it.
static void allocations(void)
{
	handle ctx = setup(), s, g, x, n[3];
	uint64_t used = 0;
	struct {
		struct { int alloc, handles, location, id; void *win32; size_t max; unsigned short usage; unsigned char r[54]; } pool;
		void *access;
		size_t count, size;
		address p;
	} params = {.pool = {.alloc = 1, .location = 1}, .size = 64};
	struct { address p; size_t pitch; unsigned value, size; size_t width, height; } set = {0, 0, 7, 4, 16, 1};
	CHECK(sizeof params == 120);
	OK(cuStreamCreate(&s, 1));
	OK(cuGraphCreate(&g, 0));
	OK(cuGraphAddMemAllocNode(&n[0], g, NULL, 0, &params));
	CHECK(params.p);
	set.p = params.p;
	OK(cuGraphAddMemsetNode(&n[1], g, n, 1, &set, ctx));
	OK(cuGraphAddMemFreeNode(&n[2], g, n + 1, 1, params.p));
	WANT(1, cuGraphAddMemFreeNode(&n[2], g, n + 1, 1, params.p));
	WANT(1, cuMemFree_v2(params.p));
	struct { uint64_t flags; handle stream, node; int result; } how = {0};
	OK(cuGraphInstantiateWithParams(&x, g, &how));
	OK(cuGraphLaunch(x, s));
	OK(cuGraphLaunch(x, s));
	OK(cuStreamSynchronize(s));
	OK(cuDeviceGetGraphMemAttribute(0, 0, &used));
	CHECK(used == 32 << 20);
	OK(cuGraphExecDestroy(x));
	OK(cuGraphDestroy(g));
	OK(cuDeviceGraphMemTrim(0));
	OK(cuStreamDestroy_v2(s));
}

static void more(void)
{
	handle ctx = setup(), s, m, f, current;
	int major, minor, dev = -1;
	const char *name, *again;
	OK(cuDeviceComputeCapability(&major, &minor, 0));
	CHECK(major == 9 && minor == 0);
	OK(cuCtxSetCurrent(NULL));
	OK(cuCtxGetDevice_v2(&dev, ctx));
	CHECK(dev == 0);
	OK(cuCtxSynchronize_v2(ctx));
	OK(cuCtxGetCurrent(&current));
	CHECK(!current);
	WANT(201, cuCtxGetDevice_v2(&dev, NULL));
	OK(cuCtxSetCurrent(ctx));

	WANT(301, cuModuleLoad(&m, "/there/is/no/such/file"));
	char path[] = "/tmp/softlib-XXXXXX";
	int fd = mkstemp(path);
	CHECK(fd >= 0 && write(fd, ptx, sizeof ptx - 1) == sizeof ptx - 1);
	OK(cuModuleLoad(&m, path));
	unlink(path);
	close(fd);
	OK(cuModuleGetFunction(&f, m, "spin"));
	OK(cuFuncGetName(&name, f));
	OK(cuFuncGetName(&again, f));
	CHECK(!strcmp(name, "spin") && name == again);

	struct { unsigned grid[3], block[3], shared; handle stream; void *attributes; unsigned n; } config = {{1, 1, 1}, {32, 1, 1}, 0, NULL, NULL, 0};
	OK(cuStreamCreate(&s, 1));
	config.stream = s;
	uint64_t ns = 1000;
	address gate = hold(s);
	OK(cuLaunchKernelEx(&config, f, (void *[]){&ns}, NULL));
	WANT(600, cuStreamQuery(s));
	let_go(gate);
	OK(cuStreamQuery(s));
	config.n = 1;
	WANT(1, cuLaunchKernelEx(&config, f, (void *[]){&ns}, NULL));
	struct { int id, unused; int value[16]; } cooperative = {.id = 2, .value = {1}};
	config.attributes = &cooperative;
	gate = hold(s);
	OK(cuLaunchKernelEx(&config, f, NULL, (void *[]){(void *)1, &ns, (void *)2, &(size_t){sizeof ns}, NULL}));
	WANT(600, cuStreamQuery(s));
	let_go(gate);
	OK(cuStreamSynchronize(s));
	config.grid[0] = 1 << 20;
	WANT(720, cuLaunchKernelEx(&config, f, (void *[]){&ns}, NULL));

	// A configuration without a stream means the thread's own one.
	handle const per_thread = (handle)2;
	config.grid[0] = 1, config.stream = NULL, config.n = 0;
	handle graph;
	size_t nodes = 0;
	OK(cuStreamBeginCapture(per_thread));
	OK(cuLaunchKernelEx_ptsz(&config, f, (void *[]){&ns}, NULL));
	OK(cuStreamEndCapture(per_thread, &graph));
	OK(cuGraphGetNodes(graph, NULL, &nodes));
	CHECK(nodes == 1);

	// The compiler's log, in buffers among the options.
	enum { INFO = 3, INFO_SIZE = 4, ERROR = 5, ERROR_SIZE = 6, VERBOSE = 12 };
	char log[64], info[4096];
	int options[] = {ERROR, ERROR_SIZE, INFO, INFO_SIZE, VERBOSE};
	void *values[] = {log, (void *)sizeof log, info, (void *)sizeof info, (void *)1};
	WANT(218, cuModuleLoadDataEx(&m, ".version 6.0\n.target sm_50\n.entyr x", 5, options, values));
	CHECK(strlen(log) > 10 && (uintptr_t)values[1] == strlen(log) + 1);
	values[1] = (void *)sizeof log;
	values[3] = (void *)sizeof info;
	OK(cuModuleLoadDataEx(&m, ptx, 5, options, values));
	CHECK(strstr(info, "spin"));
	WANT(209, cuModuleLoadData(&m, "\x7f" "ELF"));
	WANT(200, cuModuleLoadData(&m, ""));
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
	_exit(33);
}

static atomic_int alarms, urgent;

static void on_signal(int sig)
{
	if (sig == SIGALRM)
		alarms++;
	else
		urgent++;
}

// crash lets a child have a fault in its own code, with the driver loaded.
static int crash(int with_handler)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child) {
		alarm(20);
		struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
		if (with_handler)
			sigaction(SIGSEGV, &action, NULL);
		work();
		*(volatile int *)16 = 1;
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

// kernel_action begins like the kernel's struct sigaction of amd64 and arm64.
struct kernel_action { uint64_t handler, flags, rest[6]; };

static struct kernel_action action_of(int sig)
{
	struct kernel_action a = {0};
	CHECK(!syscall(SYS_rt_sigaction, sig, NULL, &a, 8L));
	return a;
}

static void signals(void)
{
	int status = crash(0);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	status = crash(1);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 33);

	static const int ours[] = {SIGURG, SIGPIPE, SIGINT, SIGTERM, SIGPROF, SIGCHLD, SIGABRT};
	enum { n = sizeof ours / sizeof *ours };
	struct kernel_action before[n];
	struct sigaction tick = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigset_t mask, mask_after;
	CHECK(!sigaction(SIGURG, &tick, NULL) && !sigaction(SIGALRM, &tick, NULL) && !sigaction(SIGPROF, &tick, NULL));
	for (int i = 0; i < n; i++)
		before[i] = action_of(ours[i]);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	setup();
	pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
	for (int i = 0; i < n; i++) {
		// Handlers need the signal stack where Go code is what they interrupt.
		if (before[i].handler != (uintptr_t)SIG_DFL)
			before[i].flags |= SA_ONSTACK;
		struct kernel_action after = action_of(ours[i]);
		CHECK(!memcmp(&before[i], &after, sizeof after));
	}
	for (int i = 1; i < 32; i++)
		CHECK(sigismember(&mask, i) == sigismember(&mask_after, i));

	// What was sent while SIGURG was not this program's is sent again.
	CHECK(urgent > 0);

	// Signals that arrive in the middle of calls.
	handle e;
	OK(cuEventCreate(&e, 0));
	struct itimerval every = {{0, 200}, {0, 200}};
	CHECK(!setitimer(ITIMER_REAL, &every, NULL));
	while (alarms < 300) {
		OK(cuEventRecord(e, NULL));
		OK(cuEventSynchronize(e));
	}
	every = (struct itimerval){{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &every, NULL);
}

static void unload(void)
{
	work();
	OK(dlclose(library));
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	CHECK(library); // it stays, under the name that programs link to
	work();
}

static void export_table(void)
{
	const void *table;
	setup();
	WANT(801, cuGetExportTable(&table, "0123456789abcde"));
}

static void misuse(void)
{
	handle e, kept;
	setup();
	OK(cuEventCreate(&kept, 0));
	OK(cuEventCreate(&e, 0));
	OK(cuEventDestroy_v2(e));
	WANT(709, cuEventDestroy_v2(e));
	WANT(709, cuEventQuery(e));
}

static void configured(void)
{
	address p;
	int n, v;
	OK(cuDriverGetVersion(&v));
	CHECK(v == 11080);
	setup();
	OK(cuDeviceGetCount(&n));
	CHECK(n == 3);
	OK(cuMemAlloc_v2(&p, 16));
	WANT(2, cuMemAlloc_v2(&p, 16));
	OK(cuMemAlloc_v2(&p, 16));
	WANT(801, cuStreamGetId(NULL, &(uint64_t){0})); // of CUDA 12.0
	int status = -1;
	void *f;
	OK(cuGetProcAddress_v2("cuStreamGetId", &f, 13000, 0, &status));
	CHECK(status == 1 && !f);
}

// profiles has the devices that CUSIM_PROFILE names.
static void profiles(void)
{
	static const struct { const char *name; int major, minor; } gpus[] = {
		{"Simulated A100", 8, 0}, {"Simulated A100", 8, 0}, {"Simulated T4", 7, 5},
	};
	int n = -1;
	setup();
	OK(cuDeviceGetCount(&n));
	CHECK(n == sizeof gpus / sizeof *gpus);
	for (int i = 0; i < n; i++) {
		char name[64] = "";
		int major = -1, minor = -1;
		OK(cuDeviceGetName(name, sizeof name, i));
		CHECK(!strcmp(name, gpus[i].name));
		OK(cuDeviceComputeCapability(&major, &minor, i));
		CHECK(major == gpus[i].major && minor == gpus[i].minor);
	}
}

// subnormals computes with numbers that a program with -ffast-math takes for zero. The driver does not.
static void subnormals(void)
{
	static const char text[] = ".version 7.8 .target sm_80 .address_size 64\n.visible .entry k(.param .u64 q) {"
		".reg .b64 p; .reg .f32 f, g; .reg .f64 d; ld.param.u64 p, [q]; mov.f32 f, 0f00000100; mov.f32 g, 0f3F000000;"
		"mul.rn.f32 g, f, g; st.global.f32 [p], g; cvt.f64.f32 d, f; st.global.f64 [p+8], d;"
		"cvt.rn.f32.f64 g, d; st.global.f32 [p+4], g; sqrt.approx.f32 g, f; st.global.f32 [p+16], g; ret; }";
	static const unsigned want[] = {0x80, 0x100, 0, 0x37200000, 0x1c3504f3};
	unsigned computed[5] = {0};
	handle m, f;
	address p;
	setup();
	OK(cuModuleLoadData(&m, text));
	OK(cuModuleGetFunction(&f, m, "k"));
	OK(cuMemAlloc_v2(&p, 64));
	void *args[] = {&p};
	for (int i = 0; i < 20; i++) {
		OK(launch(f, 32, NULL, args));
		OK(cuCtxSynchronize());
		OK(cuMemcpyDtoH_v2(computed, p, sizeof computed));
		CHECK(!memcmp(computed, want, sizeof want));
	}
}

// processes reads the log, and the states of other processes.
static void processes(void)
{
	unsigned at = 77;
	char text[256] = "x";
	uint64_t n = sizeof text;
	int state = -1;
	uint64_t args[8] = {1000};
	char pair[2][16] = {{0}};
	struct {
		void *pairs;
		unsigned count;
		char reserved[52];
	} restore = {pair, 1, {0}};
	OK(cuCheckpointProcessGetState(4711, &state)); // these need no cuInit
	CHECK(state == 0);
	OK(cuCheckpointProcessLock(4711, args));
	OK(cuCheckpointProcessUnlock(4711, NULL));
	WANT(3, cuDeviceGetUuid_v2(pair[0], 0));
	OK(cuInit(0));
	OK(cuLogsCurrent(&at, 0));
	CHECK(at == 0);
	WANT(1, cuLogsCurrent(NULL, 0));
	OK(cuLogsDumpToMemory(&at, text, &n, 0));
	CHECK(at == 0 && n == 0 && text[0] == 0);
	n = 0;
	WANT(1, cuLogsDumpToMemory(&at, NULL, &n, 0)); // explains itself
	n = sizeof text;
	OK(cuLogsDumpToMemory(&at, text, &n, 0));
	CHECK(at == 2 && n == strlen(text) &&
		strstr(text, "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLogsDumpToMemory\n"));
	OK(cuCheckpointProcessLock(4711, args));
	OK(cuCheckpointProcessGetState(4711, &state));
	CHECK(state == 1);
	WANT(401, cuCheckpointProcessLock(4711, NULL));
	OK(cuCheckpointProcessCheckpoint(4711, NULL));
	OK(cuDeviceGetUuid_v2(pair[0], 0));
	WANT(1, cuCheckpointProcessRestore(4711, &restore)); // the new GPU's UUID is zero
	memcpy(pair[1], pair[0], sizeof pair[0]);
	OK(cuCheckpointProcessRestore(4711, &restore));
	OK(cuCheckpointProcessUnlock(4711, NULL));
	WANT(801, cuCheckpointProcessLock(getpid(), NULL));
}

// in_process configures the driver from within the process.
static void in_process(void)
{
	int n, v;
	address p;
	CHECK(!setenv("CUSIM_DEVICES", "3", 1) && !setenv("CUSIM_DRIVER_VERSION", "12.4", 1));
	CHECK(!setenv("CUSIM_FAULTS", "cuMemAlloc@2=2", 1) && !unsetenv("CUSIM_FAULT_RATE"));
	setup();
	OK(cuDriverGetVersion(&v));
	OK(cuDeviceGetCount(&n));
	CHECK(v == 12040 && n == 3);
	OK(cuMemAlloc_v2(&p, 16));
	WANT(2, cuMemAlloc_v2(&p, 16));
	OK(cuMemAlloc_v2(&p, 16));
}

static atomic_int churned;

// churn keeps the driver's garbage collector busy.
static void *churn(void *ctx)
{
	char *buf = calloc(1, 1 << 20);
	address p;
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc_v2(&p, 1 << 20));
	for (int i = 0; i < 1000; i++)
		OK(cuMemcpyHtoDAsync_v2(p, buf, 1 << 20, (handle)2));
	OK(cuStreamSynchronize((handle)2));
	OK(cuMemFree_v2(p));
	free(buf);
	churned = 1;
	return NULL;
}

// stale leaves addresses of memory that is gone where the driver stores others, and
// hands it some, while it collects garbage.
static void stale(void)
{
	enum { n = 64, size = 3 << 20 };
	handle ctx = setup(), m, f;
	void *gone[n];
	const char *name;
	address p;
	pthread_t t;
	OK(cuModuleLoadData(&m, ptx));
	OK(cuModuleGetFunction(&f, m, "spin"));
	OK(cuMemAlloc_v2(&p, 16));
	for (int i = 0; i < n; i++)
		OK(cuMemAllocHost_v2(&gone[i], size));
	for (int i = 0; i < n; i++) {
		memset(gone[i], i, size);
		OK(cuMemFreeHost(gone[i]));
	}
	OK(pthread_create(&t, NULL, churn, ctx));
	for (unsigned i = 0; !churned; i++) {
		name = gone[i % n];
		OK(cuFuncGetName(&name, f));
		WANT(1, cuMemcpyHtoD_v2(p, gone[i % n], 32)); // too much: it is not read
	}
	OK(pthread_join(t, NULL));
	CHECK(!strcmp(name, "spin"));
}

// version takes newer interfaces of functions if they are there, as programs do.
static void version(int want, int absent)
{
	int v, device = -1;
	handle ctx, a, b;
	float ms = -1;
	void *f;
	OK(cuDriverGetVersion(&v));
	CHECK(v == want);
	ctx = setup();
	CHECK(absent == !dlsym(library, "cuEventElapsedTime_v2"));
	CHECK(absent == !dlsym(library, "cuCtxGetDevice_v2"));
	CHECK(absent == !dlsym(library, "cuCheckpointProcessLock"));
	CHECK(dlsym(library, "cusim_simulated") != NULL);
	OK(cuGetProcAddress_v2("cuEventElapsedTime", &f, 13000, 0, NULL));
	CHECK(f == dlsym(library, want < 12080 ? "cuEventElapsedTime" : "cuEventElapsedTime_v2"));
	if (absent)
		return;
	OK(cuCtxGetDevice_v2(&device, ctx));
	CHECK(device == 0);
	OK(cuEventCreate(&a, 0));
	OK(cuEventCreate(&b, 0));
	OK(cuEventRecord(a, NULL));
	OK(cuEventRecord(b, NULL));
	OK(cuEventSynchronize(b));
	OK(cuEventElapsedTime_v2(&ms, a, b));
	CHECK(ms >= 0);
}

static void no_init(int want)
{
	int n;
	WANT(want, cuInit(0));
	WANT(3, cuDeviceGetCount(&n));
	WANT(3, cuMipmappedArrayDestroy(NULL));
	WANT(3, cuMemcpy((address)(uintptr_t)&n, (address)(uintptr_t)&n, 0));
	WANT(3, cuMemcpy(0, 0, 1));
	WANT(3, cuModuleLoad(NULL, NULL));
	WANT(400, cuEventQuery(NULL)); // as before cuInit
	WANT(want, cuInit(0));
}

// Functions that are made of others have faults of their own: see host_test.go.
static void faults(void)
{
	handle x, s, m, f, g;
	int a, b;
	void *pinned;
	struct { unsigned grid[3], block[3], shared; handle stream; void *attributes; unsigned n; } config = {{1, 1, 1}, {32, 1, 1}, 0, NULL, NULL, 0};
	setup();
	OK(cuStreamCreate(&s, 1));
	OK(cuStreamBeginCapture(s));
	OK(cuStreamEndCapture(s, &g));
	OK(cuModuleLoadData(&m, ptx));
	OK(cuModuleGetFunction(&f, m, "spin"));
	for (int twice = 0; twice < 2; twice++) {
		int first = twice ? 0 : 46;
		WANT(first, cuDeviceComputeCapability(&a, &b, 0));
		WANT(first, cuGraphInstantiate_v2(&x, g, NULL, NULL, 0));
		WANT(first, cuLaunchKernelEx(&config, f, (void *[]){&(uint64_t){1000}}, NULL));
		WANT(first, cuMemAllocHost_v2(&pinned, 16));
		WANT(first, cuMemcpy((address)(uintptr_t)&a, (address)(uintptr_t)&b, sizeof a));
		WANT(first, cuMemcpyAsync((address)(uintptr_t)&a, (address)(uintptr_t)&b, sizeof a, s));
		WANT(twice ? 301 : 46, cuModuleLoad(&m, "/there/is/no/such/file"));
		WANT(first, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&a, f, 32, 0, 0));
		WANT(first, cuOccupancyMaxPotentialBlockSizeWithFlags(&a, &b, f, NULL, 0, 0, 0));
	}
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } scenarios[] = {
		{"lazy", lazy}, {"processes", processes}, {"fork-before", fork_before}, {"fork-after", fork_after},
			{"fork-while", fork_while}, {"siblings", siblings},
		{"threads", many_threads}, {"callbacks", callbacks}, {"memory", memory}, {"wild", wild}, {"nulls", nulls},
			{"nodes", nodes}, {"allocations", allocations}, {"virtual_memory", virtual_memory},
		{"more", more}, {"signals", signals}, {"unload", unload}, {"misuse", misuse},
			{"export-table", export_table}, {"configured", configured}, {"profiles", profiles}, {"subnormals", subnormals},
		{"faults", faults}, {"in-process", in_process}, {"stale", stale},
	};
	CHECK(argc >= 3);
	alarm(100);
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	if (!strcmp(argv[2], "no-init")) {
		no_init(atoi(argv[3]));
		return 0;
	}
	if (!strcmp(argv[2], "version")) {
		version(atoi(argv[3]), !strcmp(argv[4], "absent"));
		return 0;
	}
	for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
		if (!strcmp(argv[2], scenarios[i].name)) {
			scenarios[i].run();
			return 0;
		}
	fprintf(stderr, "there is no scenario %s\n", argv[2]);
	return 2;
}
