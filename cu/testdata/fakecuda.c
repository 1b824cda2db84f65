// A CUDA driver for tests: no GPU, and no mercy.
//
// It answers as NVIDIA's driver does, and where NVIDIA's driver would crash, or
// touch an object that is gone, it says which call did what to which handle and
// aborts. Objects are never used again and never given back: whatever comes
// late finds the remains. The fake_ functions at the end are for tests: they
// hold streams, let calls fail or block, and count.
//
// Build: cc -O2 -shared -fPIC -pthread -o libfakecuda.so fakecuda.c
// For Windows: x86_64-w64-mingw32-gcc-posix -O2 -shared -pthread -static -o libfakecuda.dll fakecuda.c

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// reserve returns addresses that are nobody else's, without memory behind them; allow
// gives them some, which is zero, and forbid takes it away again.
#ifdef _WIN32
// <windows.h> has other ideas of what CONTEXT is.
__declspec(dllimport) void *VirtualAlloc(void *, size_t, unsigned long type, unsigned long protection);
__declspec(dllimport) int VirtualFree(void *, size_t, unsigned long type);
enum { MEM_COMMIT = 0x1000, MEM_RESERVE = 0x2000, MEM_DECOMMIT = 0x4000, PAGE_NOACCESS = 1, PAGE_READWRITE = 4 };
static char *reserve(size_t n) { return VirtualAlloc(NULL, n, MEM_RESERVE, PAGE_NOACCESS); }
static bool allow(void *p, size_t n) { return VirtualAlloc(p, n, MEM_COMMIT, PAGE_READWRITE) != NULL; }
static void forbid(void *p, size_t n) { VirtualFree(p, n, MEM_DECOMMIT); }
#else
#include <sys/mman.h>
static char *reserve(size_t n) {
	void *p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}
static bool allow(void *p, size_t n) { return mprotect(p, n, PROT_READ | PROT_WRITE) == 0; }
static void forbid(void *p, size_t n) {
	madvise(p, n, MADV_DONTNEED);
	mprotect(p, n, PROT_NONE);
}
#endif

typedef int CUresult;

enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	INVALID_DEVICE = 101,
	INVALID_PTX = 218,
	PEER_ALREADY = 704,
	PEER_NOT = 705,
	INVALID_CONTEXT = 201,
	NO_SUCH_EVENT = 205, // CUDA_ERROR_MAP_FAILED
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
	NOT_READY = 600,
	TRAPPED = 999, // what a trapped call returns
};

enum { EVENT_BLOCKING = 1, EVENT_UNTIMED = 2, EVENT_IPC = 4 };

// The functions, for counters and faults: name, the CUDA version that
// introduced it, the name and the version under which cuGetProcAddress yields it.
#define FUNCTIONS(F) \
	F(cuInit, 2000, cuInit) \
	F(cuDriverGetVersion, 2020, cuDriverGetVersion) \
	F(cuGetErrorName, 6000, cuGetErrorName) \
	F(cuGetErrorString, 6000, cuGetErrorString) \
	F(cuDeviceGet, 2000, cuDeviceGet) \
	F(cuDeviceGetCount, 2000, cuDeviceGetCount) \
	F(cuDeviceGetName, 2000, cuDeviceGetName) \
	F(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute) \
	F(cuDeviceTotalMem_v2, 3020, cuDeviceTotalMem) \
	F(cuDeviceGetUuid, 9020, cuDeviceGetUuid) \
	F(cuDeviceGetUuid_v2, 11040, cuDeviceGetUuid) \
	F(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId) \
	F(cuDeviceGetByPCIBusId, 4010, cuDeviceGetByPCIBusId) \
	F(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer) \
	F(cuDeviceGetP2PAttribute, 8000, cuDeviceGetP2PAttribute) \
	F(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState) \
	F(cuDevicePrimaryCtxSetFlags_v2, 11000, cuDevicePrimaryCtxSetFlags) \
	F(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain) \
	F(cuDevicePrimaryCtxRelease_v2, 11000, cuDevicePrimaryCtxRelease) \
	F(cuCtxCreate_v2, 3020, cuCtxCreate) \
	F(cuCtxCreate_v4, 12050, cuCtxCreate) \
	F(cuCtxDestroy_v2, 4000, cuCtxDestroy) \
	F(cuCtxGetId, 12000, cuCtxGetId) \
	F(cuCtxGetDevice, 2000, cuCtxGetDevice) \
	F(cuCtxGetFlags, 7000, cuCtxGetFlags) \
	F(cuCtxGetApiVersion, 3020, cuCtxGetApiVersion) \
	F(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange) \
	F(cuCtxGetLimit, 3010, cuCtxGetLimit) \
	F(cuCtxSetLimit, 3010, cuCtxSetLimit) \
	F(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess) \
	F(cuCtxDisablePeerAccess, 4000, cuCtxDisablePeerAccess) \
	F(cuCtxPushCurrent_v2, 4000, cuCtxPushCurrent) \
	F(cuCtxPopCurrent_v2, 4000, cuCtxPopCurrent) \
	F(cuCtxGetCurrent, 4000, cuCtxGetCurrent) \
	F(cuCtxSetCurrent, 4000, cuCtxSetCurrent) \
	F(cuCtxSynchronize, 2000, cuCtxSynchronize) \
	F(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode) \
	F(cuStreamCreate, 2000, cuStreamCreate) \
	F(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority) \
	F(cuStreamIsCapturing, 10000, cuStreamIsCapturing) \
	F(cuStreamGetPriority, 5050, cuStreamGetPriority) \
	F(cuStreamGetFlags, 5050, cuStreamGetFlags) \
	F(cuStreamGetId, 12000, cuStreamGetId) \
	F(cuStreamGetCtx, 9020, cuStreamGetCtx) \
	F(cuStreamDestroy_v2, 4000, cuStreamDestroy) \
	F(cuStreamQuery, 2000, cuStreamQuery) \
	F(cuStreamSynchronize, 2000, cuStreamSynchronize) \
	F(cuStreamWaitEvent, 3020, cuStreamWaitEvent) \
	F(cuStreamBeginCapture_v2, 10010, cuStreamBeginCapture) \
	F(cuStreamBeginCaptureToGraph, 12030, cuStreamBeginCaptureToGraph) \
	F(cuStreamEndCapture, 10000, cuStreamEndCapture) \
	F(cuStreamGetCaptureInfo_v2, 11030, cuStreamGetCaptureInfo) \
	F(cuStreamGetCaptureInfo_v3, 12030, cuStreamGetCaptureInfo) \
	F(cuGraphCreate, 10000, cuGraphCreate) \
	F(cuGraphDestroy, 10000, cuGraphDestroy) \
	F(cuGraphClone, 10000, cuGraphClone) \
	F(cuGraphAddEmptyNode, 10000, cuGraphAddEmptyNode) \
	F(cuGraphAddKernelNode_v2, 12000, cuGraphAddKernelNode) \
	F(cuGraphAddMemcpyNode, 10000, cuGraphAddMemcpyNode) \
	F(cuGraphAddMemsetNode, 10000, cuGraphAddMemsetNode) \
	F(cuGraphAddHostNode, 10000, cuGraphAddHostNode) \
	F(cuGraphKernelNodeSetParams_v2, 12000, cuGraphKernelNodeSetParams) \
	F(cuGraphMemcpyNodeSetParams, 10000, cuGraphMemcpyNodeSetParams) \
	F(cuGraphMemsetNodeSetParams, 10000, cuGraphMemsetNodeSetParams) \
	F(cuGraphHostNodeSetParams, 10000, cuGraphHostNodeSetParams) \
	F(cuGraphExecKernelNodeSetParams_v2, 12000, cuGraphExecKernelNodeSetParams) \
	F(cuGraphExecMemcpyNodeSetParams, 10020, cuGraphExecMemcpyNodeSetParams) \
	F(cuGraphExecMemsetNodeSetParams, 10020, cuGraphExecMemsetNodeSetParams) \
	F(cuGraphExecHostNodeSetParams, 10020, cuGraphExecHostNodeSetParams) \
	F(cuGraphDestroyNode, 10000, cuGraphDestroyNode) \
	F(cuGraphNodeSetEnabled, 11060, cuGraphNodeSetEnabled) \
	F(cuGraphNodeGetEnabled, 11060, cuGraphNodeGetEnabled) \
	F(cuGraphAddEventRecordNode, 11010, cuGraphAddEventRecordNode) \
	F(cuGraphAddEventWaitNode, 11010, cuGraphAddEventWaitNode) \
	F(cuGraphEventRecordNodeGetEvent, 11010, cuGraphEventRecordNodeGetEvent) \
	F(cuGraphEventRecordNodeSetEvent, 11010, cuGraphEventRecordNodeSetEvent) \
	F(cuGraphEventWaitNodeGetEvent, 11010, cuGraphEventWaitNodeGetEvent) \
	F(cuGraphEventWaitNodeSetEvent, 11010, cuGraphEventWaitNodeSetEvent) \
	F(cuGraphGetNodes, 10000, cuGraphGetNodes) \
	F(cuGraphGetEdges, 10000, cuGraphGetEdges) \
	F(cuGraphGetEdges_v2, 12030, cuGraphGetEdges) \
	F(cuGraphNodeGetType, 10000, cuGraphNodeGetType) \
	F(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags) \
	F(cuGraphExecUpdate_v2, 12000, cuGraphExecUpdate) \
	F(cuGraphExecEventRecordNodeSetEvent, 11010, cuGraphExecEventRecordNodeSetEvent) \
	F(cuGraphExecEventWaitNodeSetEvent, 11010, cuGraphExecEventWaitNodeSetEvent) \
	F(cuGraphLaunch, 10000, cuGraphLaunch) \
	F(cuGraphUpload, 11010, cuGraphUpload) \
	F(cuGraphExecDestroy, 10000, cuGraphExecDestroy) \
	F(cuEventCreate, 2000, cuEventCreate) \
	F(cuEventDestroy_v2, 4000, cuEventDestroy) \
	F(cuEventRecord, 2000, cuEventRecord) \
	F(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags) \
	F(cuEventQuery, 2000, cuEventQuery) \
	F(cuEventSynchronize, 2000, cuEventSynchronize) \
	F(cuEventElapsedTime, 2000, cuEventElapsedTime) \
	F(cuEventElapsedTime_v2, 12080, cuEventElapsedTime) \
	F(cuIpcGetEventHandle, 4010, cuIpcGetEventHandle) \
	F(cuIpcOpenEventHandle, 4010, cuIpcOpenEventHandle) \
	F(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx) \
	F(cuModuleGetGlobal_v2, 3020, cuModuleGetGlobal) \
	F(cuFuncGetAttribute, 2020, cuFuncGetAttribute) \
	F(cuFuncSetAttribute, 9000, cuFuncSetAttribute) \
	F(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor) \
	F(cuOccupancyMaxPotentialBlockSize, 6050, cuOccupancyMaxPotentialBlockSize) \
	F(cuLaunchCooperativeKernel, 9000, cuLaunchCooperativeKernel) \
	F(cuLaunchKernelEx, 11060, cuLaunchKernelEx) \
	F(cuModuleUnload, 2000, cuModuleUnload) \
	F(cuModuleGetFunction, 2000, cuModuleGetFunction) \
	F(cuFuncGetParamInfo, 12040, cuFuncGetParamInfo) \
	F(cuLaunchKernel, 4000, cuLaunchKernel) \
	F(cuLaunchHostFunc, 10000, cuLaunchHostFunc) \
	F(cuMemAlloc_v2, 3020, cuMemAlloc) \
	F(cuMemFree_v2, 3020, cuMemFree) \
	F(cuMemGetInfo_v2, 3020, cuMemGetInfo) \
	F(cuMemHostAlloc, 2020, cuMemHostAlloc) \
	F(cuMemFreeHost, 2000, cuMemFreeHost) \
	F(cuMemHostGetDevicePointer_v2, 3020, cuMemHostGetDevicePointer) \
	F(cuMemcpyHtoDAsync_v2, 3020, cuMemcpyHtoDAsync) \
	F(cuMemcpyDtoHAsync_v2, 3020, cuMemcpyDtoHAsync) \
	F(cuMemcpyDtoDAsync_v2, 3020, cuMemcpyDtoDAsync) \
	F(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync) \
	F(cuMemsetD8_v2, 3020, cuMemsetD8) \
	F(cuMemsetD8Async, 3020, cuMemsetD8Async) \
	F(cuMemsetD32Async, 3020, cuMemsetD32Async) \
	F(cuMemcpyHtoD_v2, 3020, cuMemcpyHtoD) \
	F(cuMemcpyDtoH_v2, 3020, cuMemcpyDtoH)

#define X(name, version, ask) FN_##name,
enum function { FUNCTIONS(X) FUNCTION_COUNT };
#undef X

#define X(name, version, ask) CUresult name();
FUNCTIONS(X)
#undef X

static struct {
	const char *name;
	int version;
	const char *ask;
	void *address;
	atomic_ullong calls[3]; // by the calling thread's capture mode
	// A fault: the calls that come when skip has reached 0 return code, as many as times says.
	int skip, times, code;
	bool faulty, always;
	// A block: the next calls wait before or after they take effect.
	int block_count, block_when, blocked;
} functions[] = {
#define X(name, version, ask) {#name, version, #ask},
	FUNCTIONS(X)
#undef X
};

// Objects.

enum kind { NO_KIND, CONTEXT, STREAM, EVENT, MODULE, FUNCTION, MEMORY, HOST, GRAPH, EXEC, KIND_COUNT };

static const char *const kind_names[] = {"no object", "context", "stream", "event", "module", "function", "memory", "host memory", "graph", "executable graph"};

#define MAGIC UINT64_C(0x66616b6563756461)
#define FREED UINT64_C(0xdeadbeefdeadbeef)

#define DEVICES 3
#define ONE_MILLISECOND 1000000

