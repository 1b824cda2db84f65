// Writes what a driver library answers to standard error, a line a call: what it is, a tab, the result.
//
//	answers LIBRARY SCENARIO
//
// It runs on NVIDIA's library, too, where the kernel that fails is given as PTX that does.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef void *handle;

static void *library;

static void *symbol(const char *name)
{
	void *p = dlsym(library, name);
	if (!p) {
		fprintf(stderr, "there is no %s\n", name);
		_exit(2);
	}
	return p;
}

#define CALL(name, types, args) (((int (*) types)symbol(#name)) args)

static int say(const char *what, int result)
{
	fprintf(stderr, "%s\t%d\n", what, result);
	return result;
}

static handle context, s, busy, spare, done, pending, late, doomed, module, kernel;
static uint64_t memory;
static volatile int recorded; // whether what is behind a function on the host was enqueued

#define HEADER ".version 6.0\n.target sm_50\n.address_size 64\n"

static const char image[] = HEADER ".visible .entry illegal_address()\n{\n\t.reg .u64 %p;\n\t.reg .u32 %v;\n"
	"\tmov.u64 %p, 16;\n\tmov.u32 %v, 1;\n\tst.global.u32 [%p], %v;\n\tret;\n}\n"
	".visible .entry nobody_knows_it()\n{\n\ttcgen05.fence::before_thread_sync;\n\tret;\n}\n"
	".visible .entry nobody_knows_that()\n{\n\ttcgen05.fence::before_thread_sync;\n\tret;\n}\n";

static int create(handle *e) { return CALL(cuEventCreate, (handle *, unsigned), (e, 0)); }
static int stream(handle *st) { return CALL(cuStreamCreate, (handle *, unsigned), (st, 1)); }
static int record(handle e, handle on) { return CALL(cuEventRecord, (handle, handle), (e, on)); }
static int query(handle e) { return CALL(cuEventQuery, (handle), (e)); }
static int synchronize(handle e) { return CALL(cuEventSynchronize, (handle), (e)); }
static int current(handle c) { return CALL(cuCtxSetCurrent, (handle), (c)); }
static int retain(handle *c) { return CALL(cuDevicePrimaryCtxRetain, (handle *, int), (c, 0)); }
static int launch(handle f, handle on)
{
	return CALL(cuLaunchKernel, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **),
		(f, 1, 1, 1, 1, 1, 1, 0, on, NULL, NULL));
}

static handle function(const char *name)
{
	handle f = NULL;
	CALL(cuModuleGetFunction, (handle *, handle, const char *), (&f, module, name));
	return f;
}

static int setup(void)
{
	return CALL(cuInit, (unsigned), (0)) || retain(&context) || current(context) || stream(&s) || stream(&busy) || stream(&spare) ||
		create(&done) || create(&pending) || create(&late) || create(&doomed) || CALL(cuModuleLoadData, (handle *, const void *), (&module, image)) ||
		CALL(cuMemAlloc_v2, (uint64_t *, size_t), (&memory, 64)) || record(done, s) || synchronize(done);
}

static int call(void (*f)(void *)) { return CALL(cuLaunchHostFunc, (handle, void (*)(void *), void *), (busy, f, NULL)); }

static void nothing(void *unused) { (void)unused; }

// inside is what a stream calls on the host. The handles are of setup.
static void inside(void *unused)
{
	handle h;
	uint64_t p;
	float ms;
	void *host;
	int n;
	unsigned flags;
	(void)unused;
	while (!recorded)
		usleep(100);
	say("cuEventQuery, complete", query(done));
	say("cuEventQuery, pending", query(pending));
	say("cuEventRecord, free stream", record(done, s));
	say("cuEventDestroy", CALL(cuEventDestroy_v2, (handle), (doomed)));
	say("cuEventSynchronize, complete", synchronize(done));
	say("cuEventElapsedTime", CALL(cuEventElapsedTime, (float *, handle, handle), (&ms, done, done)));
	say("cuStreamQuery, free stream", CALL(cuStreamQuery, (handle), (s)));
	say("cuStreamSynchronize, free stream", CALL(cuStreamSynchronize, (handle), (s)));
	say("cuStreamWaitEvent", CALL(cuStreamWaitEvent, (handle, handle, unsigned), (s, done, 0)));
	say("cuEventCreate", create(&h));
	say("cuStreamCreate", stream(&h));
	say("cuMemAlloc", CALL(cuMemAlloc_v2, (uint64_t *, size_t), (&p, 64)));
	say("cuMemFree", CALL(cuMemFree_v2, (uint64_t), (memory)));
	say("cuMemHostAlloc", CALL(cuMemHostAlloc, (void **, size_t, unsigned), (&host, 64, 0)));
	say("cuLaunchKernel, free stream", launch(kernel, s));
	say("cuCtxGetCurrent", CALL(cuCtxGetCurrent, (handle *), (&h)));
	say("cuCtxSynchronize", CALL(cuCtxSynchronize, (void), ()));
	say("cuModuleUnload", CALL(cuModuleUnload, (handle), (module)));
	say("cuDeviceGetCount", CALL(cuDeviceGetCount, (int *), (&n)));
	say("cuCtxPushCurrent", CALL(cuCtxPushCurrent_v2, (handle), (context)));
	say("cuEventRecord, NULL stream", record(done, NULL));
	say("cuStreamGetFlags", CALL(cuStreamGetFlags, (handle, unsigned *), (s, &flags)));
	say("cuMemsetD8Async", CALL(cuMemsetD8Async, (uint64_t, unsigned char, size_t, handle), (memory, 1, 1, s)));
	say("cuLaunchHostFunc", CALL(cuLaunchHostFunc, (handle, void (*)(void *), void *), (s, nothing, NULL)));
	say("cuModuleGetFunction", CALL(cuModuleGetFunction, (handle *, handle, const char *), (&h, module, "nobody_knows_it")));
	say("cuStreamDestroy, free stream", CALL(cuStreamDestroy_v2, (handle), (spare)));
}

