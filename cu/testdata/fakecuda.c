// A CUDA driver for tests: no GPU, and no mercy.
//
// It answers as NVIDIA's driver does, and where NVIDIA's driver would crash, or
// touch an object that is gone, it says which call did what to which handle and
// aborts. Objects are never used again and never given back: whatever comes
// late finds the remains. The fake_ functions at the end are for tests: they
// hold streams, let calls fail or block, and count.
//
// Build: cc -O2 -shared -fPIC -pthread -o libfakecuda.so fakecuda.c

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
#include <sys/mman.h>
#include <time.h>

typedef int CUresult;

enum {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
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
	F(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain) \
	F(cuDevicePrimaryCtxRelease_v2, 11000, cuDevicePrimaryCtxRelease) \
	F(cuCtxGetId, 12000, cuCtxGetId) \
	F(cuCtxPushCurrent_v2, 4000, cuCtxPushCurrent) \
	F(cuCtxPopCurrent_v2, 4000, cuCtxPopCurrent) \
	F(cuCtxGetCurrent, 4000, cuCtxGetCurrent) \
	F(cuCtxSetCurrent, 4000, cuCtxSetCurrent) \
	F(cuCtxSynchronize, 2000, cuCtxSynchronize) \
	F(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode) \
	F(cuStreamCreate, 2000, cuStreamCreate) \
	F(cuStreamDestroy_v2, 4000, cuStreamDestroy) \
	F(cuStreamQuery, 2000, cuStreamQuery) \
	F(cuStreamSynchronize, 2000, cuStreamSynchronize) \
	F(cuStreamWaitEvent, 3020, cuStreamWaitEvent) \
	F(cuEventCreate, 2000, cuEventCreate) \
	F(cuEventDestroy_v2, 4000, cuEventDestroy) \
	F(cuEventRecord, 2000, cuEventRecord) \
	F(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags) \
	F(cuEventQuery, 2000, cuEventQuery) \
	F(cuEventSynchronize, 2000, cuEventSynchronize) \
	F(cuEventElapsedTime, 2000, cuEventElapsedTime) \
	F(cuEventElapsedTime_v2, 12080, cuEventElapsedTime) \
	F(cuModuleLoadData, 2000, cuModuleLoadData) \
	F(cuModuleUnload, 2000, cuModuleUnload) \
	F(cuModuleGetFunction, 2000, cuModuleGetFunction) \
	F(cuFuncGetParamInfo, 12040, cuFuncGetParamInfo) \
	F(cuLaunchKernel, 4000, cuLaunchKernel) \
	F(cuMemAlloc_v2, 3020, cuMemAlloc) \
	F(cuMemFree_v2, 3020, cuMemFree) \
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
	// A fault: the call that comes when skip reaches 0 returns code.
	int skip, code;
	bool faulty, always;
	// A block: the next calls wait before or after they take effect.
	int block_count, block_when, blocked;
} functions[] = {
#define X(name, version, ask) {#name, version, #ask},
	FUNCTIONS(X)
#undef X
};

// Objects.

enum kind { NO_KIND, CONTEXT, STREAM, EVENT, MODULE, FUNCTION, MEMORY, KIND_COUNT };

static const char *const kind_names[] = {"no object", "context", "stream", "event", "module", "function", "memory"};

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
			int64_t children;
		} c;
		struct { // stream; still looked at when it is destroyed
			uint64_t epoch; // counts releases
			int64_t done_at;
			uint64_t waited; // the record that was last waited for
			bool held;
		} s;
		struct { // event
			uint64_t record; // 0 if there is none
			struct object *stream;
			uint64_t epoch; // complete when the stream's is as large
			int64_t done_at;
			int32_t polls; // complete when this many queries were made
			uint32_t flags;
		} e;
		struct { // function
			struct object *module;
			const struct kernel *kernel;
		} f;
		struct { // memory
			uint64_t size;
			char *data;
		} m;
		uint64_t words[11];
	};
};

_Static_assert(sizeof(struct object) <= 128, "objects are large");