// object is what a handle points to. Its size is that of its slot in the arena.
struct object {
	uint64_t magic;
	uint32_t kind;
	uint32_t in_use; // calls under way
	struct object *ctx;
	uint64_t ctx_id; // which life of the context the object belongs to
	union {
		struct { // context
			uint64_t id; // 0 while it is released
			int device, retained, sticky;
			unsigned flags;
			int64_t children;
			struct object *legacy; // its default stream
			uint64_t limit;        // of every kind
			unsigned peers;        // a bit for each device whose memory it reaches
			bool created;
		} c;
		struct { // stream; still looked at when it is destroyed
			uint64_t epoch; // counts releases
			int64_t done_at;
			uint64_t waited; // the record that was last waited for
			bool held;
			unsigned flags;
			int priority;
			int own; // 1, 2: a default stream; 0: created
			bool capturing;
			int after_count;
			struct capture *capture; // that is under way, or NULL
			struct node **after;     // what the next node comes after
		} s;
		struct { // event
			uint64_t record; // 0 if there is none
			struct object *stream;
			uint64_t epoch; // complete when the stream's is as large
			int64_t done_at;
			int32_t polls; // complete when this many queries were made
			uint32_t flags;
			bool captured, opened; // opened by another process's handle
			int after_count;
			struct capture *capture; // that the record is part of, also when it is over
			struct node **after;
		} e;
		struct { // function
			struct object *module;
			const struct kernel *kernel;
		} f;
		struct { // memory, of either kind, and a module's variable
			uint64_t size;
			char *data;
		} m;
		struct { // graph, executable or not
			struct node **nodes;
			int count;
		} g;
		uint64_t words[11];
	};
};

_Static_assert(sizeof(struct object) <= 128, "objects are large");

#define SLOT 128
#define ARENA (UINT64_C(1) << 33)
#define ARENA_STEP (UINT64_C(1) << 24)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static char *arena;
static uint64_t arena_used, arena_allowed;

static bool initialized;
static int driver_version = 12080;
static int64_t latency;   // of a record, in nanoseconds
static int polls;         // that a record takes
static bool capturing;    // RecordExternal records nothing yet
static int64_t captures;  // streams that are being captured, in global mode
static int64_t spoilt;    // calls that ended a capture
static bool spread;       // let other threads in during every call
static bool calls_held;   // streams call no functions
static uint64_t records;  // made so far
static uint64_t ctx_ids;  // given so far
static int64_t live[KIND_COUNT];
static int64_t destroyed[KIND_COUNT];
static int64_t orphans;   // objects that their context took along
static int64_t depth;     // of all threads' context stacks together
static int64_t off_modes; // threads whose capture mode is not 0
static struct object *primaries[DEVICES];
static unsigned primary_flags[DEVICES];

static bool trapping;
static int64_t trapped;
static char trap_text[256];

#define STACK 64
static _Thread_local struct object *stack[STACK];
static _Thread_local int stack_depth;
static _Thread_local int capture_mode;
static _Thread_local struct object *per_thread; // its default stream

// A capture that cuStreamBeginCapture has begun. None is ever given back.
struct capture {
	struct capture *next;
	uint64_t id;
	int mode;
	pthread_t thread;
	bool over, invalid, to_graph;
	struct object *graph, *origin;
	struct object *streams[64];
	int stream_count;
};

static struct capture *all_captures;
static uint64_t capture_ids;

// op is work on memory that a held stream has not come to, or the call of a function:
// dst, with src.
static struct op {
	int fn;
	struct object *stream;
	uint64_t epoch; // the stream's, when it is done
	uint64_t dst, src, n;
	unsigned value;
	struct object *module; // whose kernel it is
} ops[1 << 16];
static int op_count;

static void lock(void) { pthread_mutex_lock(&mutex); }
static void unlock(void) { pthread_mutex_unlock(&mutex); }

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// crash is where NVIDIA's driver would crash. It returns, TRAPPED, only if a
// test of the tests wants to go on.
static CUresult crash(enum function fn, const void *h, const char *format, ...) {
	char what[160];
	va_list args;
	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	snprintf(trap_text, sizeof trap_text, "%s(%p): %s", functions[fn].name, h, what);
	trapped++;
	if (!trapping) {
		fprintf(stderr, "\nfakecuda: %s: NVIDIA's driver may crash here\n", trap_text);
		fflush(stderr);
		abort();
	}
	return TRAPPED;
}

static struct object *new_object(enum kind kind, struct object *ctx) {
	if (arena == NULL) {
		arena = reserve(ARENA);
		if (arena == NULL) {
			fprintf(stderr, "fakecuda: no addresses\n");
			abort();
		}
		arena_used = SLOT;
	}
	if (arena_used + SLOT > arena_allowed) {
		if (arena_allowed + ARENA_STEP > ARENA || !allow(arena + arena_allowed, ARENA_STEP)) {
			fprintf(stderr, "fakecuda: too many objects for one process\n");
			abort();
		}
		arena_allowed += ARENA_STEP;
	}
	struct object *o = (struct object *)(arena + arena_used);
	arena_used += SLOT;
	o->magic = MAGIC;
	o->kind = kind;
	o->ctx = ctx;
	if (ctx != NULL) {
		o->ctx_id = ctx->c.id;
		ctx->c.children++;
	}
	live[kind]++;
	return o;
}

// bury marks an object as destroyed. Where it was stays poisoned.
static void bury(struct object *o) {
	live[o->kind]--;
	destroyed[o->kind]++;
	o->ctx->c.children--;
	o->magic = FREED;
	if (o->kind != STREAM) // what was enqueued on a stream is still done
		for (size_t i = 0; i < sizeof o->words / sizeof o->words[0]; i++)
			o->words[i] = FREED;
}

// check looks at a handle. It returns SUCCESS if a call may use the object.
static CUresult check(enum function fn, const void *h, enum kind kind) {
	const struct object *o = h;
	if (h == NULL)
		return INVALID_HANDLE;
	if ((char *)h < arena + SLOT || (char *)h >= arena + arena_used || ((char *)h - arena) % SLOT != 0)
		return crash(fn, h, "this is no handle");
	if (o->magic == FREED)
		return crash(fn, h, "the %s was destroyed before", kind_names[o->kind]);
	if (o->magic != MAGIC)
		return crash(fn, h, "the %s is corrupt", kind_names[kind]);
	if (o->kind != kind)
		return crash(fn, h, "this handle is of kind %s, not %s", kind_names[o->kind], kind_names[kind]);
	const struct object *c = kind == CONTEXT ? o : o->ctx;
	if (c->c.id == 0 || (kind != CONTEXT && c->c.id != o->ctx_id))
		return crash(fn, h, kind == CONTEXT ? "the %s was released before" : "the %s's context was released before", kind_names[kind]);
	return c->c.sticky;
}

// enter begins a call: it locks, counts, and returns what the call has to
// return at once, if that is not SUCCESS. leave ends it.
static CUresult enter(enum function fn) {
	lock();
	functions[fn].calls[capture_mode]++;
	if (functions[fn].faulty && (functions[fn].always || functions[fn].skip-- <= 0)) {
		if (!functions[fn].always && --functions[fn].times == 0)
			functions[fn].faulty = false;
		return functions[fn].code;
	}
	if (fn == FN_cuInit || fn == FN_cuDriverGetVersion || fn == FN_cuGetErrorName || fn == FN_cuGetErrorString)
		return SUCCESS;
	return initialized ? SUCCESS : NOT_INITIALIZED;
}

static CUresult leave(CUresult r) {
	unlock();
	return r;
}

enum {
	ILLEGAL_STATE = 401,
	CAPTURE_UNSUPPORTED = 900,
	CAPTURE_INVALIDATED = 901,
	CAPTURE_MERGE = 902,
	CAPTURE_UNMATCHED = 903,
	CAPTURE_UNJOINED = 904,
	CAPTURE_ISOLATION = 905,
	CAPTURED_EVENT = 907,
	CAPTURE_WRONG_THREAD = 908,
	UPDATE_FAILURE = 910,
};

// spoil_all invalidates the captures that are under way in global mode, or all.
static void spoil_all(bool all) {
	spoilt++;
	for (struct capture *c = all_captures; c != NULL; c = c->next)
		if (!c->over && (all || c->mode == 0))
			c->invalid = true;
}

// spoils is for calls that end a capture, from any thread that is not relaxed.
static CUresult spoils(CUresult r) {
	if (r != SUCCESS || captures == 0 || capture_mode == 2)
		return r;
	spoil_all(false);
	return CAPTURE_UNSUPPORTED;
}

enum { BEFORE = 1, AFTER = 2 };

// pause lets tests, and other threads, in: before the call takes effect, or
// after. The objects count as in use meanwhile.
static void pause_at(enum function fn, int when, struct object *a, struct object *b) {
	bool blocks = functions[fn].block_count > 0 && functions[fn].block_when == when;
	if (!blocks && !spread)
		return;
	if (a != NULL)
		a->in_use++;
	if (b != NULL)
		b->in_use++;
	if (blocks) {
		functions[fn].block_count--;
		functions[fn].blocked++;
		pthread_cond_broadcast(&changed);
		while (functions[fn].blocked > 0)
			pthread_cond_wait(&changed, &mutex);
	} else if (when == BEFORE) {
		unlock();
		sched_yield();
		lock();
	}
	if (a != NULL)
		a->in_use--;
	if (b != NULL)
		b->in_use--;
}

// destroy ends an object's life.
static CUresult destroy(enum function fn, struct object *o, enum kind kind) {
	CUresult r = enter(fn);
	if (kind == MEMORY || kind == HOST || kind == MODULE || kind == EXEC)
		r = spoils(r);
	if (r != SUCCESS)
		return leave(r);
	r = check(fn, o, kind);
	if (r == TRAPPED || r == INVALID_HANDLE)
		return leave(r);
	if (o->in_use != 0)
		return leave(crash(fn, o, "%u calls that use the %s are under way", o->in_use, kind_names[kind]));
	bury(o);
	// A second one, or a use, that comes meanwhile finds the remains.
	if (spread) {
		unlock();
		sched_yield();
		lock();
	}
	return leave(r);
}

// current returns the current context, or NULL.
static struct object *current(void) {
	return stack_depth > 0 ? stack[stack_depth - 1] : NULL;
}

// enter_current is enter for calls that need a current context.
static CUresult enter_current(enum function fn, struct object **ctx) {
	CUresult r = enter(fn);
	if (r != SUCCESS)
		return r;
	*ctx = current();
	if (*ctx == NULL)
		return INVALID_CONTEXT;
	return check(fn, *ctx, CONTEXT);
}

// resolve replaces the small numbers that stand for default streams by the
// stream, which belongs to the current context.
static CUresult resolve(enum function fn, struct object **s) {
	uintptr_t h = (uintptr_t)*s;
	if (h > 2)
		return check(fn, *s, STREAM);
	struct object *ctx = current();
	if (ctx == NULL)
		return INVALID_CONTEXT;
	CUresult r = check(fn, ctx, CONTEXT);
	if (r == TRAPPED)
		return r;
	struct object **place = h == 2 ? &per_thread : &ctx->c.legacy;
	if (*place == NULL || (*place)->ctx != ctx || (*place)->ctx_id != ctx->c.id) {
		*place = new_object(STREAM, ctx);
		(*place)->s.own = h == 2 ? 2 : 1;
		live[STREAM]--; // it goes with its context
		ctx->c.children--;
	}
	*s = *place;
	return r;
}

// A device address holds the place of the memory's object, and the offset.
#define ADDRESS_BITS 28

static uint64_t address_of(const struct object *m) {
	return (uint64_t)(((char *)m - arena) / SLOT) << ADDRESS_BITS;
}

// memory_at returns the memory that n bytes at an address are in.
static CUresult memory_at(enum function fn, uint64_t p, uint64_t n, struct object **m, char **data) {
	uint64_t place = (p >> ADDRESS_BITS) * SLOT, off = p & ((1 << ADDRESS_BITS) - 1);
	*m = (struct object *)(arena + place);
	if (place == 0 || place >= arena_used)
		return crash(fn, (void *)p, "this is no device address");
	if ((*m)->magic == MAGIC && (*m)->kind != MEMORY && (*m)->kind != HOST)
		return crash(fn, (void *)p, "this is the address of an object of kind %s", kind_names[(*m)->kind]);
	CUresult r = check(fn, *m, (*m)->kind == HOST ? HOST : MEMORY);
	if (r == SUCCESS && (off > (*m)->m.size || n > (*m)->m.size - off))
		return INVALID_VALUE;
	*data = r == SUCCESS ? (*m)->m.data + off : NULL;
	return r;
}

// Host memory lies in slots of a range of addresses that are never used twice.
#define HOST_SLOT (UINT64_C(1) << 20)
#define HOST_SLOTS 65536
static char *host_arena;
static uint64_t host_used;
static struct object *host_owner[HOST_SLOTS];

// host_at returns the host memory that n bytes at an address are in.
static CUresult host_at(enum function fn, uint64_t p, uint64_t n, struct object **m, char **data) {
	uint64_t off = p - (uintptr_t)host_arena, slot = off / HOST_SLOT;
	if (host_arena == NULL || p < (uintptr_t)host_arena || slot >= host_used)
		return crash(fn, (void *)p, "this is no pinned host memory");
	*m = host_owner[slot];
	CUresult r = check(fn, *m, HOST);
	if (r != SUCCESS)
		return r;
	uint64_t begin = p - (uintptr_t)(*m)->m.data;
	if (begin > (*m)->m.size || n > (*m)->m.size - begin)
		return INVALID_VALUE;
	*data = (char *)p;
	return SUCCESS;
}

static void *call_host(void *op) {
	const struct op *o = op;
	((void (*)(void *))(uintptr_t)o->dst)((void *)(uintptr_t)o->src);
	return NULL;
}

// perform does work on memory, or calls a function, on a thread of its own: if that
// calls the driver it waits for ever. Memory that was freed meanwhile is a crash.
static CUresult perform(const struct op *o) {
	struct object *d, *s;
	char *to, *from;
	if (o->fn == FN_cuLaunchHostFunc) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, call_host, (void *)o) != 0)
			return OUT_OF_MEMORY;
		pthread_join(thread, NULL);
		return SUCCESS;
	}
	if (o->fn == FN_cuLaunchKernel && o->dst == 0) // it uses no memory
		return check(o->fn, o->module, MODULE);
	CUresult r = o->fn == FN_cuMemcpyDtoHAsync_v2 ? host_at(o->fn, o->dst, o->n, &d, &to) : memory_at(o->fn, o->dst, o->n, &d, &to);
	if (r != SUCCESS)
		return r;
	switch (o->fn) {
	case FN_cuLaunchKernel: // the kernel reads it
		return o->module == NULL ? SUCCESS : check(o->fn, o->module, MODULE);
	case FN_cuMemsetD8Async:
		memset(to, o->value, o->n);
		return SUCCESS;
	case FN_cuMemsetD32Async:
		for (uint64_t i = 0; i + 4 <= o->n; i += 4)
			memcpy(to + i, &o->value, 4);
		return SUCCESS;
	case FN_cuMemcpyHtoDAsync_v2:
		r = host_at(o->fn, o->src, o->n, &s, &from);
		break;
	default:
		r = memory_at(o->fn, o->src, o->n, &s, &from);
	}
	if (r == SUCCESS)
		memmove(to, from, o->n);
	return r;
}