// hostfunc makes calls in a host function. Their events are pending until it returns.
static int hostfunc(void)
{
	kernel = function("illegal_address");
	if (call(inside) || record(pending, busy))
		return 1;
	recorded = 1;
	return synchronize(pending) || CALL(cuCtxSynchronize, (void), ());
}

// sticky asks what is left after a kernel has failed, and the context was reset.
static int sticky(void)
{
	handle e, old, none = NULL;
	say("elapsed-nilout", CALL(cuEventElapsedTime, (float *, handle, handle), (NULL, pending, doomed)));
	say("elapsed_v2-nilout", CALL(cuEventElapsedTime_v2, (float *, handle, handle), (NULL, pending, doomed)));
	if (launch(function("illegal_address"), s))
		return 1;
	say("record-after-bad", record(pending, s));
	say("sync", synchronize(pending));
	say("query-E", query(done));
	say("setcurrent", current(context));
	say("reset", CALL(cuDevicePrimaryCtxReset_v2, (int), (0)));
	old = context;
	say("retain-again", retain(&context));
	say("retained", context == old);
	say("set-again", current(context));
	say("create-again", create(&e));
	say("retain-null", retain(&none));
	say("retained-null", none != NULL);
	say("set-null", current(none));
	say("create-null", create(&e));
	return 0;
}

// unknown launches kernels that nobody has told the software driver of.
static int unknown(void)
{
	for (int i = 0; i < 3; i++) {
		say("it", launch(function("nobody_knows_it"), s));
		say("that", launch(function("nobody_knows_that"), s));
	}
	return CALL(cuCtxSynchronize, (void), ());
}

// more is what a stream calls on the host, with calls that the table does not have.
static void more(void *unused)
{
	(void)unused;
	while (!recorded)
		usleep(100);
	say("cuEventDestroy, pending", CALL(cuEventDestroy_v2, (handle), (late)));
	say("cuStreamSynchronize, its own stream", CALL(cuStreamSynchronize, (handle), (busy))); // on a GPU it never returns
}

// facts asks for sizes, and for what a GPU has not answered yet.
static int facts(void)
{
	enum { local_size = 3, const_size = 2 };
	static const char *constants = HEADER ".const .align 4 .b8 unused[12];\n.visible .const .align 4 .b8 used[20];\n"
		".visible .entry reads(.param .u64 p)\n{\n\t.reg .u64 %p;\n\t.reg .u32 %v;\n\tld.param.u64 %p, [p];\n\tld.const.u32 %v, [used];\n"
		"\tst.global.u32 [%p], %v;\n\tret;\n}\n.visible .entry reads_not()\n{\n\t.local .align 8 .b8 l[24];\n\tret;\n}\n";
	size_t free_memory, total;
	int n;
	if (CALL(cuMemGetInfo_v2, (size_t *, size_t *), (&free_memory, &total)) || CALL(cuModuleLoadData, (handle *, const void *), (&module, constants)))
		return 1;
	fprintf(stderr, "bytes in use beside one context\t%zu\n", total - free_memory);
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "reads_not" : "reads";
		CALL(cuFuncGetAttribute, (int *, int, handle), (&n, const_size, function(name)));
		fprintf(stderr, "constant memory of %s\t%d\n", name, n);
		CALL(cuFuncGetAttribute, (int *, int, handle), (&n, local_size, function(name)));
		fprintf(stderr, "local memory of %s\t%d\n", name, n);
	}
	say("nil-out, recorded events", CALL(cuEventElapsedTime_v2, (float *, handle, handle), (NULL, done, done)));
	if (call(more) || record(late, busy))
		return 1;
	say("nil-out, one pending", CALL(cuEventElapsedTime_v2, (float *, handle, handle), (NULL, done, late)));
	recorded = 1;
	return CALL(cuStreamSynchronize, (handle), (busy));
}

int main(int argc, char **argv)
{
	if (argc != 3 || !(library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL))) {
		fprintf(stderr, "usage: answers LIBRARY SCENARIO: %s\n", argc == 3 ? dlerror() : "");
		return 2;
	}
	alarm(30);
	if (setup()) {
		fprintf(stderr, "the driver cannot be set up\n");
		return 1;
	}
	if (!strcmp(argv[2], "hostfunc"))
		return hostfunc();
	if (!strcmp(argv[2], "sticky"))
		return sticky();
	if (!strcmp(argv[2], "unknown"))
		return unknown();
	if (!strcmp(argv[2], "facts"))
		return facts();
	fprintf(stderr, "there is no scenario %s\n", argv[2]);
	return 2;
}
