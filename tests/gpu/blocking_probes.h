// What blocking.c does on further threads while the call that a case is about waits.

// The calls that are made while a call waits, in this order.
struct probe {
	const char *name;
	int (*call)(struct probe *);
	int with_stream;
	H stream, event, end;
	D at;
	void *host;
	pthread_t thread;
	atomic_int state; // 0: ready, 1: go, 2: returned
	int result;
};
static atomic_int probes_ready;
static H probe_ctx;

static int p_get_current(struct probe *p) { return cuCtxGetCurrent(&p->end); }
static int p_push_pop(struct probe *p) {
	int r = cuCtxPushCurrent(probe_ctx);
	return r ? r : cuCtxPopCurrent(&p->end);
}
static int p_set_current(struct probe *p) { return (void)p, cuCtxSetCurrent(probe_ctx); }
static int p_event_query(struct probe *p) { return cuEventQuery(p->event); }
static int p_stream_query(struct probe *p) { return cuStreamQuery(p->stream); }
static int p_wait_event(struct probe *p) { return cuStreamWaitEvent(p->stream, p->event, 0); }
static int p_write_value(struct probe *p) { return cuStreamWriteValue32(p->stream, p->at, 1, 0); }
static int p_wait_value(struct probe *p) { return cuStreamWaitValue32(p->stream, p->at, 0, WAIT_GEQ); }
static int p_is_capturing(struct probe *p) {
	int status;
	return cuStreamIsCapturing(p->stream, &status);
}
static int p_event_synchronize(struct probe *p) { return cuEventSynchronize(p->event); }
static int p_elapsed(struct probe *p) {
	float ms;
	return cuEventElapsedTime(&ms, p->event, p->event);
}
static int p_stream_synchronize(struct probe *p) { return cuStreamSynchronize(p->stream); }
static int p_event_create(struct probe *p) { return cuEventCreate(&p->end, EVENT_UNTIMED); }
static int p_event_record(struct probe *p) { return cuEventRecord(p->event, p->stream); }
static int p_launch(struct probe *p) { return launch(p->end, p->stream, NULL); }
static int p_host_func(struct probe *p) { return cuLaunchHostFunc(p->stream, nothing, NULL); }
static int p_copy(struct probe *p) { return cuMemcpyHtoDAsync(p->at, p->host, 64, p->stream); }
static int p_set(struct probe *p) { return cuMemsetD8(p->at, 1, 64); }
static int p_event_destroy(struct probe *p) { return cuEventDestroy(p->event); }
static int p_alloc(struct probe *p) { return cuMemAlloc(&p->at, 1 << 20); }
static int p_host_alloc(struct probe *p) { return cuMemHostAlloc(&p->host, 4096, 0); }
static int p_retain(struct probe *p) { return cuDevicePrimaryCtxRetain(&p->end, dev); }

static struct probe probes[] = {
	{.name = "cuCtxGetCurrent", .call = p_get_current},
	{.name = "cuEventQuery", .call = p_event_query},
	{.name = "cuStreamQuery", .call = p_stream_query, .with_stream = 1},
	{.name = "cuStreamIsCapturing", .call = p_is_capturing, .with_stream = 1},
	{.name = "cuCtxPushCurrent and cuCtxPopCurrent", .call = p_push_pop},
	{.name = "cuCtxSetCurrent", .call = p_set_current},
	{.name = "cuEventElapsedTime", .call = p_elapsed},
	{.name = "cuEventSynchronize", .call = p_event_synchronize},
	{.name = "cuStreamWaitEvent", .call = p_wait_event, .with_stream = 1},
	{.name = "cuStreamWriteValue32", .call = p_write_value, .with_stream = 1},
	{.name = "cuStreamWaitValue32", .call = p_wait_value, .with_stream = 1},
	{.name = "cuStreamSynchronize", .call = p_stream_synchronize, .with_stream = 1},
	{.name = "cuEventCreate", .call = p_event_create},
	{.name = "cuEventRecord", .call = p_event_record, .with_stream = 2},
	{.name = "cuLaunchKernel", .call = p_launch, .with_stream = 3},
	{.name = "cuLaunchHostFunc", .call = p_host_func, .with_stream = 4},
	{.name = "cuMemcpyHtoDAsync", .call = p_copy, .with_stream = 5},
	{.name = "cuMemsetD8", .call = p_set},
	{.name = "cuEventDestroy", .call = p_event_destroy},
	{.name = "cuMemAlloc", .call = p_alloc},
	{.name = "cuMemHostAlloc", .call = p_host_alloc},
	{.name = "cuDevicePrimaryCtxRetain", .call = p_retain},
};
enum { NUM_PROBES = sizeof probes / sizeof *probes };