// A node of a graph. Its type is CUgraphNodeType.
struct node {
	uint64_t magic;
	struct object *graph;
	int type;
	struct op op;         // of a kernel, copy, memset or host function
	struct object *event; // that it records or waits for
	struct node **after;
	int after_count;
	struct node *source; // of the executable graph's: what it was made from
	bool disabled;
};

enum { KERNEL_NODE, MEMCPY_NODE, MEMSET_NODE, HOST_NODE, EMPTY_NODE = 5, WAIT_NODE, RECORD_NODE };

static struct node **copy_nodes(struct node *const *nodes, int n) {
	struct node **copy = calloc(n + 1, sizeof *copy);
	for (int i = 0; i < n; i++)
		copy[i] = nodes[i];
	return copy;
}

static bool among(struct node *const *nodes, int n, const struct node *one) {
	for (int i = 0; i < n; i++)
		if (nodes[i] == one)
			return true;
	return false;
}

static struct node *add_node(struct object *g, int type, struct node *const *after, int n) {
	struct node *node = calloc(1, sizeof *node);
	node->magic = MAGIC;
	node->graph = g;
	node->type = type;
	node->after = copy_nodes(after, n);
	node->after_count = n;
	g->g.nodes = realloc(g->g.nodes, (g->g.count + 1) * sizeof *g->g.nodes);
	g->g.nodes[g->g.count++] = node;
	return node;
}

// capture_node adds a node to the capture of a stream.
static CUresult capture_node(struct object *s, int type, const struct op *op, struct object *event) {
	struct capture *c = s->s.capture;
	if (c->invalid)
		return CAPTURE_INVALIDATED;
	struct node *n = add_node(c->graph, type, s->s.after, s->s.after_count);
	if (op != NULL)
		n->op = *op;
	n->event = event;
	s->s.after = copy_nodes(&n, 1);
	s->s.after_count = 1;
	return SUCCESS;
}

// enqueue does work on memory now, or when the stream is released.
static CUresult enqueue(enum function fn, struct object *s, uint64_t dst, uint64_t src, uint64_t n, unsigned value) {
	if (s->s.capture != NULL) {
		struct op o = {fn, NULL, 0, dst, src, n, value, NULL};
		return capture_node(s, fn == FN_cuLaunchKernel ? KERNEL_NODE : fn == FN_cuLaunchHostFunc ? HOST_NODE : fn == FN_cuMemsetD8Async || fn == FN_cuMemsetD32Async ? MEMSET_NODE : MEMCPY_NODE, &o, NULL);
	}
	if (s->s.capturing)
		return SUCCESS; // it becomes part of a graph, which nobody launches
	if (s->ctx->c.sticky != 0)
		return s->ctx->c.sticky;
	struct op o = {fn, s, s->s.epoch + 1, dst, src, n, value, NULL};
	if (!s->s.held && !(calls_held && fn == FN_cuLaunchHostFunc))
		return perform(&o);
	if (op_count == sizeof ops / sizeof ops[0]) {
		fprintf(stderr, "fakecuda: too many operations on held streams\n");
		abort();
	}
	ops[op_count++] = o;
	return SUCCESS;
}

// busy reports whether work on memory is to be done in the context.
static bool busy(const struct object *ctx) {
	for (int i = 0; i < op_count; i++)
		if (ops[i].stream->ctx == ctx)
			return true;
	return false;
}

static void wait_a_little(void);

static int64_t waiting; // calls that wait for work on memory

// wait_for_work waits until no work on memory is to be done in the context.
static void wait_for_work(const struct object *ctx) {
	waiting++;
	while (busy(ctx) && ctx->c.sticky == 0)
		wait_a_little();
	waiting--;
}

// The driver API: initialisation and devices.

CUresult cuInit(unsigned flags) {
	CUresult r = enter(FN_cuInit);
	if (r == SUCCESS && flags != 0)
		r = INVALID_VALUE;
	if (r == SUCCESS)
		initialized = true;
	return leave(r);
}

CUresult cuDriverGetVersion(int *version) {
	CUresult r = enter(FN_cuDriverGetVersion);
	if (r == SUCCESS)
		*version = driver_version;
	return leave(r);
}

CUresult cuGetProcAddress_v2(const char *name, void **p, int version, uint64_t flags, int *status) {
	lock();
	*p = NULL;
	if (status != NULL)
		*status = 1; // not found
	if (version > driver_version)
		version = driver_version;
	for (int i = 0; i < FUNCTION_COUNT; i++) {
		if (strcmp(functions[i].ask, name) != 0)
			continue;
		if (functions[i].version > version) {
			if (*p == NULL && status != NULL)
				*status = 2; // not in this version
			continue;
		}
		// The rows of one name are in the order of their versions.
		*p = functions[i].address;
		if (status != NULL)
			*status = 0;
	}
	return leave(SUCCESS);
}

static const struct { int code; const char *name, *text; } errors[] = {
	{SUCCESS, "CUDA_SUCCESS", "no error"},
	{NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{12345, "CUDA_ERROR_OF_TOMORROW", "an error that only a newer driver knows"},
};

CUresult cuGetErrorName(int code, const char **s) {
	CUresult r = enter(FN_cuGetErrorName);
	*s = NULL;
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
		if (errors[i].code == code)
			*s = errors[i].name;
	return leave(r != SUCCESS ? r : *s == NULL ? INVALID_VALUE : SUCCESS);
}

CUresult cuGetErrorString(int code, const char **s) {
	CUresult r = enter(FN_cuGetErrorString);
	*s = NULL;
	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
		if (errors[i].code == code)
			*s = errors[i].text;
	return leave(r != SUCCESS ? r : *s == NULL ? INVALID_VALUE : SUCCESS);
}

CUresult cuDeviceGetCount(int *n) {
	CUresult r = enter(FN_cuDeviceGetCount);
	if (r == SUCCESS)
		*n = DEVICES;
	return leave(r);
}

CUresult cuDeviceGet(int *dev, int ordinal) {
	CUresult r = enter(FN_cuDeviceGet);
	if (r == SUCCESS && (ordinal < 0 || ordinal >= DEVICES))
		r = INVALID_DEVICE;
	if (r == SUCCESS)
		*dev = ordinal;
	return leave(r);
}

static CUresult enter_device(enum function fn, int dev) {
	CUresult r = enter(fn);
	if (r == SUCCESS && (dev < 0 || dev >= DEVICES))
		r = INVALID_DEVICE;
	return r;
}

CUresult cuDeviceGetName(char *name, int len, int dev) {
	CUresult r = enter_device(FN_cuDeviceGetName, dev);
	if (r == SUCCESS)
		snprintf(name, len, "Fake GPU %d", dev);
	return leave(r);
}

CUresult cuDeviceGetAttribute(int *v, int attribute, int dev) {
	CUresult r = enter_device(FN_cuDeviceGetAttribute, dev);
	if (r == SUCCESS)
		*v = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute;
	return leave(r);
}

CUresult cuDeviceTotalMem_v2(size_t *n, int dev) {
	CUresult r = enter_device(FN_cuDeviceTotalMem_v2, dev);
	if (r == SUCCESS)
		*n = (size_t)1 << 34;
	return leave(r);
}

CUresult cuDeviceGetUuid_v2(unsigned char *uuid, int dev) {
	CUresult r = enter_device(FN_cuDeviceGetUuid_v2, dev);
	if (r == SUCCESS)
		for (int i = 0; i < 16; i++)
			uuid[i] = i * 16 + dev;
	return leave(r);
}

CUresult cuDeviceGetUuid(unsigned char *uuid, int dev) {
	return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceGetPCIBusId(char *id, int len, int dev) {
	CUresult r = enter_device(FN_cuDeviceGetPCIBusId, dev);
	if (r == SUCCESS)
		snprintf(id, len, "0000:%02X:00.0", 0x3b + dev);
	return leave(r);
}

CUresult cuDeviceGetByPCIBusId(int *dev, const char *id) {
	CUresult r = enter(FN_cuDeviceGetByPCIBusId);
	unsigned domain, bus, device, function;
	if (r == SUCCESS && sscanf(id, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
		r = INVALID_VALUE;
	if (r == SUCCESS && (bus < 0x3b || bus >= 0x3b + DEVICES))
		r = INVALID_DEVICE;
	if (r == SUCCESS)
		*dev = bus - 0x3b;
	return leave(r);
}

CUresult cuDeviceCanAccessPeer(int *can, int dev, int peer) {
	CUresult r = enter_device(FN_cuDeviceCanAccessPeer, dev);
	if (r == SUCCESS && (peer < 0 || peer >= DEVICES))
		r = INVALID_DEVICE;
	if (r == SUCCESS)
		*can = dev != peer;
	return leave(r);
}

CUresult cuDeviceGetP2PAttribute(int *v, int attribute, int dev, int peer) {
	CUresult r = enter_device(FN_cuDeviceGetP2PAttribute, dev);
	if (r == SUCCESS && (peer < 0 || peer >= DEVICES || peer == dev))
		r = INVALID_DEVICE;
	if (r == SUCCESS)
		*v = attribute;
	return leave(r);
}

// Contexts.

CUresult cuDevicePrimaryCtxGetState(int dev, unsigned *flags, int *active) {
	CUresult r = enter_device(FN_cuDevicePrimaryCtxGetState, dev);
	if (r == SUCCESS) {
		*flags = primary_flags[dev];
		*active = primaries[dev] != NULL && primaries[dev]->c.retained > 0;
	}
	return leave(r);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(int dev, unsigned flags) {
	CUresult r = enter_device(FN_cuDevicePrimaryCtxSetFlags_v2, dev);
	if (r == SUCCESS && flags > 0xff)
		r = INVALID_VALUE;
	if (r == SUCCESS)
		primary_flags[dev] = flags;
	return leave(r);
}

CUresult cuDevicePrimaryCtxRetain(struct object **ctx, int dev) {
	CUresult r = enter_device(FN_cuDevicePrimaryCtxRetain, dev);
	if (r != SUCCESS)
		return leave(r);
	struct object *c = primaries[dev];
	if (c == NULL) {
		c = primaries[dev] = new_object(CONTEXT, NULL);
		live[CONTEXT]--; // it counts while it is retained
		c->c.device = dev;
	}
	if (c->c.sticky != 0)
		return leave(c->c.sticky); // the process does not recover
	if (c->c.retained++ == 0) {
		c->c.id = ++ctx_ids;
		live[CONTEXT]++;
	}
	*ctx = c;
	return leave(SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease_v2(int dev) {
	enum function fn = FN_cuDevicePrimaryCtxRelease_v2;
	CUresult r = enter_device(fn, dev);
	if (r != SUCCESS)
		return leave(r);
	struct object *c = primaries[dev];
	if (c == NULL || c->c.retained == 0)
		return leave(crash(fn, c, "device %d's primary context is not retained", dev));
	if (--c->c.retained == 0) {
		if (c->in_use != 0)
			return leave(crash(fn, c, "%u calls in the context are under way", c->in_use));
		c->c.id = 0;
		live[CONTEXT]--;
		destroyed[CONTEXT]++;
		orphans += c->c.children;
		c->c.children = 0;
	}
	return leave(c->c.sticky);
}

static CUresult create(enum function fn, struct object **ctx, unsigned flags, int dev) {
	CUresult r = enter_device(fn, dev);
	if (r == SUCCESS && flags > 0xff)
		r = INVALID_VALUE;
	if (r != SUCCESS)
		return leave(r);
	struct object *c = new_object(CONTEXT, NULL);
	c->c.device = dev;
	c->c.id = ++ctx_ids;
	c->c.flags = flags;
	c->c.created = true;
	if (stack_depth == STACK)
		return leave(crash(fn, c, "the thread's stack of contexts is full"));
	stack[stack_depth++] = c;
	depth++;
	*ctx = c;
	return leave(SUCCESS);
}

CUresult cuCtxCreate_v2(struct object **ctx, unsigned flags, int dev) {
	return create(FN_cuCtxCreate_v2, ctx, flags, dev);
}

CUresult cuCtxCreate_v4(struct object **ctx, void *params, unsigned flags, int dev) {
	return params != NULL ? INVALID_VALUE : create(FN_cuCtxCreate_v4, ctx, flags, dev);
}

CUresult cuCtxDestroy_v2(struct object *c) {
	enum function fn = FN_cuCtxDestroy_v2;
	CUresult r = enter(fn);
	if (r == SUCCESS && c == NULL)
		r = INVALID_VALUE;
	if (r != SUCCESS)
		return leave(r);
	r = check(fn, c, CONTEXT);
	if (r == TRAPPED)
		return leave(r);
	if (!c->c.created)
		return leave(INVALID_CONTEXT);
	if (c->in_use != 0)
		return leave(crash(fn, c, "%u calls in the context are under way", c->in_use));
	if (current() == c) {
		stack_depth--;
		depth--;
	}
	wait_for_work(c);
	c->c.id = 0;
	c->magic = FREED;
	live[CONTEXT]--;
	destroyed[CONTEXT]++;
	orphans += c->c.children;
	return leave(r);
}

CUresult cuCtxGetDevice(int *dev) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuCtxGetDevice, &ctx);
	if (r == SUCCESS)
		*dev = ctx->c.device;
	return leave(r);
}

CUresult cuCtxGetFlags(unsigned *flags) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuCtxGetFlags, &ctx);
	if (r == SUCCESS)
		*flags = ctx->c.created ? ctx->c.flags : primary_flags[ctx->c.device];
	return leave(r);
}

CUresult cuCtxGetApiVersion(struct object *ctx, unsigned *version) {
	CUresult r = enter(FN_cuCtxGetApiVersion);
	if (r == SUCCESS)
		r = check(FN_cuCtxGetApiVersion, ctx, CONTEXT);
	if (r == SUCCESS)
		*version = 3020;
	return leave(r);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuCtxGetStreamPriorityRange, &ctx);
	if (r == SUCCESS)
		*least = 0, *greatest = -5;
	return leave(r);
}

CUresult cuCtxGetLimit(size_t *v, int limit) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuCtxGetLimit, &ctx);
	if (r == SUCCESS && (limit < 0 || limit > 6))
		r = 215; // CUDA_ERROR_UNSUPPORTED_LIMIT
	if (r == SUCCESS)
		*v = ctx->c.limit;
	return leave(r);
}