#define SLOT 128
#define ARENA (UINT64_C(1) << 33)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static char *arena;
static uint64_t arena_used;

static bool initialized;
static int driver_version = 12080;
static int64_t latency;   // of a record, in nanoseconds
static int polls;         // that a record takes
static bool capturing;    // RecordExternal records nothing yet
static bool spread;       // let other threads in during every call
static uint64_t records;  // made so far
static uint64_t ctx_ids;  // given so far
static int64_t live[KIND_COUNT];
static int64_t destroyed[KIND_COUNT];
static int64_t orphans;   // objects that their context took along
static int64_t depth;     // of all threads' context stacks together
static int64_t off_modes; // threads whose capture mode is not 0
static struct object *primaries[DEVICES];

static bool trapping;
static int64_t trapped;
static char trap_text[256];

#define STACK 64
static _Thread_local struct object *stack[STACK];
static _Thread_local int stack_depth;
static _Thread_local int capture_mode;

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
		arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (arena == MAP_FAILED) {
			perror("fakecuda: mmap");
			abort();
		}
		arena_used = SLOT;
	}
	if (arena_used + SLOT > ARENA) {
		fprintf(stderr, "fakecuda: too many objects for one process\n");
		abort();
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
	if (functions[fn].faulty && (functions[fn].always || functions[fn].skip-- == 0)) {
		if (!functions[fn].always)
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

// Contexts.

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
	if (r == SUCCESS)
		pause_at(FN_cuCtxSynchronize, BEFORE, ctx, NULL);
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

CUresult cuStreamCreate(struct object **s, unsigned flags) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuStreamCreate, &ctx);
	if (r == SUCCESS && flags > 1)
		r = INVALID_VALUE;
	if (r == SUCCESS)
		*s = new_object(STREAM, ctx);
	return leave(r);
}

CUresult cuStreamDestroy_v2(struct object *s) {
	return destroy(FN_cuStreamDestroy_v2, s, STREAM);
}

static bool stream_idle(const struct object *s) {
	return !s->s.held && (s->s.done_at == 0 || s->s.done_at <= now());
}

CUresult cuStreamQuery(struct object *s) {
	enum function fn = FN_cuStreamQuery;
	CUresult r = enter(fn);
	if (r == SUCCESS && s == NULL)
		r = current() == NULL ? INVALID_CONTEXT : check(fn, current(), CONTEXT);
	else if (r == SUCCESS) {
		r = check(fn, s, STREAM);
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
	r = check(fn, s, STREAM);
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
		r = check(fn, s, STREAM);
	if (r == SUCCESS && flags > 1)
		r = INVALID_VALUE;
	if (r != SUCCESS)
		return leave(r);
	pause_at(fn, BEFORE, s, e);
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

static CUresult record(enum function fn, struct object *e, struct object *s, unsigned flags) {
	CUresult r = enter(fn);
	if (r != SUCCESS)
		return leave(r);
	r = check(fn, e, EVENT);
	if (r != SUCCESS)
		return leave(r);
	if (s == NULL) { // the default stream is the current context's
		if (current() == NULL)
			return leave(INVALID_CONTEXT);
		return leave(current() == e->ctx ? SUCCESS : INVALID_HANDLE);
	}
	r = check(fn, s, STREAM);
	if (r != SUCCESS)
		return leave(r);
	if (e->ctx != s->ctx)
		return leave(INVALID_HANDLE);
	if (flags > 1)
		return leave(INVALID_VALUE);
	pause_at(fn, BEFORE, e, s);
	if (flags == 1 && capturing)
		return leave(SUCCESS);
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
	CUresult r = enter(fn);
	if (r != SUCCESS)
		return leave(r);
	r = check(fn, e, EVENT);
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
	return leave(r);
}

CUresult cuEventElapsedTime(float *ms, struct object *start, struct object *stop) {
	return elapsed(FN_cuEventElapsedTime, ms, start, stop);
}

CUresult cuEventElapsedTime_v2(float *ms, struct object *start, struct object *stop) {
	return elapsed(FN_cuEventElapsedTime_v2, ms, start, stop);
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
	{"cusim_spin", 1, {8}},
};

static struct {
	uint64_t count;
	unsigned grid[3], block[3], shared;
	struct object *stream;
	unsigned char values[4][32];
} launched;

CUresult cuModuleLoadData(struct object **m, const char *image) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuModuleLoadData, &ctx);
	if (r == SUCCESS && strncmp(image, "fake", 4) != 0 && !strstr(image, ".entry "))
		r = 200; // CUDA_ERROR_INVALID_IMAGE
	if (r == SUCCESS)
		*m = new_object(MODULE, ctx);
	return leave(r);
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

CUresult cuLaunchKernel(struct object *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared, struct object *s, void **params, void **extra) {
	enum function fn = FN_cuLaunchKernel;
	CUresult r = enter(fn);
	if (r == SUCCESS)
		r = check_function(fn, f);
	if (r == SUCCESS)
		r = check(fn, s, STREAM);
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
		struct object *mem;
		memcpy(&mem, params[0], sizeof mem);
		r = check(fn, mem, MEMORY);
	}
	return leave(r);
}