static void *run_probe(void *arg) {
	struct probe *p = arg;
	if (cuCtxSetCurrent(probe_ctx))
		skip("cuCtxSetCurrent of a further thread fails");
	atomic_fetch_add(&probes_ready, 1);
	while (!atomic_load(&p->state))
		usleep(500);
	p->result = p->call(p);
	atomic_store(&p->state, 2);
	return NULL;
}

// make_probes prepares the further threads. Each call that enqueues something was made once before. Calls that
// may be held up have a stream each, so that they do not hold up each other.
static void make_probes(void) {
	H own[6] = {0}, popped, m, f;
	int in_ctx = mode != OTHER;
	probe_ctx = in_ctx ? ctx : (other_ctx = new_context());
	ok(cuCtxPushCurrent(probe_ctx));
	m = load_module(ptx);
	f = function(m, "small");
	D mem = new_mem(4096);
	void *host = new_host(4096, HOST_MAPPED);
	if (in_ctx)
		module = m, small = f;
	for (int i = 0; i < NUM_PROBES; i++) {
		struct probe *p = &probes[i];
		if (p->with_stream && !own[p->with_stream]) {
			ok(cuStreamCreate(&own[p->with_stream], STREAM_NON_BLOCKING));
			streams += in_ctx;
		}
		p->stream = own[p->with_stream];
		p->event = new_event(EVENT_TIMED);
		p->at = mem + 64 * (D)i;
		p->host = host;
		p->end = f;
		ok(cuEventRecord(p->event, own[1] ? own[1] : NULL));
		if (p->with_stream > 1)
			ok(p->call(p));
	}
	ok(cuMemsetD8(mem, 0, 4096));
	ok(cuCtxSynchronize());
	ok(cuCtxPopCurrent(&popped));
	for (int i = 0; i < NUM_PROBES; i++)
		pthread_create(&probes[i].thread, NULL, run_probe, &probes[i]);
	while (atomic_load(&probes_ready) < NUM_PROBES)
		usleep(500);
}

// held_up makes the calls on the further threads and says which do not return.
static void held_up(char *text, size_t size) {
	size_t n = 0;
	int none = 1;
	text[0] = 0;
	if (!probe_ctx || (mode == PLAIN && the_case->flags & QUIET)) {
		snprintf(text, size, "not measured");
		return;
	}
	for (int i = 0; i < NUM_PROBES; i++) {
		atomic_store(&probes[i].state, 1);
		for (int ms = 0; ms < 30 && atomic_load(&probes[i].state) != 2; ms++)
			sleep_ms(1);
	}
	sleep_ms(50);
	for (int i = 0; i < NUM_PROBES && n < size; i++) {
		int returned = atomic_load(&probes[i].state) == 2, r = probes[i].result;
		if (returned && (r == 0 || r == NOT_READY))
			continue;
		n += (size_t)snprintf(text + n, size - n, "%s%s", none ? "" : ", ", probes[i].name);
		if (returned && n < size)
			n += (size_t)snprintf(text + n, size - n, " answers %d", r);
		none = 0;
	}
	if (none)
		snprintf(text, size, "nothing");
}