CUresult cuCtxSetLimit(int limit, size_t v) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuCtxSetLimit, &ctx);
	if (r == SUCCESS && (limit < 0 || limit > 6))
		r = 215; // CUDA_ERROR_UNSUPPORTED_LIMIT
	if (r == SUCCESS)
		ctx->c.limit = v;
	return leave(r);
}

static CUresult peer_access(enum function fn, struct object *peer, bool on) {
	struct object *ctx;
	CUresult r = enter_current(fn, &ctx);
	if (r == SUCCESS)
		r = check(fn, peer, CONTEXT);
	if (r == SUCCESS && peer->c.device == ctx->c.device)
		r = INVALID_DEVICE;
	unsigned bit = r == SUCCESS ? 1u << peer->c.device : 0;
	if (r == SUCCESS && on == ((ctx->c.peers & bit) != 0))
		r = on ? PEER_ALREADY : PEER_NOT;
	if (r == SUCCESS)
		ctx->c.peers ^= bit;
	return leave(r);
}

CUresult cuCtxEnablePeerAccess(struct object *peer, unsigned flags) {
	return flags != 0 ? INVALID_VALUE : peer_access(FN_cuCtxEnablePeerAccess, peer, true);
}

CUresult cuCtxDisablePeerAccess(struct object *peer) {
	return peer_access(FN_cuCtxDisablePeerAccess, peer, false);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuMemGetInfo_v2, &ctx);
	if (r == SUCCESS)
		*free_bytes = (size_t)1 << 33, *total = (size_t)1 << 34;
	return leave(r);
}

CUresult cuCtxGetId(struct object *ctx, uint64_t *id) {
	CUresult r = enter(FN_cuCtxGetId);
	if (r == SUCCESS)
		r = ctx == NULL ? INVALID_CONTEXT : check(FN_cuCtxGetId, ctx, CONTEXT);
	if (r == SUCCESS)
		*id = ctx->c.id;
	return leave(r);
}

CUresult cuCtxPushCurrent_v2(struct object *ctx) {
	enum function fn = FN_cuCtxPushCurrent_v2;
	CUresult r = enter(fn);
	if (r != SUCCESS)
		return leave(r);
	if (ctx == NULL)
		return leave(INVALID_VALUE);
	r = check(fn, ctx, CONTEXT);
	if (r == TRAPPED)
		return leave(r);
	if (stack_depth == STACK)
		return leave(crash(fn, ctx, "the thread's stack of contexts is full"));
	stack[stack_depth++] = ctx;
	depth++;
	return leave(SUCCESS);
}

CUresult cuCtxPopCurrent_v2(struct object **ctx) {
	CUresult r = enter(FN_cuCtxPopCurrent_v2);
	if (r != SUCCESS)
		return leave(r);
	if (stack_depth == 0)
		return leave(INVALID_CONTEXT);
	depth--;
	struct object *c = stack[--stack_depth];
	if (ctx != NULL)
		*ctx = c;
	return leave(SUCCESS);
}

CUresult cuCtxGetCurrent(struct object **ctx) {
	CUresult r = enter(FN_cuCtxGetCurrent);
	if (r == SUCCESS)
		*ctx = current();
	return leave(r);
}

CUresult cuCtxSetCurrent(struct object *ctx) {
	enum function fn = FN_cuCtxSetCurrent;
	CUresult r = enter(fn);
	if (r != SUCCESS)
		return leave(r);
	if (ctx == NULL) {
		if (stack_depth > 0) {
			stack_depth--;
			depth--;
		}
		return leave(SUCCESS);
	}
	if (check(fn, ctx, CONTEXT) == TRAPPED)
		return leave(TRAPPED);
	if (stack_depth == 0) {
		stack_depth++;
		depth++;
	}
	stack[stack_depth - 1] = ctx;
	return leave(SUCCESS);
}

CUresult cuCtxSynchronize(void) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuCtxSynchronize, &ctx);
	if (r == SUCCESS) {
		pause_at(FN_cuCtxSynchronize, BEFORE, ctx, NULL);
		if (captures > 0) { // in any mode
			spoil_all(true);
			return leave(CAPTURE_UNSUPPORTED);
		}
		ctx->in_use++;
		wait_for_work(ctx);
		ctx->in_use--;
		r = ctx->c.sticky;
	}
	return leave(r);
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
	CUresult r = enter(FN_cuThreadExchangeStreamCaptureMode);
	if (r != SUCCESS)
		return leave(r);
	if (*mode < 0 || *mode > 2)
		return leave(INVALID_VALUE);
	off_modes += (*mode != 0) - (capture_mode != 0);
	int old = capture_mode;
	capture_mode = *mode;
	*mode = old;
	return leave(SUCCESS);
}

// Streams.

static CUresult create_stream(enum function fn, struct object **s, unsigned flags, int priority) {
	struct object *ctx;
	CUresult r = enter_current(fn, &ctx);
	if (r == SUCCESS && flags > 1)
		r = INVALID_VALUE;
	if (r == SUCCESS) {
		*s = new_object(STREAM, ctx);
		(*s)->s.flags = flags;
		(*s)->s.priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	}
	return leave(r);
}

CUresult cuStreamCreate(struct object **s, unsigned flags) {
	return create_stream(FN_cuStreamCreate, s, flags, 0);
}

CUresult cuStreamCreateWithPriority(struct object **s, unsigned flags, int priority) {
	return create_stream(FN_cuStreamCreateWithPriority, s, flags, priority);
}

// ask_stream looks at a stream.
static CUresult ask_stream(enum function fn, struct object **s) {
	CUresult r = enter(fn);
	return r != SUCCESS ? r : resolve(fn, s);
}

CUresult cuStreamIsCapturing(struct object *s, int *status) {
	CUresult r = ask_stream(FN_cuStreamIsCapturing, &s);
	if (r == SUCCESS)
		*status = s->s.capturing ? s->s.capture != NULL && s->s.capture->invalid ? 2 : 1 : 0;
	return leave(r);
}

// Captures.

static void join_capture(struct object *s, struct capture *c, struct node **after, int n) {
	s->s.capture = c;
	s->s.capturing = true;
	s->s.after = copy_nodes(after, n);
	s->s.after_count = n;
	if (c->stream_count == sizeof c->streams / sizeof c->streams[0]) {
		fprintf(stderr, "fakecuda: too many streams in a capture\n");
		abort();
	}
	c->streams[c->stream_count++] = s;
}

static CUresult begin_capture(enum function fn, struct object *s, struct object *g, struct node **after, size_t n, int mode) {
	CUresult r = ask_stream(fn, &s);
	if (r == SUCCESS && (mode < 0 || mode > 2))
		r = INVALID_VALUE;
	if (r == SUCCESS && s->s.own == 1)
		r = CAPTURE_UNSUPPORTED;
	if (r == SUCCESS && s->s.capturing)
		r = ILLEGAL_STATE;
	if (r == SUCCESS && g != NULL) {
		r = check(fn, g, GRAPH);
		for (size_t i = 0; i < n && r == SUCCESS; i++)
			if (!among(g->g.nodes, g->g.count, after[i]))
				r = INVALID_VALUE;
	}
	if (r != SUCCESS)
		return leave(r);
	pause_at(fn, BEFORE, s, g);
	struct capture *c = calloc(1, sizeof *c);
	c->next = all_captures;
	all_captures = c;
	c->id = ++capture_ids;
	c->mode = mode;
	c->thread = pthread_self();
	c->origin = s;
	c->to_graph = g != NULL;
	if (g == NULL) { // not in the census before it is the program's
		g = new_object(GRAPH, s->ctx);
		live[GRAPH]--;
		s->ctx->c.children--;
	} else {
		g->in_use++;
	}
	c->graph = g;
	captures += mode == 0;
	join_capture(s, c, after, n);
	return leave(SUCCESS);
}

CUresult cuStreamBeginCapture_v2(struct object *s, int mode) {
	return begin_capture(FN_cuStreamBeginCapture_v2, s, NULL, NULL, 0, mode);
}

CUresult cuStreamBeginCaptureToGraph(struct object *s, struct object *g, struct node **after, void *edges, size_t n, int mode) {
	return g == NULL || edges != NULL ? INVALID_VALUE : begin_capture(FN_cuStreamBeginCaptureToGraph, s, g, after, n, mode);
}

// precedes reports whether a node is one of some others, or comes before one.
static bool precedes(const struct node *n, struct node *const *nodes, int count) {
	for (int i = 0; i < count; i++)
		if (nodes[i] == n || precedes(n, nodes[i]->after, nodes[i]->after_count))
			return true;
	return false;
}

CUresult cuStreamEndCapture(struct object *s, struct object **graph) {
	enum function fn = FN_cuStreamEndCapture;
	CUresult r = ask_stream(fn, &s);
	*graph = NULL;
	if (r != SUCCESS)
		return leave(r);
	pause_at(fn, BEFORE, s, NULL);
	struct capture *c = s->s.capture;
	if (c == NULL)
		return leave(ILLEGAL_STATE);
	if (c->origin != s) {
		c->invalid = true;
		return leave(CAPTURE_UNMATCHED);
	}
	for (int i = 0; i < c->stream_count; i++)
		for (int k = 0; k < c->streams[i]->s.after_count; k++)
			if (c->streams[i]->s.capture == c && !precedes(c->streams[i]->s.after[k], s->s.after, s->s.after_count))
				r = CAPTURE_UNJOINED;
	if (c->mode != 2 && !pthread_equal(c->thread, pthread_self()))
		r = CAPTURE_WRONG_THREAD;
	if (c->invalid)
		r = CAPTURE_INVALIDATED;
	c->over = true;
	captures -= c->mode == 0;
	for (int i = 0; i < c->stream_count; i++)
		if (c->streams[i]->s.capture == c) {
			c->streams[i]->s.capture = NULL;
			c->streams[i]->s.capturing = false;
		}
	if (c->to_graph) {
		c->graph->in_use--;
	} else if (r == SUCCESS) {
		live[GRAPH]++;
		s->ctx->c.children++;
	}
	if (r == SUCCESS)
		*graph = c->graph;
	return leave(r);
}

static CUresult capture_info(enum function fn, struct object *s, int *status, uint64_t *id, struct object **g, struct node ***after, size_t *n) {
	CUresult r = ask_stream(fn, &s);
	if (r == SUCCESS) {
		struct capture *c = s->s.capture;
		*status = c == NULL ? 0 : c->invalid ? 2 : 1;
		if (id != NULL)
			*id = c == NULL ? 0 : c->id;
		if (g != NULL)
			*g = c == NULL ? NULL : c->graph;
		if (after != NULL)
			*after = s->s.after;
		if (n != NULL)
			*n = c == NULL ? 0 : s->s.after_count;
	}
	return leave(r);
}

CUresult cuStreamGetCaptureInfo_v2(struct object *s, int *status, uint64_t *id, struct object **g, struct node ***after, size_t *n) {
	return capture_info(FN_cuStreamGetCaptureInfo_v2, s, status, id, g, after, n);
}

CUresult cuStreamGetCaptureInfo_v3(struct object *s, int *status, uint64_t *id, struct object **g, struct node ***after, void **edges, size_t *n) {
	return capture_info(FN_cuStreamGetCaptureInfo_v3, s, status, id, g, after, n);
}

CUresult cuStreamGetPriority(struct object *s, int *priority) {
	CUresult r = ask_stream(FN_cuStreamGetPriority, &s);
	if (r == SUCCESS)
		*priority = s->s.priority;
	return leave(r);
}

CUresult cuStreamGetFlags(struct object *s, unsigned *flags) {
	CUresult r = ask_stream(FN_cuStreamGetFlags, &s);
	if (r == SUCCESS)
		*flags = s->s.flags;
	return leave(r);
}

CUresult cuStreamGetId(struct object *s, uint64_t *id) {
	CUresult r = ask_stream(FN_cuStreamGetId, &s);
	if (r == SUCCESS)
		*id = ((char *)s - arena) / SLOT;
	return leave(r);
}

CUresult cuStreamGetCtx(struct object *s, struct object **ctx) {
	CUresult r = ask_stream(FN_cuStreamGetCtx, &s);
	if (r == SUCCESS)
		*ctx = s->ctx;
	return leave(r);
}

CUresult cuStreamDestroy_v2(struct object *s) {
	lock();
	if ((char *)s > arena && s->magic == MAGIC && s->kind == STREAM && s->s.capture != NULL) {
		s->s.capture->invalid = true;
		spoilt++;
	}
	unlock();
	return destroy(FN_cuStreamDestroy_v2, s, STREAM);
}

static bool stream_idle(const struct object *s) {
	return !s->s.held && (s->s.done_at == 0 || s->s.done_at <= now());
}

CUresult cuStreamQuery(struct object *s) {
	enum function fn = FN_cuStreamQuery;
	CUresult r = spoils(enter(fn));
	if (r == SUCCESS) {
		r = resolve(fn, &s);
		if (r == SUCCESS && s->s.capturing) {
			spoil_all(true);
			r = CAPTURE_UNSUPPORTED;
		}
		if (r == SUCCESS) {
			pause_at(fn, BEFORE, s, NULL);
			r = stream_idle(s) ? SUCCESS : NOT_READY;
			pause_at(fn, AFTER, s, NULL);
		}
	}
	return leave(r);
}

// wait_a_little sleeps until something changes, or some time has passed.
static void wait_a_little(void) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += ONE_MILLISECOND / 10;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	pthread_cond_timedwait(&changed, &mutex, &t);
}

CUresult cuStreamSynchronize(struct object *s) {
	enum function fn = FN_cuStreamSynchronize;
	CUresult r = enter(fn);
	if (r != SUCCESS)
		return leave(r);
	r = resolve(fn, &s);
	if (r == SUCCESS && s->s.capture != NULL) {
		spoil_all(true);
		r = CAPTURE_UNSUPPORTED;
	}
	if (r != SUCCESS)
		return leave(r);
	pause_at(fn, BEFORE, s, NULL);
	s->in_use++;
	while (!stream_idle(s) && s->ctx->c.sticky == 0)
		wait_a_little();
	s->in_use--;
	return leave(s->ctx->c.sticky);
}

static bool event_complete(const struct object *e) {
	return e->e.record == 0 ||
		(e->e.polls == 0 && e->e.stream->s.epoch >= e->e.epoch && (e->e.done_at == 0 || e->e.done_at <= now()));
}

