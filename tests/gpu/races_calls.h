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
static void ctx_sync(void) {
	if (every(4))
		DO(launch(me->stream));
	DO(cuCtxSynchronize());
}
static void legacy_record(void) { DO(cuEventRecord(every(2) ? me->place->common : me->event, NULL)); }
static void legacy_wait(void) {
	H e = an_event();
	DO(cuStreamWaitEvent(NULL, e, 0));
}
static void legacy_launch(void) {
	DO(launch(NULL));
	if (every(16))
		DO(cuStreamSynchronize(NULL));
}
static void legacy_query(void) {
	U flags;
	if (every(2))
		DO(cuStreamQuery(NULL));
	else
		DO(cuStreamGetFlags(NULL, &flags));
}
static void copies(void) {
	char bytes[8] = "";
	if (every(3))
		DO(cuMemcpyHtoD(me->place->bytes, "bytes", 5));
	else if (every(2))
		DO(cuMemcpyDtoH(bytes, me->place->bytes, 5));
	else
		DO(cuMemsetD8(me->place->bytes, 1, 5));
}
static void queries(void) {
	if (every(2))
		DO(cuStreamQuery(me->stream));
	else
		DO(cuEventQuery(me->event));
}
static void green_work(void) {
	DO(launch(me->place->green_stream));
	DO(cuStreamQuery(me->place->green_stream));
}

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
static void held_streams(void) { // which are destroyed as soon as the value that they wait for is there
	H s;
	if (new_stream(&s))
		return;
	if (!DO(cuStreamWaitValue32(s, me->word_at, ++me->word_next, WAIT_GEQ)))
		DO(cuEventRecord(me->place->common, s));
	*me->word = me->word_next; // before a call that may wait for the stream
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
static void instantiate(H graph) {
	H x;
	if (DO(cuGraphInstantiateWithFlags(&x, graph, 0)))
		return;
	if (every(4))
		DO(cuGraphLaunch(x, me->stream));
	DO(cuGraphExecDestroy(x));
}
static void graphs(void) { instantiate(me->graph); }
static void branching_graphs(void) { instantiate(me->branches); }
// capture captures work, or nothing, on a stream. With -exclusive no A is made while a capture begins, ends, or is
// joined.
static void capture(H s, int mode, int work, H joining) {
	H g, last = joining == me->elsewhere ? me->join_elsewhere : me->join; // of the joining stream's context
	enter_capture(BEGIN);
	int r = DO(cuStreamBeginCapture(s, mode));
	leave_capture(BEGIN);
	if (r)
		return;
	for (int i = 0; i < work; i++)
		DO(launch(s));
	if (joining && !DO(cuEventRecord(me->fork, s))) {
		enter_capture(JOIN);
		r = DO(cuStreamWaitEvent(joining, me->fork, 0));
		leave_capture(JOIN);
		if (!r && (joining == me->elsewhere || !DO(launch(joining))) && !DO(cuEventRecord(last, joining)))
			DO(cuStreamWaitEvent(s, last, 0));
	}
	enter_capture(END);
	r = DO(cuStreamEndCapture(s, &g));
	leave_capture(END);
	if (!r)
		DO(cuGraphDestroy(g));
}
static void capture_on(H s, int mode) { capture(s, mode, 4, NULL); }
static void empty_captures(void) { capture(me->stream, CAPTURE_GLOBAL, 0, NULL); }
static void empty_blocking_captures(void) { capture(me->blocking, CAPTURE_RELAXED, 0, NULL); }
static void joined_captures(void) { capture(me->stream, CAPTURE_RELAXED, 1, me->blocking); }
static void local_captures(void) { capture_on(me->stream, CAPTURE_THREAD_LOCAL); }
static void captures(void) { capture_on(me->stream, CAPTURE_RELAXED); }
static void blocking_captures(void) { capture_on(me->blocking, CAPTURE_RELAXED); }
static void global_captures(void) { capture_on(me->stream, CAPTURE_GLOBAL); }
static void per_thread_captures(void) { capture_on((H)2, CAPTURE_RELAXED); }
static void green_captures(void) { capture_on(me->green_stream, CAPTURE_RELAXED); }
static void memset_captures(void) { // of a new stream each, which is destroyed afterwards
	H s, g;
	if (DO(cuStreamCreate(&s, STREAM_NON_BLOCKING)))
		return;
	enter_capture(BEGIN);
	int r = DO(cuStreamBeginCapture(s, CAPTURE_THREAD_LOCAL));
	leave_capture(BEGIN);
	if (!r) {
		DO(cuMemsetD8Async(me->place->bytes, 1, 64, s));
		enter_capture(END);
		r = DO(cuStreamEndCapture(s, &g));
		leave_capture(END);
		if (!r)
			DO(cuGraphDestroy(g));
	}
	DO(cuStreamDestroy(s));
}
static void captures_into_graphs(void) {
	H s, g, same;
	if (DO(cuStreamCreate(&s, STREAM_NON_BLOCKING)))
		return;
	if (!DO(cuGraphCreate(&g, 0))) {
		enter_capture(BEGIN);
		int r = DO(cuStreamBeginCaptureToGraph(s, g, NULL, NULL, 0, CAPTURE_THREAD_LOCAL)), began = !r;
		leave_capture(BEGIN);
		if (began) {
			DO(cuMemsetD8Async(me->place->bytes, 1, 64, s));
			enter_capture(END);
			r = DO(cuStreamEndCapture(s, &same));
			leave_capture(END);
		}
		if (!began || !r) // a capture that fails at its end has destroyed the graph
			DO(cuGraphDestroy(g));
	}
	DO(cuStreamDestroy(s));
}
static void captures_of_two_contexts(void) { capture(me->stream, CAPTURE_THREAD_LOCAL, 0, me->elsewhere); }
static void other_sync(void) {
	DO(cuCtxSetCurrent(me->place->other));
	DO(cuCtxSynchronize());
	DO(cuCtxSetCurrent(me->place->ctx));
}
static void capture_queries(void) { // of streams that are created and destroyed meanwhile
	H s, g;
	int status;
	unsigned long long id;
	if (DO(cuStreamCreate(&s, STREAM_NON_BLOCKING)))
		return;
	DO(cuStreamIsCapturing(s, &status));
	DO(cuStreamIsCapturing(me->stream, &status));
	DO(cuStreamGetCaptureInfo_v2(s, &status, &id, &g, NULL, NULL));
	DO(cuStreamDestroy(s));
}
// A graph that threads share. Only one at a time makes calls on it, as CUDA requires; on its clones and executable
// graphs, which are one thread's, they make calls at any time.
static pthread_mutex_t sharing = PTHREAD_MUTEX_INITIALIZER;
static H clone_of_shared(void) {
	H clone = NULL;
	pthread_mutex_lock(&sharing);
	DO(cuGraphClone(&clone, me->place->shared));
	pthread_mutex_unlock(&sharing);
	return clone;
}
static H exec_of_shared(void) {
	H x = NULL;
	pthread_mutex_lock(&sharing);
	DO(cuGraphInstantiateWithFlags(&x, me->place->shared, 0));
	pthread_mutex_unlock(&sharing);
	return x;
}
static void destroy_alone(H graph, H exec) {
	pthread_mutex_lock(&sharing);
	if (graph)
		DO(cuGraphDestroy(graph));
	if (exec)
		DO(cuGraphExecDestroy(exec));
	pthread_mutex_unlock(&sharing);
}
static void clone_alone(void) { destroy_alone(clone_of_shared(), NULL); }
static void instantiate_alone(void) { destroy_alone(NULL, exec_of_shared()); }
static void nodes_of_shared(void) {
	size_t n = 0;
	pthread_mutex_lock(&sharing);
	DO(cuGraphGetNodes(me->place->shared, NULL, &n));
	pthread_mutex_unlock(&sharing);
}
static void update_with_shared(void) {
	H node;
	int info;
	if (!me->exec && !(me->exec = exec_of_shared()))
		return;
	pthread_mutex_lock(&sharing);
	DO(cuGraphExecUpdate(me->exec, me->place->shared, &node, &info));
	pthread_mutex_unlock(&sharing);
}
static void update_with_own(void) { // with a graph of another family
	H node;
	int info;
	if (me->exec || (me->exec = exec_of_shared()))
		DO(cuGraphExecUpdate(me->exec, me->graph, &node, &info));
}
static void destroy_clone(void) {
	H clone = clone_of_shared();
	if (clone)
		DO(cuGraphDestroy(clone));
}
static void destroy_exec(void) {
	H x = exec_of_shared();
	if (x)
		DO(cuGraphExecDestroy(x));
}
static void instantiate_clone(void) {
	H clone = clone_of_shared();
	if (clone)
		instantiate(clone);
	destroy_alone(clone, NULL);
}
static void clone_clone(void) {
	H clone = clone_of_shared(), again = NULL;
	if (clone && !DO(cuGraphClone(&again, clone)))
		DO(cuGraphDestroy(again));
	destroy_alone(clone, NULL);
}
static void pinned_memory(void) {
	void *p;
	if (!DO(cuMemHostAlloc(&p, 4096, 0)))
		DO(cuMemFreeHost(p));
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

// Calls that wait for the GPU, beside captures that another thread begins and ends once the call waits, and when it
// returns. So the captures meet no other part of the call.
static pthread_mutex_t one_waits = PTHREAD_MUTEX_INITIALIZER;
static atomic_int waits_are_over;
static void *capture_meanwhile(void *arg) {
	struct thread *waiting = arg;
	me = waiting->helper;
	DO(cuCtxSetCurrent(me->place->ctx));
	usleep(3000);
	for (int i = 0; i < 200 || !waits_are_over; i++) {
		capture(every(2) ? me->stream : me->blocking, CAPTURE_RELAXED, 0, NULL);
		me->turns++;
		if (i == 200)
			*waiting->word = waiting->word_next;
	}
	*waiting->word = waiting->word_next; // also if the call returned early
	return NULL;
}
static void *free_memory(void *arg) {
	me = arg;
	DO(cuCtxSetCurrent(me->place->ctx));
	D d;
	if (!DO(cuMemAlloc(&d, 64)))
		DO(cuMemFree(d)); // waits for the held stream
	return NULL;
}
enum waiting { CONTEXT, LEGACY, HELD_UP };
static void wait_beside_captures(enum waiting what) {
	pthread_t captures, frees;
	pthread_mutex_lock(&one_waits);
	waits_are_over = 0;
	if (DO(cuStreamWaitValue32(me->blocking, me->word_at, ++me->word_next, WAIT_GEQ)) ||
	    (what == HELD_UP && pthread_create(&frees, NULL, free_memory, me->helper->helper)) ||
	    pthread_create(&captures, NULL, capture_meanwhile, me))
		exit(3);
	if (what == HELD_UP)
		usleep(1000), DO(cuEventRecord(me->event, NULL));
	else if (what == LEGACY)
		DO(launch(NULL)), DO(cuStreamSynchronize(NULL)); // the launch waits for the blocking stream
	else
		DO(cuCtxSynchronize());
	waits_are_over = 1;
	pthread_join(captures, NULL);
	if (what == HELD_UP)
		pthread_join(frees, NULL);
	pthread_mutex_unlock(&one_waits);
}
static void waiting_sync(void) { wait_beside_captures(CONTEXT); }
static void waiting_legacy_sync(void) { wait_beside_captures(LEGACY); }
static void held_up_record(void) { wait_beside_captures(HELD_UP); }

static const struct op as[] = {
	{"cuCtxSynchronize that waits, with captures meanwhile", waiting_sync, 0},
	{"cuStreamSynchronize of the legacy stream that waits, with captures meanwhile", waiting_legacy_sync, 0},
	{"cuEventRecord on the legacy stream that cuMemFree holds up, with captures meanwhile", held_up_record, 0},
	{"cuCtxWaitEvent", ctx_wait, 0},
	{"cuCtxRecordEvent", ctx_record, 0},
	{"cuGreenCtxWaitEvent", green_wait, 1},
	{"cuGreenCtxRecordEvent", green_record, 1},
	{"cuStreamWaitEvent", stream_wait, 0},
	{"cuEventRecord", event_record, 0},
	{"cuCtxSynchronize", ctx_sync, 0},
	{"cuEventRecord on the legacy stream", legacy_record, 0},
	{"cuStreamWaitEvent on the legacy stream", legacy_wait, 0},
	{"cuLaunchKernel on the legacy stream", legacy_launch, 0},
	{"cuStreamQuery and cuStreamGetFlags of the legacy stream", legacy_query, 0},
	{"cuMemcpyHtoD, cuMemcpyDtoH and cuMemsetD8", copies, 0},
	{"cuStreamQuery and cuEventQuery", queries, 0},
	{"cuLaunchKernel and cuStreamQuery on a stream of a green context", green_work, 1},
	{"cuMemAlloc and cuMemFree", memory, 0},
	{"cuMemHostAlloc and cuMemFreeHost", pinned_memory, 0},
	{"cuModuleLoadData and cuModuleUnload", modules, 0},
	{"cuStreamCreate and cuStreamDestroy", streams, 0},
	{"cuGraphInstantiateWithFlags and cuGraphExecDestroy", graphs, 0},
	{"cuCtxSynchronize of another context", other_sync, 0},
	{"cuStreamIsCapturing and cuStreamGetCaptureInfo", capture_queries, 0},
	{"captures", captures, 0},
	{"captures of a memset", memset_captures, 0},
	{"captures into graphs", captures_into_graphs, 0},
	{"captures of two contexts", captures_of_two_contexts, 0},
	{"cuGraphDestroy of clones of one graph", destroy_clone, 0},
	{"cuGraphExecDestroy of executables of one graph", destroy_exec, 0},
	{"cuGraphInstantiateWithFlags of clones of one graph", instantiate_clone, 0},
	{"cuGraphClone and cuGraphDestroy of clones of clones of one graph", clone_clone, 0},
};
static const struct op bs[] = {
	{"captures", captures, 0},
	{"captures of blocking streams", blocking_captures, 0},
	{"captures of per-thread streams", per_thread_captures, 0},
	{"captures in global mode", global_captures, 0},
	{"captures in thread-local mode", local_captures, 0},
	{"captures that a blocking stream joins", joined_captures, 0},
	{"captures of nothing in global mode", empty_captures, 0},
	{"captures of nothing of blocking streams", empty_blocking_captures, 0},
	{"captures of streams of a green context", green_captures, 1},
	{"captures of a memset", memset_captures, 0},
	{"captures into graphs", captures_into_graphs, 0},
	{"captures of two contexts", captures_of_two_contexts, 0},
	{"cuStreamCreate and cuStreamDestroy", streams, 0},
	{"cuStreamCreate, cuLaunchKernel, cuEventRecord and cuStreamDestroy", used_streams, 0},
	{"cuStreamCreate, cuStreamWaitValue32 and cuStreamDestroy", held_streams, 0},
	{"cuGreenCtxCreate and cuGreenCtxDestroy", greens, 1},
	{"cuGreenCtxStreamCreate and cuStreamDestroy", green_streams, 1},
	{"cuGraphInstantiateWithFlags and cuGraphExecDestroy", graphs, 0},
	{"cuGraphInstantiateWithFlags and cuGraphExecDestroy of a graph with branches", branching_graphs, 0},
	{"cuModuleLoadData and cuModuleUnload", modules, 0},
	{"cuMemAlloc and cuMemFree", memory, 0},
	{"cuMemHostAlloc and cuMemFreeHost", pinned_memory, 0},
	{"cuCtxCreate and cuCtxDestroy of another context", other_contexts, 0},
	{"cuEventCreate and cuEventDestroy", events, 0},
	{"cuGraphDestroy of clones of this graph", destroy_clone, 0},
	{"cuGraphExecDestroy of executables of this graph", destroy_exec, 0},
	{"cuGraphClone of this graph", clone_alone, 0},
	{"cuGraphInstantiateWithFlags of this graph", instantiate_alone, 0},
	{"cuGraphExecUpdate with this graph", update_with_shared, 0},
	{"cuGraphExecUpdate of an executable of this graph with another graph", update_with_own, 0},
	{"cuGraphGetNodes of this graph", nodes_of_shared, 0},
	{"cuGraphInstantiateWithFlags of clones of this graph", instantiate_clone, 0},
	{"cuGraphClone and cuGraphDestroy of clones of clones of this graph", clone_clone, 0},
};