// Memory. A device address is a handle.

CUresult cuMemAlloc_v2(struct object **p, size_t size) {
	struct object *ctx;
	CUresult r = enter_current(FN_cuMemAlloc_v2, &ctx);
	if (r == SUCCESS && size == 0)
		r = INVALID_VALUE;
	if (r != SUCCESS)
		return leave(r);
	char *data = malloc(size);
	if (data == NULL)
		return leave(OUT_OF_MEMORY);
	memset(data, 0xa5, size);
	*p = new_object(MEMORY, ctx);
	(*p)->m.size = size;
	(*p)->m.data = data;
	return leave(SUCCESS);
}

CUresult cuMemFree_v2(struct object *p) {
	lock();
	char *data = NULL;
	if ((char *)p >= arena + SLOT && (char *)p < arena + arena_used && p->magic == MAGIC && p->kind == MEMORY && p->in_use == 0)
		data = p->m.data;
	unlock();
	CUresult r = destroy(FN_cuMemFree_v2, p, MEMORY);
	if (r != TRAPPED && p != NULL && p->magic == FREED)
		free(data);
	return r;
}

static CUresult enter_copy(enum function fn, struct object *p, size_t n) {
	struct object *ctx;
	CUresult r = enter_current(fn, &ctx);
	if (r == SUCCESS)
		r = check(fn, p, MEMORY);
	if (r == SUCCESS && n > p->m.size)
		r = INVALID_VALUE;
	if (r == SUCCESS)
		pause_at(fn, BEFORE, p, ctx);
	return r;
}

CUresult cuMemcpyHtoD_v2(struct object *dst, const void *src, size_t n) {
	CUresult r = enter_copy(FN_cuMemcpyHtoD_v2, dst, n);
	if (r == SUCCESS)
		memcpy(dst->m.data, src, n);
	return leave(r);
}

CUresult cuMemcpyDtoH_v2(void *dst, struct object *src, size_t n) {
	CUresult r = enter_copy(FN_cuMemcpyDtoH_v2, src, n);
	if (r == SUCCESS)
		memcpy(dst, src->m.data, n);
	return leave(r);
}

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
	spread = trapping = capturing = false;
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
	pthread_cond_broadcast(&changed);
	unlock();
}

// fake_fail lets the nth call of the function from now on, counted from 1,
// return code and do nothing; 0 stands for all calls, until it is told -1.
void fake_fail(const char *name, int nth, int code) {
	int i = find(name);
	lock();
	functions[i].faulty = nth >= 0;
	functions[i].always = nth == 0;
	functions[i].skip = nth - 1;
	functions[i].code = code;
	unlock();
}

// fake_poison lets every call in the context return code.
void fake_poison(struct object *ctx, int code) {
	lock();
	ctx->c.sticky = code;
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
void fake_forgive(struct object *o) {
	lock();
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
