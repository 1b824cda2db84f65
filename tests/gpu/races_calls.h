// The two kinds of calls that races.c makes beside each other.

// What a thread makes calls with: its context, and its own stream and event. Every eighth time there is work that
// the event waits for.
static int launch(H stream) { return cuLaunchKernel(me->place->small, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL); }
static int every(unsigned long n) { return me->turns % n == 0; }
static H an_event(void) {
	if (every(8))
		DO(launch(me->stream)), DO(cuEventRecord(me->event, me->stream));
	return every(2) ? me->place->common : me->event;
}

// A: what records events and waits for them.
static void ctx_wait(void) {
	H e = an_event();
	DO(cuCtxWaitEvent(me->place->ctx, e));
}
static void ctx_record(void) { DO(cuCtxRecordEvent(me->place->ctx, every(2) ? me->place->common : me->event)); }
static void green_wait(void) {
	H e = every(3) ? me->place->green_event : an_event();
	DO(cuGreenCtxWaitEvent(me->place->green, e));
}
static void green_record(void) { DO(cuGreenCtxRecordEvent(me->place->green, me->place->green_event)); }
static void stream_wait(void) {
	H e = an_event();
	DO(cuStreamWaitEvent(me->stream, e, 0));
}
static void event_record(void) { DO(cuEventRecord(every(2) ? me->place->common : me->event, me->stream)); }

// B: what makes and destroys.
static int new_stream(H *s) {
	U flags = every(2) ? STREAM_NON_BLOCKING : STREAM_DEFAULT;
	if (every(3))
		return DO(cuStreamCreate(s, flags));
	return DO(cuStreamCreateWithPriority(s, flags, every(5) ? me->greatest : me->least));
}
static void streams(void) {
	H s;
	if (!new_stream(&s))
		DO(cuStreamDestroy(s));
}
static void used_streams(void) { // which are destroyed while they have work, for which threads wait
	H s;
	if (new_stream(&s))
		return;
	DO(launch(s));
	DO(cuEventRecord(me->place->common, s));
	DO(cuStreamDestroy(s));
}
static void greens(void) {
	H g;
	if (!DO(cuGreenCtxCreate(&g, me->place->description, me->place->dev, GREEN_DEFAULT_STREAM)))
		DO(cuGreenCtxDestroy(g));
}
static void green_streams(void) {
	H s;
	if (!DO(cuGreenCtxStreamCreate(&s, me->place->green, STREAM_NON_BLOCKING, every(2) ? me->greatest : me->least)))
		DO(cuStreamDestroy(s));
}
static void graphs(void) {
	H x;
	if (DO(cuGraphInstantiateWithFlags(&x, me->place->graph, 0)))
		return;
	if (every(4))
		DO(cuGraphLaunch(x, me->stream));
	DO(cuGraphExecDestroy(x));
}
static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry small() { ret; }\n";
static void modules(void) {
	H m;
	if (!DO(cuModuleLoadData(&m, ptx)))
		DO(cuModuleUnload(m));
}
static void memory(void) {
	D d;
	if (!DO(cuMemAlloc(&d, every(2) ? 64 : 4 << 20)))
		DO(cuMemFree(d));
}
static void other_contexts(void) {
	H c, popped;
	if (DO(cuCtxCreate_v2(&c, 0, me->place->dev)))
		return;
	DO(cuCtxPopCurrent(&popped));
	DO(cuCtxDestroy(c));
}
static void events(void) {
	H e;
	if (DO(cuEventCreate(&e, every(2) ? EVENT_TIMED : EVENT_UNTIMED)))
		return;
	if (every(3))
		DO(cuEventRecord(e, me->stream));
	DO(cuEventDestroy(e));
}

static const struct op as[] = {
	{"cuCtxWaitEvent", ctx_wait, 0},
	{"cuCtxRecordEvent", ctx_record, 0},
	{"cuGreenCtxWaitEvent", green_wait, 1},
	{"cuGreenCtxRecordEvent", green_record, 1},
	{"cuStreamWaitEvent", stream_wait, 0},
	{"cuEventRecord", event_record, 0},
};
static const struct op bs[] = {
	{"cuStreamCreate and cuStreamDestroy", streams, 0},
	{"cuStreamCreate, cuLaunchKernel, cuEventRecord and cuStreamDestroy", used_streams, 0},
	{"cuGreenCtxCreate and cuGreenCtxDestroy", greens, 1},
	{"cuGreenCtxStreamCreate and cuStreamDestroy", green_streams, 1},
	{"cuGraphInstantiateWithFlags and cuGraphExecDestroy", graphs, 0},
	{"cuModuleLoadData and cuModuleUnload", modules, 0},
	{"cuMemAlloc and cuMemFree", memory, 0},
	{"cuCtxCreate and cuCtxDestroy of another context", other_contexts, 0},
	{"cuEventCreate and cuEventDestroy", events, 0},
};