CUresult cuStreamWaitEvent(struct object *s, struct object *e, unsigned flags) {
	enum function fn = FN_cuStreamWaitEvent;
	CUresult r = enter(fn);
	if (r == SUCCESS)
		r = check(fn, e, EVENT);
	if (r == SUCCESS)
		r = resolve(fn, &s);
	if (r == SUCCESS && flags > 1)
		r = INVALID_VALUE;
	if (r != SUCCESS)
		return leave(r);
	if ((e->e.flags & EVENT_IPC) && e->ctx != s->ctx)
		return leave(crash(fn, e, "processes share the event, and the stream is of another context"));
	pause_at(fn, BEFORE, s, e);
	if (flags == 1 && s->s.capture != NULL)
		return leave(capture_node(s, WAIT_NODE, NULL, e));
	struct capture *c = e->e.captured ? e->e.capture : NULL;
	if (c != NULL && c->over)
		return leave(INVALID_VALUE);
	if (c != NULL && s->s.capture == NULL) {
		join_capture(s, c, e->e.after, e->e.after_count);
		return leave(SUCCESS);
	}
	if (s->s.capture != NULL && s->s.capture != c) {
		s->s.capture->invalid = true;
		spoilt++;
		if (c == NULL)
			return leave(CAPTURE_ISOLATION);
		c->invalid = true;
		return leave(CAPTURE_MERGE);
	}
	if (c != NULL) {
		struct node **both = calloc(s->s.after_count + e->e.after_count + 1, sizeof *both);
		int n = s->s.after_count;
		memcpy(both, s->s.after, n * sizeof *both);
		for (int i = 0; i < e->e.after_count; i++)
			if (!among(both, n, e->e.after[i]))
				both[n++] = e->e.after[i];
		s->s.after = both;
		s->s.after_count = n;
		return leave(c->invalid ? CAPTURE_INVALIDATED : SUCCESS);
	}
	s->s.waited = e->e.record;
	if (e->e.done_at > s->s.done_at)
		s->s.done_at = e->e.done_at;
	return leave(r);
}

// Events.

CUresult cuEventCreate(struct object **e, unsigned flags) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuEventCreate, &ctx);
	if (r == SUCCESS && (flags > 7 || ((flags & EVENT_IPC) && !(flags & EVENT_UNTIMED))))
		r = INVALID_VALUE;
	if (r == SUCCESS) {
		pause_at(FN_cuEventCreate, BEFORE, ctx, NULL);
		*e = new_object(EVENT, ctx);
		(*e)->e.flags = flags;
	}
	return leave(r);
}

CUresult cuEventDestroy_v2(struct object *e) {
	return destroy(FN_cuEventDestroy_v2, e, EVENT);
}

static struct object *last_recorded;

static CUresult record(enum function fn, struct object *e, struct object *s, unsigned flags) {
	CUresult r = enter(fn);
	if (r != SUCCESS)
		return leave(r);
	r = check(fn, e, EVENT);
	if (r != SUCCESS)
		return leave(r);
	r = resolve(fn, &s);
	if (r != SUCCESS)
		return leave(r);
	if (e->ctx != s->ctx)
		return leave(INVALID_HANDLE);
	if (flags > 1)
		return leave(INVALID_VALUE);
	pause_at(fn, BEFORE, e, s);
	last_recorded = e;
	if (flags == 1 && capturing)
		return leave(SUCCESS);
	if (flags == 1 && s->s.capture != NULL)
		return leave(capture_node(s, RECORD_NODE, NULL, e));
	if (s->s.capture != NULL && s->s.capture->invalid)
		return leave(CAPTURE_INVALIDATED);
	e->e.captured = s->s.capturing;
	e->e.capture = s->s.capture;
	if (s->s.capture != NULL) {
		e->e.after = copy_nodes(s->s.after, s->s.after_count);
		e->e.after_count = s->s.after_count;
	}
	e->e.record = ++records;
	e->e.stream = s;
	e->e.epoch = s->s.held ? s->s.epoch + 1 : 0;
	e->e.polls = polls;
	e->e.done_at = 0;
	if (latency > 0)
		e->e.done_at = s->s.done_at = now() + latency;
	pause_at(fn, AFTER, e, s);
	return leave(SUCCESS);
}

CUresult cuEventRecord(struct object *e, struct object *s) {
	return record(FN_cuEventRecord, e, s, 0);
}

CUresult cuEventRecordWithFlags(struct object *e, struct object *s, unsigned flags) {
	return record(FN_cuEventRecordWithFlags, e, s, flags);
}

CUresult cuEventQuery(struct object *e) {
	enum function fn = FN_cuEventQuery;
	CUresult r = spoils(enter(fn));
	if (r != SUCCESS)
		return leave(r);
	r = check(fn, e, EVENT);
	if (r == SUCCESS && e->e.captured) {
		if (e->e.capture != NULL && e->e.capture->over)
			return leave(INVALID_VALUE);
		spoil_all(true);
		r = CAPTURED_EVENT;
	}
	if (r != SUCCESS)
		return leave(r);
	pause_at(fn, BEFORE, e, NULL);
	r = event_complete(e) ? SUCCESS : NOT_READY;
	if (e->e.polls > 0)
		e->e.polls--;
	pause_at(fn, AFTER, e, NULL);
	return leave(r);
}

CUresult cuEventSynchronize(struct object *e) {
	enum function fn = FN_cuEventSynchronize;
	CUresult r = enter(fn);
	if (r != SUCCESS)
		return leave(r);
	r = check(fn, e, EVENT);
	if (r != SUCCESS)
		return leave(r);
	pause_at(fn, BEFORE, e, NULL);
	e->in_use++;
	e->e.polls = 0;
	// It waits for the record of its time.
	struct object at_first = *e;
	while (!event_complete(&at_first) && e->ctx->c.sticky == 0)
		wait_a_little();
	e->in_use--;
	r = e->ctx->c.sticky;
	pause_at(fn, AFTER, e, NULL);
	return leave(r);
}

static CUresult elapsed(enum function fn, float *ms, struct object *start, struct object *stop) {
	CUresult r = enter(fn);
	if (r == SUCCESS)
		r = check(fn, start, EVENT);
	if (r == SUCCESS)
		r = check(fn, stop, EVENT);
	if (r != SUCCESS)
		return leave(r);
	pause_at(fn, BEFORE, start, stop);
	if (start->ctx != stop->ctx || start->e.record == 0 || stop->e.record == 0 ||
		((start->e.flags | stop->e.flags) & EVENT_UNTIMED))
		r = INVALID_HANDLE;
	else if (!event_complete(start) || !event_complete(stop))
		r = NOT_READY;
	else // records are a millisecond apart
		*ms = (float)((int64_t)stop->e.record - (int64_t)start->e.record);
	pause_at(fn, AFTER, start, stop);
	return leave(r);
}

CUresult cuEventElapsedTime(float *ms, struct object *start, struct object *stop) {
	return elapsed(FN_cuEventElapsedTime, ms, start, stop);
}

CUresult cuEventElapsedTime_v2(float *ms, struct object *start, struct object *stop) {
	return elapsed(FN_cuEventElapsedTime_v2, ms, start, stop);
}

// A handle names the process that created the event. Processes have nothing in common:
// an event that was opened is this process's own.
typedef struct {
	char magic[8];
	int64_t pid;
	struct object *event;
	char rest[40];
} ipc_handle;

_Static_assert(sizeof(ipc_handle) == 64, "handles have 64 bytes");

static const char ipc_magic[8] = "purecu!";

CUresult cuIpcGetEventHandle(ipc_handle *h, struct object *e) {
	enum function fn = FN_cuIpcGetEventHandle;
	CUresult r = enter(fn);
	if (r == SUCCESS)
		r = check(fn, e, EVENT);
	if (r == SUCCESS && (!(e->e.flags & EVENT_IPC) || e->e.opened))
		r = INVALID_HANDLE;
	if (r == SUCCESS) {
		pause_at(fn, BEFORE, e, NULL);
		*h = (ipc_handle){.pid = getpid(), .event = e};
		memcpy(h->magic, ipc_magic, sizeof ipc_magic);
	}
	return leave(r);
}

CUresult cuIpcOpenEventHandle(struct object **e, ipc_handle h) {
	enum function fn = FN_cuIpcOpenEventHandle;
	struct object *ctx;
	CUresult r = enter_current(fn, &ctx);
	if (r == SUCCESS && memcmp(h.magic, ipc_magic, sizeof ipc_magic) != 0)
		r = NO_SUCH_EVENT;
	if (r == SUCCESS && h.pid == getpid())
		r = INVALID_CONTEXT;
	if (r == SUCCESS) {
		pause_at(fn, BEFORE, ctx, NULL);
		*e = new_object(EVENT, ctx);
		(*e)->e.flags = EVENT_IPC | EVENT_UNTIMED;
		(*e)->e.opened = true;
	}
	return leave(r);
}

// Modules and kernels.

static const struct kernel {
	const char *name;
	int n;
	size_t sizes[4];
} kernels[] = {
	{"noop", 0, {0}},
	{"axpy", 3, {8, 4, 8}},
	{"wide", 1, {24}},
	{"spin", 1, {8}},
	{"add_f32", 4, {8, 8, 8, 4}},
};

static struct {
	uint64_t count;
	unsigned grid[3], block[3], shared;
	struct object *stream;
	unsigned char values[4][32];
} launched;

static const char *option(unsigned n, const int *options, void **values, int key, size_t *size) {
	const char *buffer = NULL;
	for (unsigned i = 0; i < n; i++) {
		if (options[i] == key)
			buffer = values[i];
		if (options[i] == key + 1) // the size of this buffer
			*size = (size_t)values[i];
	}
	return buffer;
}

static uint64_t options_seen; // the sum of the options' values but for the logs

CUresult cuModuleLoadDataEx(struct object **m, const char *image, unsigned n, const int *options, void **values) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuModuleLoadDataEx, &ctx);
	size_t size = 0;
	if (r == SUCCESS && strncmp(image, "fake", 4) != 0 && !strstr(image, ".entry ")) {
		r = INVALID_PTX;
		char *log = (char *)option(n, options, values, 5, &size);
		if (log != NULL)
			snprintf(log, size, "line 1; fatal: Parsing error near '%.8s': syntax error\nsecond line\n", image);
	}
	if (r == SUCCESS) {
		*m = new_object(MODULE, ctx);
		options_seen = 0;
		for (unsigned i = 0; i < n; i++)
			if (options[i] < 3 || options[i] > 6)
				options_seen += (uintptr_t)values[i];
		char *log = (char *)option(n, options, values, 3, &size);
		if (log != NULL)
			snprintf(log, size, "info: 0 bytes gmem\n");
	}
	return leave(r);
}

CUresult cuModuleGetGlobal_v2(uint64_t *p, size_t *size, struct object *m, const char *name) {
	CUresult r = enter(FN_cuModuleGetGlobal_v2);
	if (r == SUCCESS)
		r = check(FN_cuModuleGetGlobal_v2, m, MODULE);
	if (r == SUCCESS && strcmp(name, "counter") != 0)
		r = NOT_FOUND;
	if (r != SUCCESS)
		return leave(r);
	struct object *v = new_object(MEMORY, m->ctx);
	live[MEMORY]--; // it goes with its module
	m->ctx->c.children--;
	v->m.size = 8;
	v->m.data = calloc(1, 8);
	*p = address_of(v);
	*size = 8;
	return leave(SUCCESS);
}

CUresult cuModuleUnload(struct object *m) {
	return destroy(FN_cuModuleUnload, m, MODULE);
}

CUresult cuModuleGetFunction(struct object **f, struct object *m, const char *name) {
	CUresult r = enter(FN_cuModuleGetFunction);
	if (r == SUCCESS)
		r = check(FN_cuModuleGetFunction, m, MODULE);
	if (r != SUCCESS)
		return leave(r);
	pause_at(FN_cuModuleGetFunction, BEFORE, m, NULL);
	for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
		if (strcmp(kernels[i].name, name) != 0)
			continue;
		*f = new_object(FUNCTION, m->ctx);
		live[FUNCTION]--; // it goes with its module
		m->ctx->c.children--;
		(*f)->f.module = m;
		(*f)->f.kernel = &kernels[i];
		return leave(SUCCESS);
	}
	return leave(NOT_FOUND);
}

static CUresult check_function(enum function fn, struct object *f) {
	CUresult r = check(fn, f, FUNCTION);
	return r != SUCCESS ? r : check(fn, f->f.module, MODULE);
}

CUresult cuFuncGetParamInfo(struct object *f, size_t i, size_t *offset, size_t *size) {
	CUresult r = enter(FN_cuFuncGetParamInfo);
	if (r == SUCCESS)
		r = check_function(FN_cuFuncGetParamInfo, f);
	if (r == SUCCESS && i >= (size_t)f->f.kernel->n)
		r = INVALID_VALUE;
	if (r == SUCCESS) {
		*offset = i * 8;
		*size = f->f.kernel->sizes[i];
	}
	return leave(r);
}

CUresult cuFuncGetAttribute(int *v, int attribute, struct object *f) {
	CUresult r = enter(FN_cuFuncGetAttribute);
	if (r == SUCCESS)
		r = check_function(FN_cuFuncGetAttribute, f);
	if (r == SUCCESS)
		*v = attribute == 0 ? 1024 : attribute;
	return leave(r);
}

CUresult cuFuncSetAttribute(struct object *f, int attribute, int v) {
	CUresult r = enter(FN_cuFuncSetAttribute);
	if (r == SUCCESS)
		r = check_function(FN_cuFuncSetAttribute, f);
	if (r == SUCCESS && (attribute != 8 || v < 0)) // the dynamic shared memory
		r = INVALID_VALUE;
	return leave(r);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, struct object *f, int threads, size_t shared) {
	CUresult r = enter(FN_cuOccupancyMaxActiveBlocksPerMultiprocessor);
	if (r == SUCCESS)
		r = check_function(FN_cuOccupancyMaxActiveBlocksPerMultiprocessor, f);
	if (r == SUCCESS)
		*n = shared > 1 << 16 ? 0 : 2048 / threads;
	return leave(r);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *blocks, int *threads, struct object *f, void *callback, size_t shared, int limit) {
	(void)shared;
	CUresult r = enter(FN_cuOccupancyMaxPotentialBlockSize);
	if (r == SUCCESS)
		r = check_function(FN_cuOccupancyMaxPotentialBlockSize, f);
	if (r == SUCCESS && callback != NULL)
		r = INVALID_VALUE;
	if (r == SUCCESS) {
		*threads = limit == 0 || limit > 1024 ? 1024 : limit;
		*blocks = 264;
	}
	return leave(r);
}

