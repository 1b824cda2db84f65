// The cases of blocking.c, in the order of the table. `held` is the stream that is held, `idle` another one of
// the same context, ctx; both are non-blocking. What precedes CALL is done before the stream is held.

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".visible .global .align 4 .u32 counter;\n"
			  ".visible .entry small() { ret; }\n"
			  ".visible .entry small2() { ret; }\n"
			  ".visible .entry args(.param .u64 a, .param .u32 b) { ret; }\n"
			  ".visible .entry spin(.param .u64 p) {\n"
			  " .reg .u64 %a; .reg .u32 %v; .reg .pred %q;\n"
			  " ld.param.u64 %a, [p];\n"
			  "again: ld.volatile.u32 %v, [%a];\n"
			  " setp.eq.u32 %q, %v, 0;\n"
			  " @%q bra again;\n"
			  " ret;\n}\n";
static const char ptx_deep[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			       ".visible .entry deep(.param .u64 p, .param .u64 i, .param .u64 j) {\n"
			       " .local .align 4 .b8 room[200000];\n"
			       " .reg .u64 %a, %b, %c, %i, %j; .reg .u32 %v;\n"
			       " ld.param.u64 %a, [p]; ld.param.u64 %i, [i]; ld.param.u64 %j, [j];\n"
			       " mov.u64 %b, room;\n"
			       " add.u64 %c, %b, %i; mov.u32 %v, 1; st.local.u32 [%c], %v;\n"
			       " add.u64 %c, %b, %j; ld.local.u32 %v, [%c]; st.global.u32 [%a], %v;\n"
			       " ret;\n}\n";
static const char ptx_printf[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				 ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
				 ".global .align 1 .b8 text[3] = {104, 10, 0};\n"
				 ".visible .entry prints() {\n"
				 " .reg .b64 %f; .reg .b32 %r;\n"
				 " mov.u64 %f, text; cvta.global.u64 %f, %f;\n"
				 " { .param .b64 f; st.param.b64 [f], %f;\n"
				 "   .param .b64 a; st.param.b64 [a], 0;\n"
				 "   .param .b32 r; call.uni (r), vprintf, (f, a); ld.param.b32 %r, [r]; }\n"
				 " ret;\n}\n";
static const char ptx_malloc[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
				 ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"
				 ".extern .func free (.param .b64 p);\n"
				 ".visible .entry allocates() {\n"
				 " .reg .b64 %p;\n"
				 " { .param .b64 n; st.param.b64 [n], 64;\n"
				 "   .param .b64 r; call.uni (r), malloc, (n); ld.param.b64 %p, [r]; }\n"
				 " { .param .b64 p; st.param.b64 [p], %p; call.uni free, (p); }\n"
				 " ret;\n}\n";

// What calls write to.
static H h, h2;
static H hs[20000];
static D d, d2;
static int i1, i2;
static U u1;
static unsigned long long l1;
static size_t z1, z2;
static char buf[4096];
static float ms;
static const char *text;
static Ipc ipc[SHARED];

static D dev_ptr(void *p) {
	D at;
	ok(cuMemHostGetDevicePointer(&at, p, 0));
	return at;
}

// linker returns a linker, with an input if there is one.
static H linker(const char *image) {
	H link;
	ok(cuLinkCreate(0, NULL, NULL, &link));
	if (image)
		ok(cuLinkAddData(link, LINK_PTX, (void *)(uintptr_t)image, strlen(image) + 1, "small", 0, NULL, NULL));
	return link;
}

// cubin is the small module as the driver's linker makes it for this device.
static void *cubin(void) {
	void *out;
	size_t n;
	H link;
	ok(cuLinkCreate(0, NULL, NULL, &link));
	ok(cuLinkAddData(link, LINK_PTX, (void *)(uintptr_t)ptx, sizeof ptx, "small", 0, NULL, NULL));
	ok(cuLinkComplete(link, &out, &n));
	return out;
}

// load_library loads a library, and kernel_of and lib_function find a kernel of it.
static H load_library(const char *image) {
	H lib;
	ok(cuLibraryLoadData(&lib, image, NULL, NULL, 0, NULL, NULL, 0));
	return lib;
}
static H kernel_of(H lib, const char *name) {
	H k;
	ok(cuLibraryGetKernel(&k, lib, name));
	return k;
}
static H lib_function(H lib, const char *name) {
	H f;
	ok(cuKernelGetFunction(&f, kernel_of(lib, name)));
	return f;
}

// deep launches the kernel with 200 KB of local memory.
static H deep_kernel(void) {
	d = new_mem(64);
	return function(load_module(ptx_deep), "deep");
}
static int launch_deep(H f, H stream) { return launch(f, stream, (void *[]){&d, &(D){0}, &(D){4}}); }

static void second_device(void) {
	int n;
	ok(cuDeviceGetCount(&n));
	if (n < 2)
		skip("there is one device");
}

// Another device's context, which is not current.
static H far_context(void) {
	H c;
	second_device();
	ok(cuDevicePrimaryCtxRetain(&c, 1));
	return c;
}

// in makes c current for what follows.
static void in(H c) { ok(cuCtxSetCurrent(c)); }

static H green(void) {
	Resource all, some, rest;
	H desc, g;
	U n = 1;
	ok(cuDeviceGetDevResource(dev, &all, RESOURCE_SM));
	ok(cuDevSmResourceSplitByCount(&some, &n, &all, &rest, 0, 8));
	ok(cuDevResourceGenerateDesc(&desc, &some, 1));
	ok(cuGreenCtxCreate(&g, desc, dev, GREEN_DEFAULT_STREAM));
	return g;
}
static H green_stream(H g) {
	H s;
	ok(cuGreenCtxStreamCreate(&s, g, STREAM_NON_BLOCKING, 0));
	return s;
}
static H green_as_context(H g) {
	H c;
	ok(cuCtxFromGreenCtx(&c, g));
	return c;
}

// captured is the graph of what is done between the two.
static void capture(void) { ok(cuStreamBeginCapture(idle, CAPTURE_RELAXED)); }
static H captured(void) {
	H g;
	ok(cuStreamEndCapture(idle, &g));
	return g;
}
static H kernel_graph(void) {
	capture();
	ok(launch(small, idle, NULL));
	return captured();
}
static H alloc_graph(void) {
	capture();
	ok(cuMemAllocAsync(&d, 1 << 20, idle));
	ok(cuMemsetD8Async(d, 1, 1 << 20, idle));
	ok(cuMemFreeAsync(d, idle));
	return captured();
}
static H executable(H g) {
	H x;
	ok(cuGraphInstantiateWithFlags(&x, g, 0));
	return x;
}
static H event_graph(H *node, H event) {
	H g;
	ok(cuGraphCreate(&g, 0));
	ok(cuGraphAddEventRecordNode(node, g, NULL, 0, event));
	return g;
}
static H wait_graph(H *node, H event) {
	H g;
	ok(cuGraphCreate(&g, 0));
	ok(cuGraphAddEventWaitNode(node, g, NULL, 0, event));
	return g;
}
static H finished(U flags) {
	H e = new_event(flags);
	ok(cuEventRecord(e, idle));
	ok(cuStreamSynchronize(idle));
	return e;
}
// pending is an event that is recorded on the held stream.
static H pending(U flags) {
	H e = new_event(flags);
	hold();
	ok(cuEventRecord(e, held));
	return e;
}

// The library and devices.
ROW(init, "cuInit", 0, , cuInit(0))
ROW(version, "cuDriverGetVersion", 0, , cuDriverGetVersion(&i1))
ROW(error_name, "cuGetErrorName", 0, , cuGetErrorName(600, &text))
ROW(error_string, "cuGetErrorString", 0, , cuGetErrorString(600, &text))
ROW(proc, "cuGetProcAddress", 0, , cuGetProcAddress("cuEventQuery", &h, 12000, 0, &i1))
ROW(dev_get, "cuDeviceGet", 0, , cuDeviceGet(&i1, 0))
ROW(dev_count, "cuDeviceGetCount", 0, , cuDeviceGetCount(&i1))
ROW(dev_name, "cuDeviceGetName", 0, , cuDeviceGetName(buf, 100, dev))
ROW(dev_bus, "cuDeviceGetPCIBusId", 0, , cuDeviceGetPCIBusId(buf, 100, dev))
ROW(dev_by_bus, "cuDeviceGetByPCIBusId", 0, ok(cuDeviceGetPCIBusId(buf, 100, dev)), cuDeviceGetByPCIBusId(&i1, buf))
ROW(dev_uuid, "cuDeviceGetUuid", 0, , cuDeviceGetUuid((Uuid *)buf, dev))
ROW(dev_uuid2, "cuDeviceGetUuid_v2", 0, , cuDeviceGetUuid_v2((Uuid *)buf, dev))
ROW(dev_attribute, "cuDeviceGetAttribute", 0, , cuDeviceGetAttribute(&i1, 16, dev))
ROW(dev_mem, "cuDeviceTotalMem", 0, , cuDeviceTotalMem(&z1, dev))
ROW(dev_peer, "cuDeviceCanAccessPeer", 0, second_device(), cuDeviceCanAccessPeer(&i1, 0, 1))
ROW(dev_p2p, "cuDeviceGetP2PAttribute", 0, second_device(), cuDeviceGetP2PAttribute(&i1, 1, 0, 1))
ROW(dev_resource, "cuDeviceGetDevResource", 0, , cuDeviceGetDevResource(dev, (Resource *)buf, RESOURCE_SM))

// Primary contexts.
ROW(retain, "cuDevicePrimaryCtxRetain, retained before", 0, , cuDevicePrimaryCtxRetain(&h, dev))
ROW(retain1, "cuDevicePrimaryCtxRetain, the first, a stream of another context is held", CREATED, ,
    cuDevicePrimaryCtxRetain(&h, dev))
ROW(retain_far, "cuDevicePrimaryCtxRetain, the first, of another device", 0,
    second_device(), cuDevicePrimaryCtxRetain(&h, 1))
ROW(release, "cuDevicePrimaryCtxRelease, not the last", 0,
    ok(cuDevicePrimaryCtxRetain(&h, dev)), cuDevicePrimaryCtxRelease(dev))
ROW(release_last, "cuDevicePrimaryCtxRelease, the last, its own stream is held", QUIET, ,
    cuDevicePrimaryCtxRelease(dev))
ROW(release_away, "cuDevicePrimaryCtxRelease, the last, not current, its own stream is held", QUIET,
    hold(); in(NULL), cuDevicePrimaryCtxRelease(dev))
ROW(release_other, "cuDevicePrimaryCtxRelease, the last, a stream of another context is held", CREATED,
    ok(cuDevicePrimaryCtxRetain(&h, dev)), cuDevicePrimaryCtxRelease(dev))
ROW(release_far, "cuDevicePrimaryCtxRelease, the last, of another device", 0,
    far_context(), cuDevicePrimaryCtxRelease(1))
ROW(reset, "cuDevicePrimaryCtxReset, its own stream is held", QUIET, , cuDevicePrimaryCtxReset(dev))
ROW(reset_other, "cuDevicePrimaryCtxReset, a stream of another context is held", CREATED,
    ok(cuDevicePrimaryCtxRetain(&h, dev)), cuDevicePrimaryCtxReset(dev))
ROW(reset_inactive, "cuDevicePrimaryCtxReset, inactive, a stream of another context is held", CREATED, ,
    cuDevicePrimaryCtxReset(dev))
ROW(set_flags, "cuDevicePrimaryCtxSetFlags, active", 0, , cuDevicePrimaryCtxSetFlags(dev, CTX_BLOCKING_SYNC))
ROW(set_flags0, "cuDevicePrimaryCtxSetFlags, inactive", CREATED, , cuDevicePrimaryCtxSetFlags(dev, CTX_BLOCKING_SYNC))
ROW(get_state, "cuDevicePrimaryCtxGetState", 0, , cuDevicePrimaryCtxGetState(dev, &u1, &i1))

// Contexts.
ROW(ctx_create2, "cuCtxCreate_v2", 0, , cuCtxCreate_v2(&h, 0, dev))
ROW(ctx_create4, "cuCtxCreate_v4", 0, , cuCtxCreate_v4(&h, NULL, 0, dev))
ROW(ctx_create_far, "cuCtxCreate_v2, of another device", 0, second_device(), cuCtxCreate_v2(&h, 0, 1))
ROW(ctx_destroy, "cuCtxDestroy, never used, a stream of another context is held", 0,
    h = new_context(), cuCtxDestroy(h))
ROW(ctx_destroy_both, "cuCtxDestroy, never used, a stream of another created context is held", CREATED,
    h = new_context(), cuCtxDestroy(h))
CASE(ctx_destroy_used, "cuCtxDestroy, idle, was used for everything, a stream of another context is held", 0) {
	h = new_context();
	in(h);
	h2 = load_module(ptx);
	ok(launch(function(h2, "small"), new_stream(STREAM_NON_BLOCKING), NULL));
	ok(cuMemsetD8(new_mem(1 << 20), 0, 1 << 20));
	memset(new_host(1 << 20, 0), 1, 1 << 20);
	new_event(EVENT_TIMED);
	ok(cuCtxSynchronize());
	in(ctx);
	CALL(cuCtxDestroy(h));
}
CASE(ctx_destroy_green, "cuCtxDestroy, idle, a stream of a green context is held", 0) {
	H g = green();
	h = new_context();
	hold_in(green_as_context(g), green_stream(g), NULL);
	CALL(cuCtxDestroy(h));
}
ROW(ctx_destroy_own, "cuCtxDestroy, current, its own stream is held", CREATED | QUIET, , cuCtxDestroy(ctx))
ROW(ctx_destroy_away, "cuCtxDestroy, not current, its own stream is held", CREATED | QUIET,
    hold(); in(NULL), cuCtxDestroy(ctx))
ROW(ctx_destroy_far, "cuCtxDestroy, idle, of another device", 0,
    second_device(); ok(cuCtxCreate_v2(&h, 0, 1)); in(ctx), cuCtxDestroy(h))
ROW(ctx_push, "cuCtxPushCurrent", 0, , cuCtxPushCurrent(ctx))
ROW(ctx_pop, "cuCtxPopCurrent", 0, , cuCtxPopCurrent(&h))
ROW(ctx_current, "cuCtxGetCurrent", 0, , cuCtxGetCurrent(&h))
ROW(ctx_set_current, "cuCtxSetCurrent", 0, , cuCtxSetCurrent(ctx))
ROW(ctx_set_none, "cuCtxSetCurrent, NULL", 0, , cuCtxSetCurrent(NULL))
ROW(ctx_device, "cuCtxGetDevice", 0, , cuCtxGetDevice(&i1))
ROW(ctx_flags, "cuCtxGetFlags", 0, , cuCtxGetFlags(&u1))
ROW(ctx_set_flags, "cuCtxSetFlags", 0, , cuCtxSetFlags(CTX_BLOCKING_SYNC))
ROW(ctx_sync, "cuCtxSynchronize", 0, , cuCtxSynchronize())
ROW(ctx_sync_blocking, "cuCtxSynchronize, CU_CTX_SCHED_BLOCKING_SYNC", CREATED,
    ok(cuCtxSetFlags(CTX_BLOCKING_SYNC)), cuCtxSynchronize())
ROW(ctx_sync_other, "cuCtxSynchronize, a stream of another context is held", 0,
    h = new_context(); hold(); in(h), cuCtxSynchronize())
ROW(ctx_range, "cuCtxGetStreamPriorityRange", 0, , cuCtxGetStreamPriorityRange(&i1, &i2))
ROW(ctx_api, "cuCtxGetApiVersion", 0, , cuCtxGetApiVersion(ctx, &u1))
ROW(ctx_id, "cuCtxGetId", 0, , cuCtxGetId(ctx, &l1))
ROW(get_stack, "cuCtxGetLimit, stack", 0, , cuCtxGetLimit(&z1, LIMIT_STACK))
ROW(get_printf, "cuCtxGetLimit, printf", 0, , cuCtxGetLimit(&z1, LIMIT_PRINTF))
ROW(get_heap, "cuCtxGetLimit, heap", 0, , cuCtxGetLimit(&z1, LIMIT_HEAP))
ROW(set_stack, "cuCtxSetLimit, stack, more", 0, , cuCtxSetLimit(LIMIT_STACK, 8 << 10))
ROW(set_stack_same, "cuCtxSetLimit, stack, the same", 0,
    ok(cuCtxGetLimit(&z1, LIMIT_STACK)), cuCtxSetLimit(LIMIT_STACK, z1))
ROW(set_stack_less, "cuCtxSetLimit, stack, less", 0,
    ok(cuCtxSetLimit(LIMIT_STACK, 8 << 10)), cuCtxSetLimit(LIMIT_STACK, 1 << 10))
ROW(set_printf, "cuCtxSetLimit, printf", 0, , cuCtxSetLimit(LIMIT_PRINTF, 4 << 20))
ROW(set_heap, "cuCtxSetLimit, heap", 0, , cuCtxSetLimit(LIMIT_HEAP, 32 << 20))
ROW(set_launches, "cuCtxSetLimit, pending launches", 0, , cuCtxSetLimit(LIMIT_PENDING_LAUNCHES, 4096))
ROW(set_l2, "cuCtxSetLimit, L2 fetch granularity", 0, , cuCtxSetLimit(LIMIT_L2_FETCH, 32))
ROW(set_persisting, "cuCtxSetLimit, persisting L2", 0, , cuCtxSetLimit(LIMIT_L2_PERSISTING, 1 << 20))
ROW(set_stack_other, "cuCtxSetLimit, stack, more, a stream of another context is held", 0,
    h = new_context(); hold(); in(h), cuCtxSetLimit(LIMIT_STACK, 8 << 10))
ROW(ctx_record, "cuCtxRecordEvent", 0, h = new_event(EVENT_UNTIMED), cuCtxRecordEvent(ctx, h))
ROW(ctx_wait, "cuCtxWaitEvent", 0, h = finished(EVENT_UNTIMED), cuCtxWaitEvent(ctx, h))
ROW(peer_on, "cuCtxEnablePeerAccess", 0, h = far_context(), cuCtxEnablePeerAccess(h, 0))
ROW(peer_on_far, "cuCtxEnablePeerAccess, to the context of the held stream", 0,
    h = far_context(); hold(); in(h), cuCtxEnablePeerAccess(ctx, 0))
ROW(peer_off, "cuCtxDisablePeerAccess", 0,
    h = far_context(); ok(cuCtxEnablePeerAccess(h, 0)), cuCtxDisablePeerAccess(h))
ROW(peer_off_far, "cuCtxDisablePeerAccess, to the context of the held stream", 0,
    h = far_context(); in(h); ok(cuCtxEnablePeerAccess(ctx, 0)); in(ctx); hold(); in(h), cuCtxDisablePeerAccess(ctx))

// Green contexts.
CASE(green_split, "cuDevSmResourceSplitByCount", 0) {
	static Resource all, some, rest;
	U n = 1;
	ok(cuDeviceGetDevResource(dev, &all, RESOURCE_SM));
	CALL(cuDevSmResourceSplitByCount(&some, &n, &all, &rest, 0, 8));
}
CASE(green_desc, "cuDevResourceGenerateDesc", 0) {
	static Resource all;
	ok(cuDeviceGetDevResource(dev, &all, RESOURCE_SM));
	CALL(cuDevResourceGenerateDesc(&h, &all, 1));
}
CASE(green_create, "cuGreenCtxCreate", 0) {
	static Resource all, some, rest;
	U n = 1;
	ok(cuDeviceGetDevResource(dev, &all, RESOURCE_SM));
	ok(cuDevSmResourceSplitByCount(&some, &n, &all, &rest, 0, 8));
	ok(cuDevResourceGenerateDesc(&h, &some, 1));
	CALL(cuGreenCtxCreate(&h2, h, dev, GREEN_DEFAULT_STREAM));
}
ROW(green_destroy, "cuGreenCtxDestroy, never used, a stream of the primary context is held", 0,
    h = green(), cuGreenCtxDestroy(h))
ROW(green_destroy_used, "cuGreenCtxDestroy, with an idle stream, a stream of the primary context is held", 0,
    h = green(); ok(cuStreamSynchronize(green_stream(h))), cuGreenCtxDestroy(h))
ROW(green_destroy_created, "cuGreenCtxDestroy, a stream of a created context is held", CREATED,
    h = green(), cuGreenCtxDestroy(h))
CASE(green_destroy_held, "cuGreenCtxDestroy, its own stream is held", QUIET) {
	h = green();
	hold_in(green_as_context(h), green_stream(h), NULL);
	CALL(cuGreenCtxDestroy(h));
}
CASE(green_destroy_second, "cuGreenCtxDestroy, a stream of another green context is held", 0) {
	h = green();
	h2 = green();
	hold_in(green_as_context(h2), green_stream(h2), NULL);
	CALL(cuGreenCtxDestroy(h));
}
ROW(green_resource, "cuGreenCtxGetDevResource", 0,
    h = green(), cuGreenCtxGetDevResource(h, (Resource *)buf, RESOURCE_SM))
ROW(green_from, "cuCtxFromGreenCtx", 0, h = green(), cuCtxFromGreenCtx(&h2, h))
ROW(green_record, "cuGreenCtxRecordEvent", 0,
    h = green(); in(green_as_context(h)); h2 = new_event(EVENT_UNTIMED); in(ctx), cuGreenCtxRecordEvent(h, h2))
ROW(green_wait, "cuGreenCtxWaitEvent", 0, h = green(); h2 = finished(EVENT_UNTIMED), cuGreenCtxWaitEvent(h, h2))
CASE(green_many, "cuGreenCtxStreamCreate, the Nth of the green context, a stream of the primary context is held", 0) {
	h = green();
	MANY(1, 140, 5, cuGreenCtxStreamCreate(&h2, h, STREAM_NON_BLOCKING, 0));
}
CASE(green_many_held, "cuGreenCtxStreamCreate, the Nth of the green context, its own stream is held", 0) {
	h = green();
	ctx = green_as_context(h);
	held = green_stream(h);
	MANY(2, 140, 5, cuGreenCtxStreamCreate(&h2, h, STREAM_NON_BLOCKING, 0));
}
CASE(green_free, "cuMemFree of memory from cuMemAlloc, a stream of a green context is held", 0) {
	h = green();
	d = new_mem(1 << 20);
	hold_in(green_as_context(h), green_stream(h), NULL);
	CALL(cuMemFree(d));
}
CASE(green_stream_create, "cuStreamCreate, the Nth of the primary context, a stream of a green context is held", 0) {
	h = green();
	ctx = green_as_context(h);
	held = green_stream(h);
	MANY(streams + 1, 140, 5, cuStreamCreate(&h2, STREAM_NON_BLOCKING));
}

// Streams. The legacy stream is not counted.
CASE(stream_nb, "cuStreamCreate, non-blocking, the Nth of the context", 0) {
	MANY(streams + 1, 140, 6, cuStreamCreate(&h, STREAM_NON_BLOCKING));
}
CASE(stream_default, "cuStreamCreate, default, the Nth of the context", 0) {
	MANY(streams + 1, 140, 6, cuStreamCreate(&h, STREAM_DEFAULT));
}
CASE(stream_priority, "cuStreamCreateWithPriority, the highest, the Nth of the context", 0) {
	ok(cuCtxGetStreamPriorityRange(&i1, &i2));
	MANY(streams + 1, 140, 6, cuStreamCreateWithPriority(&h, STREAM_NON_BLOCKING, i2));
}
CASE(stream_mixed, "cuStreamCreateWithPriority, the priorities in turn, the Nth of the context", 0) {
	ok(cuCtxGetStreamPriorityRange(&i1, &i2));
	MANY(streams + 1, 140, 6, cuStreamCreateWithPriority(&h, STREAM_NON_BLOCKING, i2 + many.at % (i1 - i2 + 1)));
}
CASE(stream_created, "cuStreamCreate, the Nth of a created context", CREATED) {
	MANY(streams + 1, 140, 6, cuStreamCreate(&h, STREAM_NON_BLOCKING));
}
CASE(stream_connections, "cuStreamCreate, the Nth of the context, CUDA_DEVICE_MAX_CONNECTIONS=32", CONNECTIONS) {
	MANY(streams + 1, 140, 6, cuStreamCreate(&h, STREAM_NON_BLOCKING));
}
CASE(stream_eager, "cuStreamCreate, the Nth of the context, CUDA_MODULE_LOADING=EAGER", EAGER) {
	MANY(streams + 1, 140, 6, cuStreamCreate(&h, STREAM_NON_BLOCKING));
}
CASE(stream_spin, "cuStreamCreate, the Nth of the context, a kernel that spins holds the stream", 0) {
	hold_in(ctx, held, function(load_module(ptx), "spin"));
	MANY(streams + 1, 140, 1, cuStreamCreate(&h, STREAM_NON_BLOCKING));
}
CASE(stream_other, "cuStreamCreate, the Nth of a context, a stream of another context is held", 0) {
	h2 = new_context();
	hold();
	in(h2);
	MANY(1, 140, 6, cuStreamCreate(&h, STREAM_NON_BLOCKING));
}
static int create_and_destroy(void) {
	int r = cuStreamCreate(&h, STREAM_NON_BLOCKING);
	return r ? r : cuStreamDestroy(h);
}
CASE(stream_again, "cuStreamCreate and cuStreamDestroy in turn, the Nth ever created", 0) {
	MANY(streams + 1, 300, 6, create_and_destroy());
}
CASE(stream_live, "cuStreamCreate, the Nth at a time, after 100 more were created and destroyed", 0) {
	for (int i = 0; i < 100; i++)
		ok(cuStreamCreate(&hs[i], STREAM_NON_BLOCKING));
	for (int i = 0; i < 100; i++)
		ok(cuStreamDestroy(hs[i]));
	MANY(streams + 1, 150, 6, cuStreamCreate(&h, STREAM_NON_BLOCKING));
}
CASE(stream_live_held, "cuStreamCreate, the Nth at a time, after 20 more were created and destroyed while held", 0) {
	hold();
	for (int i = 0; i < 20; i++)
		ok(cuStreamCreate(&hs[i], STREAM_NON_BLOCKING));
	for (int i = 0; i < 20; i++)
		ok(cuStreamDestroy(hs[i]));
	MANY(streams + 1, 150, 6, cuStreamCreate(&h, STREAM_NON_BLOCKING));
}
CASE(stream_live_used, "cuStreamCreate, the Nth at a time, after 100 more were created, used and destroyed", 0) {
	for (int i = 0; i < 100; i++)
		ok(cuStreamCreate(&hs[i], STREAM_NON_BLOCKING)), ok(launch(small, hs[i], NULL));
	ok(cuCtxSynchronize());
	for (int i = 0; i < 100; i++)
		ok(cuStreamDestroy(hs[i]));
	MANY(streams + 1, 150, 6, cuStreamCreate(&h, STREAM_NON_BLOCKING));
}
ROW(stream_destroy, "cuStreamDestroy, idle", 0, h = new_stream(STREAM_NON_BLOCKING), cuStreamDestroy(h))
ROW(stream_destroy_held, "cuStreamDestroy, held", 0, , cuStreamDestroy(held))
CASE(stream_destroy_many, "cuStreamDestroy, idle, the Nth of 140", 0) {
	for (int i = 0; i < 140; i++)
		ok(cuStreamCreate(&hs[i], STREAM_NON_BLOCKING));
	MANY(1, 140, 6, cuStreamDestroy(hs[many.at - 1]));
}
ROW(stream_query, "cuStreamQuery, free", 0, , cuStreamQuery(idle))
ROW(stream_query_held, "cuStreamQuery, held", 0, , cuStreamQuery(held))
ROW(stream_query_legacy, "cuStreamQuery, legacy", 0, , cuStreamQuery(NULL))
ROW(stream_sync, "cuStreamSynchronize, free", 0, ok(launch(small, idle, NULL)), cuStreamSynchronize(idle))
ROW(stream_sync_held, "cuStreamSynchronize, held", 0, , cuStreamSynchronize(held))
ROW(stream_sync_legacy, "cuStreamSynchronize, legacy", 0, , cuStreamSynchronize(NULL))
ROW(wait_event, "cuStreamWaitEvent, free stream", 0, h = finished(EVENT_UNTIMED), cuStreamWaitEvent(idle, h, 0))
ROW(wait_event_pending, "cuStreamWaitEvent, free stream, event pending", 0,
    h = pending(EVENT_UNTIMED), cuStreamWaitEvent(idle, h, 0))
ROW(wait_event_held, "cuStreamWaitEvent, held stream", 0, h = finished(EVENT_UNTIMED), cuStreamWaitEvent(held, h, 0))
static char log_text[4096];
ROW(stream_ctx, "cuStreamGetCtx", 0, , cuStreamGetCtx(held, &h))
ROW(stream_flags, "cuStreamGetFlags", 0, , cuStreamGetFlags(held, &u1))
ROW(stream_get_priority, "cuStreamGetPriority", 0, , cuStreamGetPriority(held, &i1))
ROW(stream_id, "cuStreamGetId", 0, , cuStreamGetId(held, &l1))
ROW(stream_device, "cuStreamGetDevice", 0, , cuStreamGetDevice(held, &i1))
ROW(stream_get_attribute, "cuStreamGetAttribute, held stream", 0, , cuStreamGetAttribute(held, 3, &(long[8]){0}))
ROW(stream_set_window, "cuStreamSetAttribute, held stream, a window of the L2 cache", 0, ,
    cuStreamSetAttribute(held, 1, &(long[8]){0}))
ROW(stream_set_policy, "cuStreamSetAttribute, held stream, the way to synchronize", 0, ,
    cuStreamSetAttribute(held, 3, &(long[8]){1}))
ROW(stream_copy_attributes, "cuStreamCopyAttributes, from the held stream", 0, , cuStreamCopyAttributes(idle, held))
ROW(affinity, "cuCtxGetExecAffinity", 0, , cuCtxGetExecAffinity(&(long[4]){0}, 0))
ROW(affinity_there, "cuDeviceGetExecAffinitySupport", 0, , cuDeviceGetExecAffinitySupport(&i1, 0, dev))
ROW(log_current, "cuLogsCurrent", 0, , cuLogsCurrent(&u1, 0))
ROW(log_dump, "cuLogsDumpToMemory", 0, ok(cuLogsCurrent(&u1, 0)); z1 = sizeof log_text,
    cuLogsDumpToMemory(&u1, log_text, &z1, 0))
ROW(wait32, "cuStreamWaitValue32, free stream", 0,
    d = dev_ptr(new_host(64, HOST_MAPPED)), cuStreamWaitValue32(idle, d, 0, WAIT_GEQ))
ROW(wait64, "cuStreamWaitValue64, free stream", 0,
    d = dev_ptr(new_host(64, HOST_MAPPED)), cuStreamWaitValue64(idle, d, 0, WAIT_GEQ))
ROW(write32, "cuStreamWriteValue32, free stream", 0, d = new_mem(64), cuStreamWriteValue32(idle, d, 1, 0))
ROW(write64, "cuStreamWriteValue64, free stream", 0, d = new_mem(64), cuStreamWriteValue64(idle, d, 1, 0))
CASE(batch, "cuStreamBatchMemOp, free stream", 0) {
	static MemOp op = {2, 0, 1, 0, 0, 0};
	op.address = new_mem(64);
	CALL(cuStreamBatchMemOp(idle, 1, &op, 0));
}
ROW(callback, "cuStreamAddCallback, free stream", 0, , cuStreamAddCallback(idle, nothing_added, NULL, 0))
ROW(callback_bare, "cuStreamAddCallback, free stream, the first of the context", BARE, ,
    cuStreamAddCallback(idle, nothing_added, NULL, 0))
ROW(host_func, "cuLaunchHostFunc, free stream", 0, , cuLaunchHostFunc(idle, nothing, NULL))
ROW(host_func_bare, "cuLaunchHostFunc, free stream, the first of the context", BARE, ,
    cuLaunchHostFunc(idle, nothing, NULL))

// Captures.
ROW(begin_capture, "cuStreamBeginCapture, free stream", 0, , cuStreamBeginCapture(idle, CAPTURE_GLOBAL))
ROW(begin_capture_held, "cuStreamBeginCapture, held stream", 0, , cuStreamBeginCapture(held, CAPTURE_GLOBAL))
ROW(begin_to_graph, "cuStreamBeginCaptureToGraph", 0,
    ok(cuGraphCreate(&h, 0)), cuStreamBeginCaptureToGraph(idle, h, NULL, NULL, 0, CAPTURE_GLOBAL))
ROW(end_capture, "cuStreamEndCapture", 0,
    hold(); capture(); ok(launch(small, idle, NULL)), cuStreamEndCapture(idle, &h))
ROW(is_capturing, "cuStreamIsCapturing", 0, , cuStreamIsCapturing(idle, &i1))
ROW(capture_info2, "cuStreamGetCaptureInfo_v2", 0,
    hold(); capture(), cuStreamGetCaptureInfo_v2(idle, &i1, &l1, &h, (const H **)buf, &z1))
ROW(capture_info3, "cuStreamGetCaptureInfo_v3", 0,
    hold(); capture(), cuStreamGetCaptureInfo_v3(idle, &i1, &l1, &h, (const H **)buf, (const void **)(buf + 8), &z1))
ROW(capture_update, "cuStreamUpdateCaptureDependencies", 0,
    hold(); capture(), cuStreamUpdateCaptureDependencies(idle, NULL, 0, 1))
ROW(exchange, "cuThreadExchangeStreamCaptureMode", 0, i1 = CAPTURE_RELAXED, cuThreadExchangeStreamCaptureMode(&i1))
ROW(capture_record, "cuEventRecord in a capture", 0,
    h = new_event(EVENT_UNTIMED); hold(); capture(), cuEventRecord(h, idle))
ROW(capture_external, "cuEventRecordWithFlags, external, in a capture", 0,
    h = new_event(EVENT_UNTIMED); hold(); capture(), cuEventRecordWithFlags(h, idle, RECORD_EXTERNAL))
ROW(capture_launch, "cuLaunchKernel in a capture", 0, hold(); capture(), launch(small, idle, NULL))
ROW(capture_wait, "cuStreamWaitEvent, external, in a capture", 0,
    h = finished(EVENT_UNTIMED); hold(); capture(), cuStreamWaitEvent(idle, h, 1))
ROW(capture_host, "cuLaunchHostFunc in a capture", 0, hold(); capture(), cuLaunchHostFunc(idle, nothing, NULL))
ROW(capture_copy, "cuMemcpyHtoDAsync in a capture", 0,
    d = new_mem(64); h = new_host(64, 0); hold(); capture(), cuMemcpyHtoDAsync(d, h, 64, idle))
ROW(capture_alloc, "cuMemAllocAsync in a capture", 0, hold(); capture(), cuMemAllocAsync(&d, 1 << 20, idle))

#include "blocking_work.h"