CUresult cuLaunchKernel(struct object *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, struct object *s, void **params, void **extra) {
	enum function fn = FN_cuLaunchKernel;
	CUresult r = enter(fn);
	if (r == SUCCESS)
		r = check_function(fn, f);
	if (r == SUCCESS)
		r = resolve(fn, &s);
	if (r == SUCCESS && f->ctx != s->ctx)
		r = INVALID_HANDLE;
	if (r == SUCCESS && (gx * gy * gz == 0 || bx * by * bz == 0 || extra != NULL))
		r = INVALID_VALUE;
	if (r != SUCCESS)
		return leave(r);
	struct object *m = f->f.module;
	pause_at(fn, BEFORE, m, s);
	launched.count++;
	launched.grid[0] = gx, launched.grid[1] = gy, launched.grid[2] = gz;
	launched.block[0] = bx, launched.block[1] = by, launched.block[2] = bz;
	launched.shared = shared;
	launched.stream = s;
	memset(launched.values, 0, sizeof launched.values);
	for (int i = 0; i < f->f.kernel->n; i++)
		memcpy(launched.values[i], params[i], f->f.kernel->sizes[i]);
	if (f->f.kernel == &kernels[1]) { // axpy reads memory through its first parameter
		uint64_t mem;
		memcpy(&mem, params[0], sizeof mem);
		r = enqueue(fn, s, mem, 0, 1, 0);
		if (r == SUCCESS && s->s.held && !s->s.capturing)
			ops[op_count - 1].module = m;
	} else if (s->s.capture != NULL) {
		r = enqueue(fn, s, 0, 0, 0, 0);
	}
	if (r == SUCCESS && s->s.capture != NULL) // the node was added last
		s->s.after[0]->op.module = m;
	return leave(r);
}

CUresult cuLaunchCooperativeKernel(struct object *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, struct object *s, void **params) {
	lock();
	functions[FN_cuLaunchCooperativeKernel].calls[capture_mode]++;
	unlock();
	return gx * gy * gz > 264 ? 720 : cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, s, params, NULL);
}

struct launch_config {
	unsigned gx, gy, gz, bx, by, bz, shared;
	struct object *s;
	void *attributes;
	unsigned count;
};

// It launches without the attributes.
CUresult cuLaunchKernelEx(const struct launch_config *c, struct object *f, void **params, void **extra) {
	lock();
	functions[FN_cuLaunchKernelEx].calls[capture_mode]++;
	unlock();
	return cuLaunchKernel(f, c->gx, c->gy, c->gz, c->bx, c->by, c->bz, c->shared, c->s, params, extra);
}

// Memory.

CUresult cuMemAlloc_v2(uint64_t *p, size_t size) {
	struct object *ctx;
	CUresult r = spoils(enter_current(FN_cuMemAlloc_v2, &ctx));
	if (r == SUCCESS && size == 0)
		r = INVALID_VALUE;
	if (r != SUCCESS)
		return leave(r);
	char *data = size >> ADDRESS_BITS != 0 ? NULL : malloc(size);
	if (data == NULL)
		return leave(OUT_OF_MEMORY);
	memset(data, 0xa5, size);
	struct object *m = new_object(MEMORY, ctx);
	m->m.size = size;
	m->m.data = data;
	*p = address_of(m);
	return leave(SUCCESS);
}

CUresult cuMemFree_v2(uint64_t p) {
	enum function fn = FN_cuMemFree_v2;
	lock();
	struct object *m = (struct object *)(arena + (p >> ADDRESS_BITS) * SLOT);
	char *data = NULL;
	if (p != 0 && p % (1 << ADDRESS_BITS) == 0 && (char *)m < arena + arena_used && m->magic == MAGIC && m->kind == MEMORY && m->in_use == 0) {
		// NVIDIA's driver waits for the device.
		wait_for_work(m->ctx);
		data = m->m.data;
	}
	unlock();
	CUresult r = destroy(fn, m, MEMORY);
	if (r != TRAPPED && m->magic == FREED)
		free(data);
	return r;
}

CUresult cuMemHostAlloc(void **p, size_t size, unsigned flags) {
	struct object *ctx;
	CUresult r = spoils(enter_current(FN_cuMemHostAlloc, &ctx));
	if (r == SUCCESS && (size == 0 || flags > 7))
		r = INVALID_VALUE;
	if (r != SUCCESS)
		return leave(r);
	uint64_t slots = (size + HOST_SLOT - 1) / HOST_SLOT;
	if (host_arena == NULL) {
		host_arena = reserve(HOST_SLOT * HOST_SLOTS);
		if (host_arena == NULL) {
			fprintf(stderr, "fakecuda: no addresses\n");
			abort();
		}
	}
	if (slots > HOST_SLOTS - host_used)
		return leave(OUT_OF_MEMORY);
	char *data = host_arena + host_used * HOST_SLOT;
	if (!allow(data, size))
		return leave(OUT_OF_MEMORY);
	struct object *m = new_object(HOST, ctx);
	m->m.size = size;
	m->m.data = data;
	for (uint64_t i = 0; i < slots; i++)
		host_owner[host_used + i] = m;
	host_used += slots;
	*p = data;
	return leave(SUCCESS);
}

// cuMemFreeHost does not wait for the GPU, as nothing says that it does. The
// memory cannot be touched any more.
CUresult cuMemFreeHost(void *p) {
	enum function fn = FN_cuMemFreeHost;
	struct object *m = NULL;
	char *data;
	lock();
	CUresult r = host_at(fn, (uintptr_t)p, 0, &m, &data);
	if (r == TRAPPED)
		return leave(r);
	for (int i = 0; i < op_count; i++) {
		uint64_t begin = (uintptr_t)p, end = begin + m->m.size;
		if ((ops[i].fn == FN_cuMemcpyDtoHAsync_v2 && ops[i].dst >= begin && ops[i].dst < end) ||
			(ops[i].fn == FN_cuMemcpyHtoDAsync_v2 && ops[i].src >= begin && ops[i].src < end))
			return leave(crash(fn, p, "a copy that uses the memory is under way"));
	}
	size_t size = m->m.size;
	unlock();
	r = destroy(fn, m, HOST);
	if (r != TRAPPED && m->magic == FREED)
		forbid(p, size);
	return r;
}

CUresult cuMemHostGetDevicePointer_v2(uint64_t *dev, void *p, unsigned flags) {
	enum function fn = FN_cuMemHostGetDevicePointer_v2;
	struct object *m;
	char *data;
	CUresult r = enter(fn);
	if (r == SUCCESS)
		r = flags != 0 ? INVALID_VALUE : host_at(fn, (uintptr_t)p, 0, &m, &data);
	if (r == SUCCESS)
		*dev = address_of(m) + ((char *)p - m->m.data);
	return leave(r);
}

static CUresult enter_copy(enum function fn, uint64_t p, size_t n, struct object **m, char **data) {
	struct object *ctx;
	CUresult r = enter_current(fn, &ctx);
	if (r == SUCCESS)
		r = memory_at(fn, p, n, m, data);
	if (r == SUCCESS)
		pause_at(fn, BEFORE, *m, ctx);
	return r;
}

CUresult cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t n) {
	struct object *m;
	char *data;
	CUresult r = enter_copy(FN_cuMemcpyHtoD_v2, dst, n, &m, &data);
	if (r == SUCCESS)
		memcpy(data, src, n);
	return leave(r);
}

CUresult cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t n) {
	struct object *m;
	char *data;
	CUresult r = enter_copy(FN_cuMemcpyDtoH_v2, src, n, &m, &data);
	if (r == SUCCESS)
		memcpy(dst, data, n);
	return leave(r);
}

CUresult cuMemsetD8_v2(uint64_t dst, unsigned value, size_t n) {
	struct object *m;
	char *data;
	CUresult r = enter_copy(FN_cuMemsetD8_v2, dst, n, &m, &data);
	if (r == SUCCESS)
		memset(data, value, n);
	return leave(r);
}

// work enqueues a copy or a memset. Since CUDA 13.0 a stream with a handle of its own needs no
// current context.
static CUresult work(enum function fn, uint64_t dst, uint64_t src, size_t n, unsigned value, struct object *s) {
	struct object *ctx;
	CUresult r = driver_version >= 13000 && (uintptr_t)s > 2 ? enter(fn) : enter_current(fn, &ctx);
	if (r == SUCCESS)
		r = resolve(fn, &s);
	if (r == SUCCESS) {
		pause_at(fn, BEFORE, s, s->ctx);
		r = enqueue(fn, s, dst, src, n, value);
	}
	return leave(r);
}

CUresult cuMemcpyHtoDAsync_v2(uint64_t dst, uint64_t src, size_t n, struct object *s) {
	return work(FN_cuMemcpyHtoDAsync_v2, dst, src, n, 0, s);
}

CUresult cuMemcpyDtoHAsync_v2(uint64_t dst, uint64_t src, size_t n, struct object *s) {
	return work(FN_cuMemcpyDtoHAsync_v2, dst, src, n, 0, s);
}

CUresult cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t n, struct object *s) {
	return work(FN_cuMemcpyDtoDAsync_v2, dst, src, n, 0, s);
}

CUresult cuMemcpyPeerAsync(uint64_t dst, struct object *dst_ctx, uint64_t src, struct object *src_ctx, size_t n, struct object *s) {
	enum function fn = FN_cuMemcpyPeerAsync;
	struct object *d, *m;
	char *data;
	lock();
	CUresult r = check(fn, dst_ctx, CONTEXT);
	if (r == SUCCESS)
		r = check(fn, src_ctx, CONTEXT);
	if (r == SUCCESS)
		r = memory_at(fn, dst, n, &d, &data);
	if (r == SUCCESS)
		r = memory_at(fn, src, n, &m, &data);
	if (r == SUCCESS && (d->ctx != dst_ctx || m->ctx != src_ctx))
		r = INVALID_VALUE;
	unlock();
	return r != SUCCESS ? r : work(fn, dst, src, n, 0, s);
}

CUresult cuMemsetD8Async(uint64_t dst, unsigned value, size_t n, struct object *s) {
	return work(FN_cuMemsetD8Async, dst, 0, n, value, s);
}

CUresult cuMemsetD32Async(uint64_t dst, unsigned value, size_t n, struct object *s) {
	return dst % 4 != 0 ? INVALID_VALUE : work(FN_cuMemsetD32Async, dst, 0, n * 4, value, s);
}

CUresult cuLaunchHostFunc(struct object *s, void *f, void *data) {
	enum function fn = FN_cuLaunchHostFunc; // the stream says which context it is in
	CUresult r = enter(fn);
	if (r == SUCCESS && f == NULL)
		r = INVALID_VALUE;
	if (r == SUCCESS)
		r = resolve(fn, &s);
	if (r == SUCCESS) {
		pause_at(fn, BEFORE, s, s->ctx);
		r = enqueue(fn, s, (uintptr_t)f, (uintptr_t)data, 0, 0);
	}
	return leave(r);
}

// Graphs. The driver leaves it to the program to make one call at a time.

static CUresult enter_graph(enum function fn, struct object *g, enum kind kind) {
	CUresult r = enter(fn);
	if (r != SUCCESS)
		return r;
	if (g == NULL)
		return INVALID_VALUE;
	r = check(fn, g, kind);
	if (r == SUCCESS && g->in_use != 0)
		return crash(fn, g, "another call on the %s is under way", kind_names[kind]);
	if (r == SUCCESS)
		pause_at(fn, BEFORE, g, NULL);
	return r;
}

static CUresult enter_node(enum function fn, struct node *n, int type) {
	CUresult r = enter(fn);
	if (r != SUCCESS)
		return r;
	if (n == NULL || n->magic != MAGIC)
		return crash(fn, n, "this is no graph node");
	r = check(fn, n->graph, GRAPH);
	if (r == SUCCESS && n->graph->in_use != 0)
		return crash(fn, n, "another call on the graph is under way");
	if (r == SUCCESS && type >= 0 && n->type != type)
		return INVALID_VALUE;
	if (r == SUCCESS)
		pause_at(fn, BEFORE, n->graph, NULL);
	return r;
}

CUresult cuGraphCreate(struct object **g, unsigned flags) {
	struct object *ctx; // for the census: a graph has none
	CUresult r = enter_current(FN_cuGraphCreate, &ctx);
	if (r == SUCCESS && flags != 0)
		r = INVALID_VALUE;
	if (r == SUCCESS)
		*g = new_object(GRAPH, ctx);
	return leave(r);
}

CUresult cuGraphDestroy(struct object *g) { return destroy(FN_cuGraphDestroy, g, GRAPH); }

// copy_graph copies nodes, of which those that a node comes after come before it.
static void copy_graph(struct object *to, const struct object *from) {
	for (int i = 0; i < from->g.count; i++) {
		struct node *n = from->g.nodes[i], *copy = add_node(to, n->type, n->after, n->after_count);
		copy->op = n->op;
		copy->event = n->event;
		copy->source = n;
		for (int k = 0; k < copy->after_count; k++)
			for (int j = 0; j < i; j++)
				if (from->g.nodes[j] == n->after[k])
					copy->after[k] = to->g.nodes[j];
	}
}

CUresult cuGraphClone(struct object **clone, struct object *g) {
	CUresult r = enter_graph(FN_cuGraphClone, g, GRAPH);
	if (r == SUCCESS) {
		*clone = new_object(GRAPH, g->ctx);
		copy_graph(*clone, g);
	}
	return leave(r);
}

// add_to_graph adds a node with an event or an operation. wrong is the result of checking that.
static CUresult add_to_graph(enum function fn, struct node **node, struct object *g, struct node **after, size_t n,
	int type, struct object *event, const struct op *op, CUresult wrong) {
	CUresult r = enter_graph(fn, g, GRAPH);
	for (size_t i = 0; i < n && r == SUCCESS; i++)
		if (!among(g->g.nodes, g->g.count, after[i]) || among(after, i, after[i]))
			r = INVALID_VALUE;
	if (r == SUCCESS && (type == WAIT_NODE || type == RECORD_NODE))
		r = event == NULL ? INVALID_VALUE : check(fn, event, EVENT);
	if (r == SUCCESS)
		r = wrong;
	if (r == SUCCESS) {
		*node = add_node(g, type, after, n);
		(*node)->event = event;
		if (op != NULL)
			(*node)->op = *op;
	}
	return leave(r);
}

CUresult cuGraphAddEmptyNode(struct node **node, struct object *g, struct node **after, size_t n) {
	return add_to_graph(FN_cuGraphAddEmptyNode, node, g, after, n, EMPTY_NODE, NULL, NULL, SUCCESS);
}

CUresult cuGraphAddEventRecordNode(struct node **node, struct object *g, struct node **after, size_t n, struct object *e) {
	return add_to_graph(FN_cuGraphAddEventRecordNode, node, g, after, n, RECORD_NODE, e, NULL, SUCCESS);
}

CUresult cuGraphAddEventWaitNode(struct node **node, struct object *g, struct node **after, size_t n, struct object *e) {
	return add_to_graph(FN_cuGraphAddEventWaitNode, node, g, after, n, WAIT_NODE, e, NULL, SUCCESS);
}

// Nodes with work. Each has an operation, as if it was captured.

struct kernel_params {
	struct object *function;
	unsigned grid[3], block[3], shared;
	void **params, **extra;
	void *kernel;
	struct object *ctx;
};

struct copy_params {
	size_t src_place[4];
	int src_type;
	uint64_t src_host, src;
	void *src_array, *reserved0;
	size_t src_pitch, src_height, dst_place[4];
	int dst_type;
	uint64_t dst_host, dst;
	void *dst_array, *reserved1;
	size_t dst_pitch, dst_height, width, height, depth;
};

struct set_params {
	uint64_t dst;
	size_t pitch;
	unsigned value, size;
	size_t width, height;
};

struct host_params {
	void *f, *data;
};

// These four check the parameters of a node, and return its operation.

static CUresult kernel_op(enum function fn, const struct kernel_params *p, struct op *o) {
	lock();
	CUresult r = p == NULL || p->extra != NULL ? INVALID_VALUE : check_function(fn, p->function);
	if (r == SUCCESS && (p->grid[0] * p->grid[1] * p->grid[2] == 0 || p->block[0] * p->block[1] * p->block[2] == 0))
		r = INVALID_VALUE;
	*o = (struct op){.fn = FN_cuLaunchKernel};
	if (r == SUCCESS) {
		o->module = p->function->f.module;
		if (p->function->f.kernel == &kernels[1]) { // axpy reads memory through its first parameter
			memcpy(&o->dst, p->params[0], sizeof o->dst);
			o->n = 1;
		}
	}
	unlock();
	return r;
}

static CUresult copy_op(enum function fn, const struct copy_params *p, struct object *ctx, struct op *o) {
	struct object *m;
	char *data;
	lock();
	CUresult r = p == NULL || p->width == 0 || p->height != 1 ||
		p->depth != 1 ? INVALID_VALUE : check(fn, ctx, CONTEXT);
	if (r == SUCCESS && p->dst_type == 1) {
		*o = (struct op){.fn = FN_cuMemcpyDtoHAsync_v2, .dst = p->dst_host, .src = p->src, .n = p->width};
		r = host_at(fn, o->dst, o->n, &m, &data);
	} else if (r == SUCCESS && p->src_type == 1) {
		*o = (struct op){.fn = FN_cuMemcpyHtoDAsync_v2, .dst = p->dst, .src = p->src_host, .n = p->width};
		r = host_at(fn, o->src, o->n, &m, &data);
	} else if (r == SUCCESS) {
		*o = (struct op){.fn = FN_cuMemcpyDtoDAsync_v2, .dst = p->dst, .src = p->src, .n = p->width};
		r = memory_at(fn, o->src, o->n, &m, &data);
	}
	if (r == SUCCESS && p->dst_type != 1)
		r = memory_at(fn, o->dst, o->n, &m, &data);
	unlock();
	return r;
}

static CUresult set_op(enum function fn, const struct set_params *p, struct object *ctx, struct op *o) {
	struct object *m;
	char *data;
	lock();
	CUresult r = p == NULL || p->width == 0 || p->height != 1 ||
		(p->size != 1 && p->size != 4) ? INVALID_VALUE : check(fn, ctx, CONTEXT);
	if (r == SUCCESS) {
		*o = (struct op){.fn = p->size == 1 ? FN_cuMemsetD8Async : FN_cuMemsetD32Async, .dst = p->dst,
			.n = p->width * p->size, .value = p->value};
		r = memory_at(fn, o->dst, o->n, &m, &data);
	}
	unlock();
	return r;
}

static CUresult host_op(const struct host_params *p, struct op *o) {
	if (p == NULL || p->f == NULL)
		return INVALID_VALUE;
	*o = (struct op){.fn = FN_cuLaunchHostFunc, .dst = (uintptr_t)p->f, .src = (uintptr_t)p->data};
	return SUCCESS;
}

static CUresult set_node(enum function fn, struct node *n, int type, const struct op *o, CUresult wrong) {
	CUresult r = enter_node(fn, n, type);
	if (r == SUCCESS)
		r = wrong;
	if (r == SUCCESS)
		n->op = *o;
	return leave(r);
}

// exec_node finds the node of an executable graph that was made from a node.
static CUresult exec_node(enum function fn, struct object *x, struct node *n, int type, struct node **found) {
	CUresult r = enter_node(fn, n, type);
	if (r == SUCCESS)
		r = check(fn, x, EXEC);
	if (r == SUCCESS && x->in_use != 0)
		r = crash(fn, x, "another call on the executable graph is under way");
	for (int i = 0; r == SUCCESS && i < x->g.count; i++)
		if (x->g.nodes[i]->source == n) {
			*found = x->g.nodes[i];
			return SUCCESS;
		}
	return r == SUCCESS ? INVALID_VALUE : r;
}

static CUresult set_exec_node(enum function fn, struct object *x, struct node *n, int type, const struct op *o,
	CUresult wrong) {
	struct node *found;
	CUresult r = exec_node(fn, x, n, type, &found);
	if (r == SUCCESS)
		r = wrong;
	if (r == SUCCESS)
		found->op = *o;
	return leave(r);
}

CUresult cuGraphNodeSetEnabled(struct object *x, struct node *n, unsigned enabled) {
	struct node *found;
	CUresult r = exec_node(FN_cuGraphNodeSetEnabled, x, n, -1, &found);
	if (r == SUCCESS && n->type > MEMSET_NODE)
		r = INVALID_VALUE;
	if (r == SUCCESS)
		found->disabled = enabled == 0;
	return leave(r);
}

CUresult cuGraphNodeGetEnabled(struct object *x, struct node *n, unsigned *enabled) {
	struct node *found;
	CUresult r = exec_node(FN_cuGraphNodeGetEnabled, x, n, -1, &found);
	if (r == SUCCESS)
		*enabled = !found->disabled;
	return leave(r);
}

CUresult cuGraphAddKernelNode_v2(struct node **node, struct object *g, struct node **after, size_t n,
	const struct kernel_params *p) {
	struct op o;
	CUresult r = kernel_op(FN_cuGraphAddKernelNode_v2, p, &o);
	return add_to_graph(FN_cuGraphAddKernelNode_v2, node, g, after, n, KERNEL_NODE, NULL, &o, r);
}

CUresult cuGraphAddMemcpyNode(struct node **node, struct object *g, struct node **after, size_t n,
	const struct copy_params *p, struct object *ctx) {
	struct op o;
	CUresult r = copy_op(FN_cuGraphAddMemcpyNode, p, ctx, &o);
	return add_to_graph(FN_cuGraphAddMemcpyNode, node, g, after, n, MEMCPY_NODE, NULL, &o, r);
}

CUresult cuGraphAddMemsetNode(struct node **node, struct object *g, struct node **after, size_t n,
	const struct set_params *p, struct object *ctx) {
	struct op o;
	CUresult r = set_op(FN_cuGraphAddMemsetNode, p, ctx, &o);
	return add_to_graph(FN_cuGraphAddMemsetNode, node, g, after, n, MEMSET_NODE, NULL, &o, r);
}

CUresult cuGraphAddHostNode(struct node **node, struct object *g, struct node **after, size_t n,
	const struct host_params *p) {
	struct op o;
	CUresult r = host_op(p, &o);
	return add_to_graph(FN_cuGraphAddHostNode, node, g, after, n, HOST_NODE, NULL, &o, r);
}

CUresult cuGraphKernelNodeSetParams_v2(struct node *n, const struct kernel_params *p) {
	struct op o;
	CUresult r = kernel_op(FN_cuGraphKernelNodeSetParams_v2, p, &o);
	return set_node(FN_cuGraphKernelNodeSetParams_v2, n, KERNEL_NODE, &o, r);
}

CUresult cuGraphMemcpyNodeSetParams(struct node *n, const struct copy_params *p) {
	struct op o;
	CUresult r = copy_op(FN_cuGraphMemcpyNodeSetParams, p, n->graph->ctx, &o);
	return set_node(FN_cuGraphMemcpyNodeSetParams, n, MEMCPY_NODE, &o, r);
}

CUresult cuGraphMemsetNodeSetParams(struct node *n, const struct set_params *p) {
	struct op o;
	CUresult r = set_op(FN_cuGraphMemsetNodeSetParams, p, n->graph->ctx, &o);
	return set_node(FN_cuGraphMemsetNodeSetParams, n, MEMSET_NODE, &o, r);
}

CUresult cuGraphHostNodeSetParams(struct node *n, const struct host_params *p) {
	struct op o;
	CUresult r = host_op(p, &o);
	return set_node(FN_cuGraphHostNodeSetParams, n, HOST_NODE, &o, r);
}

CUresult cuGraphExecKernelNodeSetParams_v2(struct object *x, struct node *n, const struct kernel_params *p) {
	struct op o;
	CUresult r = kernel_op(FN_cuGraphExecKernelNodeSetParams_v2, p, &o);
	return set_exec_node(FN_cuGraphExecKernelNodeSetParams_v2, x, n, KERNEL_NODE, &o, r);
}

CUresult cuGraphExecMemcpyNodeSetParams(struct object *x, struct node *n, const struct copy_params *p,
	struct object *ctx) {
	struct op o;
	CUresult r = copy_op(FN_cuGraphExecMemcpyNodeSetParams, p, ctx, &o);
	return set_exec_node(FN_cuGraphExecMemcpyNodeSetParams, x, n, MEMCPY_NODE, &o, r);
}

CUresult cuGraphExecMemsetNodeSetParams(struct object *x, struct node *n, const struct set_params *p,
	struct object *ctx) {
	struct op o;
	CUresult r = set_op(FN_cuGraphExecMemsetNodeSetParams, p, ctx, &o);
	return set_exec_node(FN_cuGraphExecMemsetNodeSetParams, x, n, MEMSET_NODE, &o, r);
}

CUresult cuGraphExecHostNodeSetParams(struct object *x, struct node *n, const struct host_params *p) {
	struct op o;
	CUresult r = host_op(p, &o);
	return set_exec_node(FN_cuGraphExecHostNodeSetParams, x, n, HOST_NODE, &o, r);
}

// cuGraphDestroyNode keeps the memory of the node, so that a later use is noticed.
CUresult cuGraphDestroyNode(struct node *n) {
	CUresult r = enter_node(FN_cuGraphDestroyNode, n, -1);
	if (r != SUCCESS)
		return leave(r);
	struct object *g = n->graph;
	for (int i = 0, kept = 0; i < g->g.count; i++) {
		struct node *other = g->g.nodes[i];
		int m = 0;
		for (int k = 0; k < other->after_count; k++)
			if (other->after[k] != n)
				other->after[m++] = other->after[k];
		other->after_count = m;
		if (other != n)
			g->g.nodes[kept++] = other;
	}
	g->g.count--;
	n->magic = 0;
	return leave(SUCCESS);
}

static CUresult get_event(enum function fn, struct node *n, int type, struct object **e) {
	CUresult r = enter_node(fn, n, type);
	if (r == SUCCESS)
		*e = n->event;
	return leave(r);
}

static CUresult set_event(enum function fn, struct node *n, int type, struct object *e) {
	CUresult r = enter_node(fn, n, type);
	if (r == SUCCESS)
		r = check(fn, e, EVENT);
	if (r == SUCCESS)
		n->event = e;
	return leave(r);
}

CUresult cuGraphEventRecordNodeGetEvent(struct node *n, struct object **e) { return get_event(FN_cuGraphEventRecordNodeGetEvent, n, RECORD_NODE, e); }
CUresult cuGraphEventRecordNodeSetEvent(struct node *n, struct object *e) { return set_event(FN_cuGraphEventRecordNodeSetEvent, n, RECORD_NODE, e); }
CUresult cuGraphEventWaitNodeGetEvent(struct node *n, struct object **e) { return get_event(FN_cuGraphEventWaitNodeGetEvent, n, WAIT_NODE, e); }
CUresult cuGraphEventWaitNodeSetEvent(struct node *n, struct object *e) { return set_event(FN_cuGraphEventWaitNodeSetEvent, n, WAIT_NODE, e); }

CUresult cuGraphGetNodes(struct object *g, struct node **nodes, size_t *n) {
	CUresult r = enter_graph(FN_cuGraphGetNodes, g, GRAPH);
	if (r == SUCCESS) {
		size_t room = *n;
		for (size_t i = 0; nodes != NULL && i < room; i++)
			nodes[i] = i < (size_t)g->g.count ? g->g.nodes[i] : NULL;
		if (nodes == NULL || room > (size_t)g->g.count)
			*n = g->g.count;
	}
	return leave(r);
}

CUresult cuGraphGetEdges(struct object *g, struct node **from, struct node **to, size_t *n) {
	CUresult r = enter_graph(FN_cuGraphGetEdges, g, GRAPH);
	if (r == SUCCESS) {
		size_t room = *n, k = 0;
		for (int i = 0; i < g->g.count; i++)
			for (int j = 0; j < g->g.nodes[i]->after_count; j++, k++)
				if (from != NULL && k < room)
					from[k] = g->g.nodes[i]->after[j], to[k] = g->g.nodes[i];
		*n = from != NULL && k > room ? room : k;
	}
	return leave(r);
}

// All edges are full here, so their data, of 8 bytes each, is zero.
CUresult cuGraphGetEdges_v2(struct object *g, struct node **from, struct node **to, uint64_t *data, size_t *n) {
	CUresult r = cuGraphGetEdges(g, from, to, n);
	if (r == SUCCESS && data != NULL)
		memset(data, 0, *n * sizeof *data);
	return r;
}

CUresult cuGraphNodeGetType(struct node *n, int *type) {
	CUresult r = enter_node(FN_cuGraphNodeGetType, n, -1);
	if (r == SUCCESS)
		*type = n->type;
	return leave(r);
}

CUresult cuGraphInstantiateWithFlags(struct object **x, struct object *g, unsigned long long flags) {
	CUresult r = spoils(enter_graph(FN_cuGraphInstantiateWithFlags, g, GRAPH));
	if (r == SUCCESS && (flags > 15 || current() == NULL))
		r = flags > 15 ? INVALID_VALUE : INVALID_CONTEXT;
	if (r == SUCCESS) {
		*x = new_object(EXEC, g->ctx);
		copy_graph(*x, g);
	}
	return leave(r);
}

struct update_info {
	int why;
	struct node *node, *from;
};

CUresult cuGraphExecUpdate_v2(struct object *x, struct object *g, struct update_info *info) {
	enum function fn = FN_cuGraphExecUpdate_v2;
	CUresult r = enter_graph(fn, x, EXEC);
	*info = (struct update_info){r != SUCCESS, NULL, NULL};
	if (r == SUCCESS)
		r = check(fn, g, GRAPH);
	if (r == SUCCESS && g->in_use != 0)
		r = crash(fn, g, "another call on the graph is under way");
	if (r == SUCCESS && x->g.count != g->g.count)
		r = UPDATE_FAILURE, info->why = 2;
	for (int i = 0; r == SUCCESS && i < g->g.count; i++)
		if (x->g.nodes[i]->type != g->g.nodes[i]->type)
			r = UPDATE_FAILURE, info->why = 3, info->node = g->g.nodes[i];
		else if (x->g.nodes[i]->after_count != g->g.nodes[i]->after_count)
			r = UPDATE_FAILURE, info->why = 2, info->node = g->g.nodes[i];
	for (int i = 0; r == SUCCESS && i < g->g.count; i++) {
		x->g.nodes[i]->op = g->g.nodes[i]->op;
		x->g.nodes[i]->event = g->g.nodes[i]->event;
	}
	return leave(r);
}

static CUresult exec_set_event(enum function fn, struct object *x, struct node *n, int type, struct object *e) {
	CUresult r = enter_node(fn, n, type);
	if (r == SUCCESS)
		r = check(fn, x, EXEC);
	if (r == SUCCESS && x->in_use != 0)
		r = crash(fn, x, "another call on the executable graph is under way");
	if (r == SUCCESS)
		r = check(fn, e, EVENT);
	if (r != SUCCESS)
		return leave(r);
	for (int i = 0; i < x->g.count; i++)
		if (x->g.nodes[i]->source == n) {
			x->g.nodes[i]->event = e;
			return leave(SUCCESS);
		}
	return leave(INVALID_VALUE);
}

CUresult cuGraphExecEventRecordNodeSetEvent(struct object *x, struct node *n, struct object *e) {
	return exec_set_event(FN_cuGraphExecEventRecordNodeSetEvent, x, n, RECORD_NODE, e);
}

CUresult cuGraphExecEventWaitNodeSetEvent(struct object *x, struct node *n, struct object *e) {
	return exec_set_event(FN_cuGraphExecEventWaitNodeSetEvent, x, n, WAIT_NODE, e);
}

// cuGraphLaunch does what the nodes say now, or when the stream is released.
CUresult cuGraphLaunch(struct object *x, struct object *s) {
	enum function fn = FN_cuGraphLaunch;
	CUresult r = enter_graph(fn, x, EXEC);
	if (r == SUCCESS)
		r = resolve(fn, &s);
	if (r == SUCCESS && s->s.capturing) {
		spoil_all(true);
		r = CAPTURE_UNSUPPORTED;
	}
	for (int i = 0; r == SUCCESS && i < x->g.count; i++) {
		struct node *n = x->g.nodes[i];
		switch (n->type) {
		case RECORD_NODE:
		case WAIT_NODE:
			r = check(fn, n->event, EVENT);
			if (r == SUCCESS && n->type == RECORD_NODE) {
				last_recorded = n->event;
				n->event->e.captured = false;
				n->event->e.record = ++records;
				n->event->e.stream = s;
				n->event->e.epoch = s->s.held ? s->s.epoch + 1 : 0;
				n->event->e.polls = polls;
				n->event->e.done_at = 0;
			}
			break;
		case EMPTY_NODE:
			break;
		default:
			if (n->disabled)
				break;
			if (s->s.held && op_count < (int)(sizeof ops / sizeof ops[0])) {
				ops[op_count] = n->op;
				ops[op_count].stream = s;
				ops[op_count++].epoch = s->s.epoch + 1;
			} else {
				r = perform(&n->op);
			}
		}
	}
	return leave(r);
}

CUresult cuGraphUpload(struct object *x, struct object *s) {
	CUresult r = enter_graph(FN_cuGraphUpload, x, EXEC);
	if (r == SUCCESS)
		r = resolve(FN_cuGraphUpload, &s);
	return leave(r);
}

CUresult cuGraphExecDestroy(struct object *x) { return destroy(FN_cuGraphExecDestroy, x, EXEC); }

__attribute__((constructor)) static void fill_in_addresses(void) {
#define X(name, version, ask) functions[FN_##name].address = (void *)name;
	FUNCTIONS(X)
#undef X
}

// For tests.

static int find(const char *name) {
	for (int i = 0; i < FUNCTION_COUNT; i++)
		if (strcmp(functions[i].name, name) == 0)
			return i;
	fprintf(stderr, "fakecuda: there is no function %s\n", name);
	abort();
}

// fake_reset puts counters and knobs back. Objects stay as they are.
void fake_reset(void) {
	lock();
	for (int i = 0; i < FUNCTION_COUNT; i++) {
		for (int m = 0; m < 3; m++)
			functions[i].calls[m] = 0;
		functions[i].faulty = functions[i].always = false;
		functions[i].block_count = functions[i].blocked = 0;
	}
	for (int i = 0; i < DEVICES; i++)
		if (primaries[i] != NULL)
			primaries[i]->c.sticky = 0;
	memset(destroyed, 0, sizeof destroyed);
	memset(&launched, 0, sizeof launched);
	driver_version = 12080;
	latency = polls = 0;
	memset(primary_flags, 0, sizeof primary_flags);
	op_count = 0;
	captures = spoilt = 0;
	for (struct capture *c = all_captures; c != NULL; c = c->next)
		c->over = true;
	spread = trapping = capturing = calls_held = false;
	orphans = trapped = 0;
	pthread_cond_broadcast(&changed);
	unlock();
}

// fake_version sets the version of the driver. Set it before it is opened.
void fake_version(int v) { lock(); driver_version = v; unlock(); }

// fake_latency and fake_polls say when records complete from now on: after so
// many nanoseconds, and after so many queries.
void fake_latency(int64_t ns) { lock(); latency = ns; unlock(); }
void fake_polls(int n) { lock(); polls = n; unlock(); }

// fake_spread lets other threads in during every call.
void fake_spread(int on) { lock(); spread = on; unlock(); }

// fake_capture makes streams capture: RecordExternal records nothing until a
// graph runs, which none does.
void fake_capture(int on) { lock(); capturing = on; unlock(); }

// fake_trap makes what would abort return TRAPPED. fake_trapped counts.
void fake_trap(int on) { lock(); trapping = on; unlock(); }
// fake_trap_text returns eight bytes of the newest message.
int64_t fake_trapped(void) { return trapped; }
uint64_t fake_trap_text(int i) {
	uint64_t v = 0;
	if (i >= 0 && (size_t)i < sizeof trap_text / 8)
		memcpy(&v, trap_text + 8 * i, 8);
	return v;
}

// fake_hold lets nothing that is enqueued on the stream from now on complete,
// until fake_release. They work on destroyed streams too.
void fake_hold(struct object *s) { lock(); s->s.held = true; unlock(); }
void fake_release(struct object *s) {
	lock();
	s->s.held = false;
	s->s.epoch++;
	int kept = 0;
	for (int i = 0; i < op_count; i++) {
		struct op o = ops[i];
		if (o.stream == s && s->s.epoch >= o.epoch)
			perform(&o);
		else
			ops[kept++] = o;
	}
	op_count = kept;
	pthread_cond_broadcast(&changed);
	unlock();
}

// fake_hold_calls lets streams call no functions (cuLaunchHostFunc) until it is told 0, though they get on. It
// returns how many calls were held until then.
int64_t fake_hold_calls(int on) {
	lock();
	calls_held = on;
	int kept = 0;
	int64_t held = 0;
	for (int i = 0; i < op_count; i++) {
		struct op o = ops[i];
		bool call = o.fn == FN_cuLaunchHostFunc && !o.stream->s.held;
		held += call;
		if (call && !on)
			perform(&o);
		else
			ops[kept++] = o;
	}
	op_count = kept;
	unlock();
	return held;
}

// fake_fail lets the nth call of the function from now on, counted from 1,
// return code and do nothing; 0 stands for all calls, until it is told -1.
void fake_fail(const char *name, int nth, int code) {
	int i = find(name);
	lock();
	functions[i].faulty = nth >= 0;
	functions[i].always = nth == 0;
	functions[i].skip = nth - 1;
	functions[i].times = 1;
	functions[i].code = code;
	unlock();
}

// fake_fail_times is fake_fail for the next calls, as many as times says.
void fake_fail_times(const char *name, int times, int code) {
	fake_fail(name, 1, code);
	lock();
	functions[find(name)].times = times;
	unlock();
}

// fake_poison lets every call in the context return code.
void fake_poison(struct object *ctx, int code) {
	lock();
	ctx->c.sticky = code;
	int kept = 0; // nothing that is pending runs any more
	for (int i = 0; i < op_count; i++)
		if (ops[i].stream->ctx != ctx)
			ops[kept++] = ops[i];
	op_count = kept;
	pthread_cond_broadcast(&changed);
	unlock();
}

// fake_block lets the next count calls of the function wait, before (1) or
// after (2) they take effect, until fake_unblock. fake_await_blocked waits
// until n of them do.
void fake_block(const char *name, int when, int count) {
	int i = find(name);
	lock();
	functions[i].block_when = when;
	functions[i].block_count = count;
	unlock();
}
void fake_unblock(const char *name) {
	int i = find(name);
	lock();
	functions[i].blocked = functions[i].block_count = 0;
	pthread_cond_broadcast(&changed);
	unlock();
}
void fake_await_blocked(const char *name, int n) {
	int i = find(name);
	lock();
	while (functions[i].blocked < n)
		pthread_cond_wait(&changed, &mutex);
	unlock();
}

// fake_calls counts the calls of a function since fake_reset, fake_calls_in
// those on threads with the given capture mode.
uint64_t fake_calls_in(const char *name, int mode) { return functions[find(name)].calls[mode]; }
uint64_t fake_calls(const char *name) {
	int i = find(name);
	return functions[i].calls[0] + functions[i].calls[1] + functions[i].calls[2];
}

// fake_all_calls counts the calls of all functions.
uint64_t fake_all_calls(void) {
	uint64_t n = 0;
	for (int i = 0; i < FUNCTION_COUNT; i++)
		for (int m = 0; m < 3; m++)
			n += functions[i].calls[m];
	return n;
}

static int64_t get(const int64_t *p) {
	lock();
	int64_t v = *p;
	unlock();
	return v;
}

// fake_census counts the live objects of a kind, fake_destroyed those that were
// destroyed since fake_reset, fake_orphans those that were alive when their
// context was released.
int64_t fake_census(int kind) { return get(&live[kind]); }
int64_t fake_destroyed(int kind) { return get(&destroyed[kind]); }
int64_t fake_orphans(void) { return get(&orphans); }

// fake_forgive takes an object out of the census that a test left on purpose.
// A handle, or the address of device memory, names it.
void fake_forgive(struct object *o) {
	lock();
	if ((char *)o < arena || (char *)o >= arena + arena_used)
		o = (struct object *)(arena + ((uintptr_t)o >> ADDRESS_BITS) * SLOT);
	live[o->kind]--;
	if (o->ctx->c.id == o->ctx_id)
		o->ctx->c.children--;
	unlock();
}

// fake_depth adds up the depths of all threads' context stacks, fake_off_modes
// counts the threads whose capture mode is not the one they began with.
int64_t fake_depth(void) { return get(&depth); }
int64_t fake_off_modes(void) { return get(&off_modes); }

// fake_records is the number of the newest record; fake_record that of the
// event's, 0 if it has none; fake_waited that which the stream waited for last.
uint64_t fake_records(void) { return get((int64_t *)&records); }
uint64_t fake_record(struct object *e) { return get((int64_t *)&e->e.record); }
uint64_t fake_waited(struct object *s) { return get((int64_t *)&s->s.waited); }

// fake_launched returns a word of the last launch: the count of launches, the
// grid, the block, the shared memory, the stream; from 16 on the parameters'
// values, four words each.
uint64_t fake_launched(int i) {
	lock();
	uint64_t v = 0;
	if (i == 0)
		v = launched.count;
	else if (i <= 3)
		v = launched.grid[i - 1];
	else if (i <= 6)
		v = launched.block[i - 4];
	else if (i == 7)
		v = launched.shared;
	else if (i == 8)
		v = (uintptr_t)launched.stream;
	else if (i >= 16 && i < 32)
		memcpy(&v, launched.values[(i - 16) / 4] + (i - 16) % 4 * 8, 8);
	unlock();
	return v;
}

// fake_recorded_on says where the event was recorded last: 1 for the legacy
// default stream, 2 for a thread's own, else 0.
int fake_recorded_on(struct object *e) {
	lock();
	int own = e->e.record == 0 ? 0 : e->e.stream->s.own;
	unlock();
	return own;
}

// fake_waiting counts the calls that wait for work on memory.
int64_t fake_waiting(void) { return get(&waiting); }

// fake_options adds up the values of the compiler options of the last module,
// but for the logs'.
uint64_t fake_options(void) { return get((int64_t *)&options_seen); }

// fake_capture_stream begins or ends a capture of the stream in global mode.
// fake_spoilt counts the calls that would have ended one.
void fake_capture_stream(struct object *s, int on) {
	lock();
	captures += (on != 0) - s->s.capturing;
	s->s.capturing = on != 0;
	unlock();
}
int64_t fake_spoilt(void) { return get(&spoilt); }

// fake_forgive_host takes host memory out of the census that a test left on purpose.
void fake_forgive_host(char *p) { fake_forgive(host_owner[(p - host_arena) / HOST_SLOT]); }

// fake_forgive_threads forgets the stacks and capture modes of threads that are gone.
void fake_forgive_threads(void) { lock(); depth = off_modes = 0; unlock(); }

// fake_stream_of returns the stream that an event was recorded on.
uint64_t fake_stream_of(struct object *e) {
	lock();
	uint64_t v = (uintptr_t)e->e.stream;
	unlock();
	return v;
}

// fake_last_recorded returns the event that was recorded last, also by a graph.
uint64_t fake_last_recorded(void) { return (uintptr_t)last_recorded; }
