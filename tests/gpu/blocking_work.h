// The second half of the cases of blocking.c: events, memory, kernels, graphs, and what comes from other processes.

// Events.
ROW(event_timed, "cuEventCreate, timed", 0, , cuEventCreate(&h, EVENT_TIMED))
ROW(event_untimed, "cuEventCreate, untimed", 0, , cuEventCreate(&h, EVENT_UNTIMED))
ROW(event_blocking, "cuEventCreate, blocking sync", 0, , cuEventCreate(&h, EVENT_UNTIMED | EVENT_BLOCKING_SYNC))
ROW(event_ipc, "cuEventCreate, interprocess", 0, , cuEventCreate(&h, EVENT_INTERPROCESS))
ROW(event_bare, "cuEventCreate, untimed, the first of the context", BARE, , cuEventCreate(&h, EVENT_UNTIMED))
CASE(event_timed_many, "cuEventCreate, timed, the Nth", 0) { MANY(1, 20000, 5, cuEventCreate(&h, EVENT_TIMED)); }
CASE(event_untimed_many, "cuEventCreate, untimed, the Nth", 0) {
	MANY(1, 20000, 5, cuEventCreate(&h, EVENT_UNTIMED));
}
CASE(event_ipc_many, "cuEventCreate, interprocess, the Nth", 0) {
	MANY(1, 2000, 5, cuEventCreate(&h, EVENT_INTERPROCESS));
}
CASE(event_used_many, "cuEventCreate and cuEventRecord on a free stream, the Nth", 0) {
	MANY(1, 20000, 5, cuEventCreate(&h, EVENT_TIMED) || cuEventRecord(h, idle));
}
ROW(event_destroy, "cuEventDestroy, never recorded", 0, h = new_event(EVENT_TIMED), cuEventDestroy(h))
ROW(event_destroy_done, "cuEventDestroy, complete", 0, h = finished(EVENT_TIMED), cuEventDestroy(h))
ROW(event_destroy_pending, "cuEventDestroy, pending", 0, h = pending(EVENT_TIMED), cuEventDestroy(h))
ROW(event_destroy_waited, "cuEventDestroy, pending, a stream waits for it", 0,
    h = pending(EVENT_UNTIMED); ok(cuStreamWaitEvent(idle, h, 0)), cuEventDestroy(h))
ROW(event_destroy_ipc, "cuEventDestroy, interprocess, pending", 0, h = pending(EVENT_INTERPROCESS), cuEventDestroy(h))
CASE(event_destroy_many, "cuEventDestroy, complete, the Nth of 10000", 0) {
	for (int i = 0; i < 10000; i++)
		hs[i] = new_event(EVENT_TIMED), ok(cuEventRecord(hs[i], idle));
	MANY(1, 10000, 5, cuEventDestroy(hs[many.at - 1]));
}
ROW(record, "cuEventRecord, free stream", 0, h = new_event(EVENT_TIMED), cuEventRecord(h, idle))
ROW(record_bare, "cuEventRecord, free stream, the first of the context", BARE,
    h = new_event(EVENT_TIMED), cuEventRecord(h, idle))
ROW(record_pending, "cuEventRecord, free stream, event pending on the held one", 0,
    h = pending(EVENT_TIMED), cuEventRecord(h, idle))
ROW(record_held, "cuEventRecord, held stream", 0, h = new_event(EVENT_TIMED), cuEventRecord(h, held))
ROW(record_legacy, "cuEventRecord, legacy stream", 0, h = new_event(EVENT_TIMED), cuEventRecord(h, NULL))
ROW(record_ipc, "cuEventRecord, free stream, interprocess", 0,
    h = new_event(EVENT_INTERPROCESS), cuEventRecord(h, idle))
CASE(record_many, "cuEventRecord, free stream, the Nth", 0) {
	h = new_event(EVENT_TIMED);
	MANY(1, 20000, 3, cuEventRecord(h, idle));
}
ROW(record_flags, "cuEventRecordWithFlags, free stream", 0,
    h = new_event(EVENT_TIMED), cuEventRecordWithFlags(h, idle, 0))
ROW(record_external, "cuEventRecordWithFlags, external, free stream, no capture", 0,
    h = new_event(EVENT_TIMED), cuEventRecordWithFlags(h, idle, RECORD_EXTERNAL))
ROW(event_query, "cuEventQuery, complete", 0, h = finished(EVENT_TIMED), cuEventQuery(h))
ROW(event_query_pending, "cuEventQuery, pending", 0, h = pending(EVENT_TIMED), cuEventQuery(h))
ROW(event_sync, "cuEventSynchronize, complete", 0, h = finished(EVENT_TIMED), cuEventSynchronize(h))
ROW(event_sync_pending, "cuEventSynchronize, pending", 0, h = pending(EVENT_TIMED), cuEventSynchronize(h))
ROW(event_sync_blocking, "cuEventSynchronize, pending, blocking sync", 0,
    h = pending(EVENT_UNTIMED | EVENT_BLOCKING_SYNC), cuEventSynchronize(h))
ROW(elapsed, "cuEventElapsedTime, complete", 0, h = finished(EVENT_TIMED), cuEventElapsedTime(&ms, h, h))
ROW(elapsed2, "cuEventElapsedTime_v2, complete", 0, h = finished(EVENT_TIMED), cuEventElapsedTime_v2(&ms, h, h))
ROW(elapsed_pending, "cuEventElapsedTime, pending", 0, h = pending(EVENT_TIMED), cuEventElapsedTime(&ms, h, h))

// Calls on the held stream itself, until its queue is full.
CASE(full_record, "cuEventRecord, timed, held stream, the Nth", 0) {
	h = new_event(EVENT_TIMED);
	MANY(1, 50000, 1, cuEventRecord(h, held));
}
CASE(full_record_untimed, "cuEventRecord, untimed, held stream, the Nth", 0) {
	h = new_event(EVENT_UNTIMED);
	MANY(1, 50000, 1, cuEventRecord(h, held));
}
CASE(full_wait, "cuStreamWaitEvent, held stream, the Nth", 0) {
	h = pending(EVENT_UNTIMED);
	MANY(1, 50000, 1, cuStreamWaitEvent(held, h, 0));
}
CASE(full_launch, "cuLaunchKernel, held stream, the Nth", 0) { MANY(1, 50000, 1, launch(small, held, NULL)); }
CASE(full_write, "cuStreamWriteValue32, held stream, the Nth", 0) {
	d = new_mem(64);
	MANY(1, 50000, 1, cuStreamWriteValue32(held, d, 1, 0));
}
CASE(full_host, "cuLaunchHostFunc, held stream, the Nth", 0) {
	MANY(1, 50000, 1, cuLaunchHostFunc(held, nothing, NULL));
}
CASE(full_set, "cuMemsetD8Async, held stream, the Nth", 0) {
	d = new_mem(64);
	MANY(1, 50000, 1, cuMemsetD8Async(d, 1, 64, held));
}
CASE(full_set16, "cuMemsetD16Async, held stream, the Nth", 0) {
	d = new_mem(64);
	MANY(1, 50000, 1, cuMemsetD16Async(d, 1, 32, held));
}
CASE(full_graph, "cuGraphLaunch, held stream, the Nth", 0) {
	h = executable(kernel_graph());
	MANY(1, 50000, 1, cuGraphLaunch(h, held));
}
// Calls on the held stream when its queue is full: 1020 launches fit, where the wait that holds it is one more entry.
#define FULL(name, text, setup, call) \
	ROW(full_then_##name, text ", held stream with 1020 launches", 0, setup; fill(), call)
static void fill(void) {
	if (!is_held)
		hold();
	for (int i = 0; i < 1020; i++)
		ok(launch(small, held, NULL));
}
FULL(record, "cuEventRecord, untimed", h = new_event(EVENT_UNTIMED), cuEventRecord(h, held))
FULL(record_timed, "cuEventRecord, timed", h = new_event(EVENT_TIMED), cuEventRecord(h, held))
FULL(wait, "cuStreamWaitEvent, event pending", h = pending(EVENT_UNTIMED), cuStreamWaitEvent(held, h, 0))
FULL(host, "cuLaunchHostFunc", , cuLaunchHostFunc(held, nothing, NULL))
FULL(write, "cuStreamWriteValue32", d = new_mem(64), cuStreamWriteValue32(held, d, 1, 0))
FULL(query, "cuStreamQuery", , cuStreamQuery(held))
FULL(ctx, "cuCtxRecordEvent, untimed", h = new_event(EVENT_UNTIMED), cuCtxRecordEvent(ctx, h))
FULL(ctx_timed, "cuCtxRecordEvent, timed", h = new_event(EVENT_TIMED), cuCtxRecordEvent(ctx, h))
FULL(destroy, "cuStreamDestroy", , cuStreamDestroy(held))
CASE(full_free_wait, "cuStreamWaitEvent, free stream, event pending, the Nth", 0) {
	h = pending(EVENT_UNTIMED);
	MANY(1, 50000, 1, cuStreamWaitEvent(idle, h, 0));
}

// Memory.
ROW(mem_info, "cuMemGetInfo", 0, , cuMemGetInfo(&z1, &z2))
ROW(mem_alloc, "cuMemAlloc, 64 bytes", 0, , cuMemAlloc(&d, 64))
ROW(mem_alloc_bare, "cuMemAlloc, 64 bytes, the first of the context", BARE, , cuMemAlloc(&d, 64))
ROW(mem_alloc_big, "cuMemAlloc, 1 GiB", 0, , cuMemAlloc(&d, 1 << 30))
ROW(mem_alloc_none, "cuMemAlloc, more than there is", 0, , cuMemAlloc(&d, (size_t)1 << 42))
CASE(mem_alloc_many, "cuMemAlloc, 64 bytes, the Nth", 0) { MANY(1, 20000, 5, cuMemAlloc(&d, 64)); }
CASE(mem_alloc_many2, "cuMemAlloc, 2 MiB, the Nth", 0) { MANY(1, 1000, 5, cuMemAlloc(&d, 2 << 20)); }
ROW(mem_free, "cuMemFree of memory from cuMemAlloc, 1 MiB", 0, d = new_mem(1 << 20), cuMemFree(d))
ROW(mem_free_small, "cuMemFree of memory from cuMemAlloc, 64 bytes, others beside it", 0,
    d = new_mem(64); d2 = new_mem(64), cuMemFree(d))
ROW(mem_free_big, "cuMemFree of memory from cuMemAlloc, 1 GiB", 0, d = new_mem(1 << 30), cuMemFree(d))
ROW(mem_free_eager, "cuMemFree of memory from cuMemAlloc, CUDA_MODULE_LOADING=EAGER", EAGER,
    d = new_mem(1 << 20), cuMemFree(d))
ROW(mem_free_created, "cuMemFree of memory from cuMemAlloc, a created context", CREATED,
    d = new_mem(1 << 20), cuMemFree(d))
ROW(mem_free_null, "cuMemFree of 0", 0, , cuMemFree(0))
ROW(mem_free_while, "cuMemFree of memory from cuMemAlloc while held", 0, hold(); d = new_mem(1 << 20), cuMemFree(d))
ROW(mem_free_spin, "cuMemFree of memory from cuMemAlloc, a kernel that spins holds the stream", 0,
    d = new_mem(1 << 20); hold_in(ctx, held, function(load_module(ptx), "spin")), cuMemFree(d))
CASE(mem_free_default, "cuMemFree of memory from cuMemAlloc, the held stream is not non-blocking", 0) {
	d = new_mem(1 << 20);
	hold_in(ctx, new_stream(STREAM_DEFAULT), NULL);
	CALL(cuMemFree(d));
}
ROW(mem_free_legacy, "cuMemFree of memory from cuMemAlloc, the legacy stream is held", 0,
    d = new_mem(1 << 20); hold_in(ctx, NULL, NULL), cuMemFree(d))
ROW(mem_free_other, "cuMemFree of memory from cuMemAlloc of another context, current", 0,
    h = new_context(); in(h); d = new_mem(1 << 20); in(ctx); hold(); in(h), cuMemFree(d))
ROW(mem_free_across, "cuMemFree of memory of a context without a held stream, the held one's is current", 0,
    h = new_context(); in(h); d = new_mem(1 << 20); in(ctx), cuMemFree(d))
ROW(mem_free_across2, "cuMemFree of memory of the context with the held stream, another is current", 0,
    d = new_mem(1 << 20); h = new_context(); hold(); in(h), cuMemFree(d))
ROW(mem_free_far, "cuMemFree of memory of another device", 0,
    in(far_context()); d = new_mem(1 << 20); in(ctx), cuMemFree(d))
ROW(async_alloc, "cuMemAllocAsync, free stream, the first", 0, , cuMemAllocAsync(&d, 1 << 20, idle))
ROW(async_alloc2, "cuMemAllocAsync, free stream, 1 GiB, not the first", 0,
    ok(cuMemAllocAsync(&d, 64, idle)), cuMemAllocAsync(&d, 1 << 30, idle))
CASE(async_alloc_many, "cuMemAllocAsync, free stream, the Nth", 0) {
	MANY(1, 5000, 3, cuMemAllocAsync(&d, 64, idle));
}
ROW(async_free, "cuMemFreeAsync of memory from cuMemAllocAsync, free stream", 0,
    ok(cuMemAllocAsync(&d, 1 << 20, idle)), cuMemFreeAsync(d, idle))
ROW(async_free_sync, "cuMemFreeAsync of memory from cuMemAlloc, free stream", 0,
    d = new_mem(1 << 20), cuMemFreeAsync(d, idle))
ROW(async_free_held, "cuMemFreeAsync of memory from cuMemAlloc, held stream", 0,
    d = new_mem(1 << 20), cuMemFreeAsync(d, held))
ROW(async_free_big, "cuMemFreeAsync of memory from cuMemAlloc, 1 GiB, free stream", 0,
    d = new_mem(1 << 30), cuMemFreeAsync(d, idle))
CASE(async_free_many, "cuMemFreeAsync of memory from cuMemAlloc, free stream, the Nth of 500", 0) {
	static D ds[500];
	for (int i = 0; i < 500; i++)
		ds[i] = new_mem(2 << 20);
	MANY(1, 500, 3, cuMemFreeAsync(ds[many.at - 1], idle));
}
ROW(sync_free_async, "cuMemFree of memory from cuMemAllocAsync", 0,
    ok(cuMemAllocAsync(&d, 1 << 20, idle)); ok(cuStreamSynchronize(idle)), cuMemFree(d))
ROW(host_alloc, "cuMemHostAlloc, 4 KiB", 0, , cuMemHostAlloc((void **)&h, 4096, 0))
ROW(host_alloc_bare, "cuMemHostAlloc, 4 KiB, the first of the context", BARE, , cuMemHostAlloc((void **)&h, 4096, 0))
ROW(host_alloc_flags, "cuMemHostAlloc, 4 KiB, portable and mapped", 0, ,
    cuMemHostAlloc((void **)&h, 4096, HOST_PORTABLE | HOST_MAPPED))
ROW(host_alloc_big, "cuMemHostAlloc, 256 MiB", 0, , cuMemHostAlloc((void **)&h, 256 << 20, 0))
CASE(host_alloc_many, "cuMemHostAlloc, 4 KiB, the Nth", 0) { MANY(1, 3000, 3, cuMemHostAlloc((void **)&h, 4096, 0)); }
ROW(host_free, "cuMemFreeHost, never used", 0, h = new_host(1 << 20, 0), cuMemFreeHost(h))
ROW(host_free_used, "cuMemFreeHost, used", 0,
    h = new_host(1 << 20, 0); ok(cuMemcpyHtoD(new_mem(1 << 20), h, 1 << 20)), cuMemFreeHost(h))
ROW(host_free_flags, "cuMemFreeHost, portable and mapped", 0,
    h = new_host(4096, HOST_PORTABLE | HOST_MAPPED), cuMemFreeHost(h))
ROW(host_free_small, "cuMemFreeHost, 64 bytes, others beside it", 0,
    h = new_host(64, 0); h2 = new_host(64, 0), cuMemFreeHost(h))
ROW(host_free_combined, "cuMemFreeHost, write-combined", 0,
    h = new_host(1 << 20, HOST_WRITECOMBINED), cuMemFreeHost(h))
ROW(host_free_spin, "cuMemFreeHost, a kernel that spins holds the stream", 0,
    h = new_host(4096, 0); hold_in(ctx, held, function(load_module(ptx), "spin")), cuMemFreeHost(h))
ROW(host_free_other, "cuMemFreeHost of memory of another context, current", 0,
    h = new_context(); in(h); h2 = new_host(4096, 0); in(ctx); hold(); in(h), cuMemFreeHost(h2))
ROW(host_register, "cuMemHostRegister", 0, h = new_pages(1 << 20), cuMemHostRegister(h, 1 << 20, HOST_MAPPED))
CASE(host_register_many, "cuMemHostRegister, the Nth", 0) {
	char *p = new_pages(500 * 4096);
	MANY(1, 500, 3, cuMemHostRegister(p + (size_t)(many.at - 1) * 4096, 4096, HOST_MAPPED));
}
ROW(host_unregister, "cuMemHostUnregister", 0,
    h = new_pages(1 << 20); ok(cuMemHostRegister(h, 1 << 20, HOST_MAPPED)), cuMemHostUnregister(h))
ROW(host_unregister_other, "cuMemHostUnregister of memory of another context, current", 0,
    h = new_context(); in(h); h2 = new_pages(4096); ok(cuMemHostRegister(h2, 4096, 0)); in(ctx); hold(); in(h),
    cuMemHostUnregister(h2))
ROW(host_pointer, "cuMemHostGetDevicePointer", 0,
    h = new_host(4096, HOST_MAPPED), cuMemHostGetDevicePointer(&d, h, 0))
ROW(host_flags, "cuMemHostGetFlags", 0, h = new_host(4096, HOST_MAPPED), cuMemHostGetFlags(&u1, h))
ROW(pointer, "cuPointerGetAttribute", 0, d = new_mem(64), cuPointerGetAttribute(&h, 1, d))
ROW(pointers, "cuPointerGetAttributes", 0, d = new_mem(64), cuPointerGetAttributes(1, (int[]){1}, (void *[]){&h}, d))

ROW(address_range, "cuMemGetAddressRange", 0, d = new_mem(64), cuMemGetAddressRange(&d2, &z1, d))

// Pools of memory.
static H new_pool(int handles) {
	PoolProps props = {1, handles, {1, dev}, NULL, 0, {0}};
	H p;
	ok(cuMemPoolCreate(&p, &props));
	return p;
}
static D new_pooled(H pool, H stream) {
	D at;
	ok(cuMemAllocFromPoolAsync(&at, 1 << 20, pool, stream));
	return at;
}
static unsigned long long all_memory = ~0ull;
#define KEEPS(pool) ok(cuMemPoolSetAttribute(pool, 4, &all_memory))
ROW(pool_default, "cuDeviceGetDefaultMemPool", 0, , cuDeviceGetDefaultMemPool(&h, dev))
ROW(pool_current, "cuDeviceGetMemPool", 0, , cuDeviceGetMemPool(&h, dev))
ROW(pool_set_current, "cuDeviceSetMemPool", 0, h = new_pool(0), cuDeviceSetMemPool(dev, h))
CASE(pool_create, "cuMemPoolCreate", 0) {
	static PoolProps props = {1, 0, {1, 0}, NULL, 0, {0}};
	CALL(cuMemPoolCreate(&h, &props));
}
ROW(pool_destroy, "cuMemPoolDestroy, never used", 0, h = new_pool(0), cuMemPoolDestroy(h))
ROW(pool_destroy_free, "cuMemPoolDestroy, with memory that is free", 0,
    h = new_pool(0); KEEPS(h); ok(cuMemFreeAsync(new_pooled(h, idle), idle)); ok(cuStreamSynchronize(idle)),
    cuMemPoolDestroy(h))
ROW(pool_destroy_used, "cuMemPoolDestroy, with allocated memory", 0,
    h = new_pool(0); new_pooled(h, idle), cuMemPoolDestroy(h))
ROW(pool_destroy_held, "cuMemPoolDestroy, with a free on the held stream", 0,
    h = new_pool(0); d = new_pooled(h, held); hold(); ok(cuMemFreeAsync(d, held)), cuMemPoolDestroy(h))
ROW(pool_trim, "cuMemPoolTrimTo, with memory that is free", 0,
    h = new_pool(0); KEEPS(h); ok(cuMemFreeAsync(new_pooled(h, idle), idle)); ok(cuStreamSynchronize(idle)),
    cuMemPoolTrimTo(h, 0))
ROW(pool_trim_held, "cuMemPoolTrimTo, with a free on the held stream", 0,
    h = new_pool(0); d = new_pooled(h, held); hold(); ok(cuMemFreeAsync(d, held)), cuMemPoolTrimTo(h, 0))
ROW(pool_attribute, "cuMemPoolGetAttribute", 0, h = new_pool(0), cuMemPoolGetAttribute(h, 5, &l1))
ROW(pool_set_attribute, "cuMemPoolSetAttribute, threshold", 0,
    h = new_pool(0), cuMemPoolSetAttribute(h, 4, &all_memory))
ROW(pool_set_less, "cuMemPoolSetAttribute, threshold, less", 0,
    h = new_pool(0); KEEPS(h); ok(cuMemFreeAsync(new_pooled(h, idle), idle)); ok(cuStreamSynchronize(idle)),
    cuMemPoolSetAttribute(h, 4, &(unsigned long long){0}))
ROW(pool_get_access, "cuMemPoolGetAccess", 0, h = new_pool(0), cuMemPoolGetAccess(&i1, h, &(Location){1, dev}))
#define ACCESS(device, flags) cuMemPoolSetAccess(h, &(Access){{1, device}, flags}, 1)
ROW(pool_set_access, "cuMemPoolSetAccess, of its own device", 0, h = new_pool(0); new_pooled(h, idle), ACCESS(dev, 3))
ROW(pool_set_access_held, "cuMemPoolSetAccess, of its own device, memory in use", 0,
    h = new_pool(0); d = new_pooled(h, held); hold(); ok(cuMemsetD8Async(d, 1, 64, held)), ACCESS(dev, 3))
ROW(pool_set_access_far, "cuMemPoolSetAccess, of another device", 0,
    second_device(); h = new_pool(0); new_pooled(h, idle), ACCESS(1, 3))
ROW(pool_set_access_used, "cuMemPoolSetAccess, of another device, memory in use", 0,
    second_device(); h = new_pool(0); d = new_pooled(h, held); hold(); ok(cuMemsetD8Async(d, 1, 64, held)),
    ACCESS(1, 3))
ROW(pool_set_access_none, "cuMemPoolSetAccess, of another device, none any more, memory in use", 0,
    second_device(); h = new_pool(0); ok(ACCESS(1, 3)); d = new_pooled(h, held); hold();
    ok(cuMemsetD8Async(d, 1, 64, held)), ACCESS(1, 0))
ROW(pool_alloc, "cuMemAllocFromPoolAsync, free stream, the first", 0,
    h = new_pool(0), cuMemAllocFromPoolAsync(&d, 1 << 20, h, idle))
ROW(pool_alloc_held, "cuMemAllocFromPoolAsync, held stream", 0,
    h = new_pool(0), cuMemAllocFromPoolAsync(&d, 1 << 20, h, held))
ROW(pool_alloc_again, "cuMemAllocFromPoolAsync, held stream, after a free on it", 0,
    h = new_pool(0); d = new_pooled(h, held); hold(); ok(cuMemFreeAsync(d, held)),
    cuMemAllocFromPoolAsync(&d, 1 << 20, h, held))
ROW(pool_alloc_other, "cuMemAllocFromPoolAsync, free stream, after a free on the held one", 0,
    h = new_pool(0); d = new_pooled(h, held); hold(); ok(cuMemFreeAsync(d, held)),
    cuMemAllocFromPoolAsync(&d, 1 << 20, h, idle))
CASE(pool_alloc_many, "cuMemAllocFromPoolAsync, held stream, the Nth", 0) {
	h = new_pool(0);
	MANY(1, 1100, 1, cuMemAllocFromPoolAsync(&d, 64, h, held));
}
ROW(pool_free_held, "cuMemFreeAsync of memory of a pool, held stream", 0,
    d = new_pooled(new_pool(0), held), cuMemFreeAsync(d, held))
CASE(pool_free_many, "cuMemFreeAsync of memory of a pool, held stream, the Nth", 0) {
	static D ds[1100];
	h = new_pool(0);
	for (int i = 0; i < 1100; i++)
		ds[i] = new_pooled(h, held);
	ok(cuStreamSynchronize(held));
	MANY(1, 1100, 1, cuMemFreeAsync(ds[many.at - 1], held));
}
CASE(pool_free_full, "cuMemFreeAsync of memory of a pool, held stream with 1020 launches", 0) {
	d = new_pooled(new_pool(0), held);
	hold();
	for (int i = 0; i < 1020; i++)
		ok(launch(small, held, NULL));
	CALL(cuMemFreeAsync(d, held));
}
ROW(pool_free_sync, "cuMemFree of memory of a pool that the held stream uses", 0,
    d = new_pooled(new_pool(0), held); hold(); ok(cuMemsetD8Async(d, 1, 64, held)), cuMemFree(d))
ROW(pool_export, "cuMemPoolExportToShareableHandle", 0,
    h = new_pool(1), cuMemPoolExportToShareableHandle(&i1, h, 1, 0))
// own_pool is a pool that was exported, own_pool_mem memory of it, and opened_pool the same pool by its file.
static int own_pool_file;
static H own_pool(void) {
	H p = new_pool(1);
	ok(cuMemPoolExportToShareableHandle(&own_pool_file, p, 1, 0));
	return p;
}
static D own_pool_mem(void) {
	D at = new_pooled(own_pool(), idle);
	ok(cuStreamSynchronize(idle));
	return at;
}
static H imported(int file) {
	H p;
	ok(cuMemPoolImportFromShareableHandle(&p, (void *)(uintptr_t)file, 1, 0));
	return p;
}
static H opened_pool(void) {
	ok(cuMemPoolExportPointer(&ipc[SHARED_POOL_MEM], own_pool_mem()));
	return imported(own_pool_file);
}
// shared_pool is the other process's pool, and shared_mem memory of it.
static H shared_pool(void) {
	shared(ipc);
	return imported(pool_file);
}
static D shared_mem(void) {
	D at;
	h = shared_pool();
	ok(cuMemPoolImportPointer(&at, h, &ipc[SHARED_POOL_MEM]));
	return at;
}
CASE(pool_import, "cuMemPoolImportFromShareableHandle", 0) {
	own_pool();
	CALL(cuMemPoolImportFromShareableHandle(&h, (void *)(uintptr_t)own_pool_file, 1, 0));
}
CASE(pool_import_other, "cuMemPoolImportFromShareableHandle, of another process", POOL) {
	shared(ipc);
	CALL(cuMemPoolImportFromShareableHandle(&h, (void *)(uintptr_t)pool_file, 1, 0));
}
ROW(pool_export_pointer, "cuMemPoolExportPointer, a pool that was not exported", 0,
    d = new_pooled(new_pool(1), idle), cuMemPoolExportPointer(ipc, d))
ROW(pool_export_pointer2, "cuMemPoolExportPointer, a pool that was exported", 0, d = own_pool_mem(),
    cuMemPoolExportPointer(ipc, d))
ROW(pool_export_pointer3, "cuMemPoolExportPointer, memory in use", 0,
    d = own_pool_mem(); hold(); ok(cuMemsetD8Async(d, 1, 64, held)), cuMemPoolExportPointer(ipc, d))
ROW(pool_import_pointer, "cuMemPoolImportPointer, of this process", 0, h = opened_pool(),
    cuMemPoolImportPointer(&d, h, &ipc[SHARED_POOL_MEM]))
ROW(pool_import_pointer2, "cuMemPoolImportPointer, of another process", POOL, h = shared_pool(),
    cuMemPoolImportPointer(&d, h, &ipc[SHARED_POOL_MEM]))
ROW(pool_import_pointer3, "cuMemPoolImportPointer, of another process, not the first", POOL, shared_mem(),
    cuMemPoolImportPointer(&d, h, &ipc[SHARED_POOL_MEM]))
ROW(pool_import_access, "cuMemPoolSetAccess, of its own device, an imported pool", POOL, shared_mem(), ACCESS(dev, 3))
ROW(pool_import_get, "cuMemPoolGetAccess, an imported pool", POOL, h = shared_pool(),
    cuMemPoolGetAccess(&i1, h, &(Location){1, dev}))
ROW(pool_import_free, "cuMemFreeAsync of memory of an imported pool, free stream", POOL, d = shared_mem(),
    cuMemFreeAsync(d, idle))
ROW(pool_import_free_held, "cuMemFreeAsync of memory of an imported pool, held stream that uses it", POOL,
    d = shared_mem(); hold(); ok(cuMemsetD8Async(d, 1, 64, held)), cuMemFreeAsync(d, held))
ROW(pool_import_free_sync, "cuMemFree of memory of an imported pool that the held stream uses", POOL,
    d = shared_mem(); hold(); ok(cuMemsetD8Async(d, 1, 64, held)), cuMemFree(d))
ROW(pool_import_destroy, "cuMemPoolDestroy, an imported pool", POOL, h = shared_pool(), cuMemPoolDestroy(h))
ROW(pool_import_destroy_used, "cuMemPoolDestroy, an imported pool, with memory", POOL, shared_mem(),
    cuMemPoolDestroy(h))
ROW(pool_import_destroy_held, "cuMemPoolDestroy, an imported pool, with a free on the held stream", POOL,
    d = shared_mem(); hold(); ok(cuMemsetD8Async(d, 1, 64, held)); ok(cuMemFreeAsync(d, held)), cuMemPoolDestroy(h))
ROW(reset_l2, "cuCtxResetPersistingL2Cache", 0, , cuCtxResetPersistingL2Cache())
ROW(profile, "cuProfilerStart", 0, , cuProfilerStart())
ROW(profile_end, "cuProfilerStop", 0, ok(cuProfilerStart()), cuProfilerStop())

// Virtual memory.
#define VIRTUAL_SIZE ((size_t)2 << 20)
static PhysicalProps physical_props = {1, 1, {1, 0}, NULL, {0}};
static unsigned long long new_physical(void) {
	unsigned long long p;
	ok(cuMemCreate(&p, VIRTUAL_SIZE, &physical_props, 0));
	return p;
}
static D new_range(void) {
	D at;
	ok(cuMemAddressReserve(&at, 4 * VIRTUAL_SIZE, 0, 0, 0));
	return at;
}
static D new_mapping(void) {
	D at = new_range();
	ok(cuMemMap(at, VIRTUAL_SIZE, 0, new_physical(), 0));
	ok(cuMemSetAccess(at, VIRTUAL_SIZE, &(Access){{1, dev}, 3}, 1));
	return at;
}
#define USED(at) (ok(cuMemsetD8Async(at, 1, 64, idle)), ok(cuStreamSynchronize(idle)))
ROW(virtual_granularity, "cuMemGetAllocationGranularity", 0, ,
    cuMemGetAllocationGranularity(&z1, &physical_props, 0))
ROW(virtual_reserve, "cuMemAddressReserve", 0, , cuMemAddressReserve(&d, VIRTUAL_SIZE, 0, 0, 0))
ROW(virtual_address_free, "cuMemAddressFree", 0, d = new_range(), cuMemAddressFree(d, 4 * VIRTUAL_SIZE))
ROW(virtual_create, "cuMemCreate, 2 MiB", 0, , cuMemCreate(&l1, VIRTUAL_SIZE, &physical_props, 0))
ROW(virtual_create_big, "cuMemCreate, 1 GiB", 0, , cuMemCreate(&l1, 512 * VIRTUAL_SIZE, &physical_props, 0))
ROW(virtual_create_none, "cuMemCreate, more than there is", 0, , cuMemCreate(&l1, (size_t)1 << 42, &physical_props, 0))
ROW(virtual_props, "cuMemGetAllocationPropertiesFromHandle", 0, l1 = new_physical(),
    cuMemGetAllocationPropertiesFromHandle(&(PhysicalProps){0}, l1))
ROW(virtual_release, "cuMemRelease, not mapped", 0, l1 = new_physical(), cuMemRelease(l1))
ROW(virtual_release_mapped, "cuMemRelease, mapped and used", 0,
    l1 = new_physical(); d = new_range(); ok(cuMemMap(d, VIRTUAL_SIZE, 0, l1, 0));
    ok(cuMemSetAccess(d, VIRTUAL_SIZE, &(Access){{1, dev}, 3}, 1)); USED(d), cuMemRelease(l1))
ROW(virtual_map, "cuMemMap", 0, l1 = new_physical(); d = new_range(), cuMemMap(d, VIRTUAL_SIZE, 0, l1, 0))
ROW(virtual_access, "cuMemSetAccess, new mapping", 0,
    d = new_range(); ok(cuMemMap(d, VIRTUAL_SIZE, 0, new_physical(), 0)), cuMemSetAccess(d, VIRTUAL_SIZE, &(Access){{1, dev}, 3}, 1))
ROW(virtual_access_less, "cuMemSetAccess, used memory, less access", 0,
    d = new_mapping(); USED(d), cuMemSetAccess(d, VIRTUAL_SIZE, &(Access){{1, dev}, 1}, 1))
ROW(virtual_get_access, "cuMemGetAccess", 0, d = new_mapping(), cuMemGetAccess(&l1, &(Location){1, dev}, d))
ROW(virtual_unmap, "cuMemUnmap, never used", 0, d = new_mapping(), cuMemUnmap(d, VIRTUAL_SIZE))
ROW(virtual_unmap_used, "cuMemUnmap, used", 0, d = new_mapping(); USED(d), cuMemUnmap(d, VIRTUAL_SIZE))
ROW(virtual_unmap_frees, "cuMemUnmap, used, of memory that was released", 0,
    l1 = new_physical(); d = new_range(); ok(cuMemMap(d, VIRTUAL_SIZE, 0, l1, 0));
    ok(cuMemSetAccess(d, VIRTUAL_SIZE, &(Access){{1, dev}, 3}, 1)); USED(d); ok(cuMemRelease(l1)),
    cuMemUnmap(d, VIRTUAL_SIZE))
CASE(virtual_unmap_many, "cuMemUnmap, used, the Nth", 0) {
	static D ds[300];
	for (int i = 0; i < 300; i++) {
		ds[i] = new_mapping();
		USED(ds[i]);
	}
	MANY(1, 300, 3, cuMemUnmap(ds[many.at - 1], VIRTUAL_SIZE));
}
ROW(virtual_export, "cuMemExportToShareableHandle", 0, l1 = new_physical(), cuMemExportToShareableHandle(&i1, l1, 1, 0))
ROW(virtual_import, "cuMemImportFromShareableHandle", 0,
    ok(cuMemExportToShareableHandle(&i1, new_physical(), 1, 0)),
    cuMemImportFromShareableHandle(&l1, (void *)(uintptr_t)i1, 1))
ROW(virtual_retain, "cuMemRetainAllocationHandle", 0,
    d = new_mapping(), cuMemRetainAllocationHandle(&l1, (void *)(uintptr_t)d))

// Memory and semaphores of other APIs. The driver imports a file of cuMemCreate as either. It is no semaphore: nothing
// may signal it or wait for it.
enum { OPAQUE_FD = 1, TIMELINE_FD = 9 };
static int memory_file(void) {
	int fd;
	ok(cuMemExportToShareableHandle(&fd, new_physical(), 1, 0));
	return fd;
}
static ExternalMem external_desc(void) {
	return (ExternalMem){.type = OPAQUE_FD, .handle.file = memory_file(), .size = VIRTUAL_SIZE};
}
static H new_external(void) {
	ExternalMem desc = external_desc();
	H m;
	ok(cuImportExternalMemory(&m, &desc));
	return m;
}
static ExternalRange whole_range = {.size = VIRTUAL_SIZE};
static D external_buffer(H m) {
	D at;
	ok(cuExternalMemoryGetMappedBuffer(&at, m, &whole_range));
	return at;
}
static H new_external_sem(int type) {
	ExternalSem desc = {.type = type, .handle.file = memory_file()};
	H s;
	ok(cuImportExternalSemaphore(&s, &desc));
	return s;
}
CASE(external_import, "cuImportExternalMemory", 0) {
	static ExternalMem desc;
	desc = external_desc();
	CALL(cuImportExternalMemory(&h, &desc));
}
ROW(external_map, "cuExternalMemoryGetMappedBuffer", 0, h = new_external(),
    cuExternalMemoryGetMappedBuffer(&d, h, &whole_range))
ROW(external_free, "cuMemFree of memory from cuExternalMemoryGetMappedBuffer, never used", 0,
    d = external_buffer(new_external()), cuMemFree(d))
ROW(external_free_used, "cuMemFree of memory from cuExternalMemoryGetMappedBuffer, used", 0,
    d = external_buffer(new_external()); USED(d), cuMemFree(d))
ROW(external_free_late, "cuMemFree of memory from cuExternalMemoryGetMappedBuffer, after cuDestroyExternalMemory", 0,
    h = new_external(); d = external_buffer(h); USED(d); ok(cuDestroyExternalMemory(h)), cuMemFree(d))
ROW(external_free_async, "cuMemFreeAsync of memory from cuExternalMemoryGetMappedBuffer, free stream", 0,
    d = external_buffer(new_external()), cuMemFreeAsync(d, idle))
ROW(external_destroy, "cuDestroyExternalMemory, never mapped", 0, h = new_external(), cuDestroyExternalMemory(h))
ROW(external_destroy_mapped, "cuDestroyExternalMemory, mapped and used", 0,
    h = new_external(); d = external_buffer(h); USED(d), cuDestroyExternalMemory(h))
ROW(external_destroy_last, "cuDestroyExternalMemory, after cuMemFree of its memory", 0,
    h = new_external(); d = external_buffer(h); USED(d); ok(cuMemFree(d)), cuDestroyExternalMemory(h))
CASE(external_sem_import, "cuImportExternalSemaphore, binary", 0) {
	static ExternalSem desc = {.type = OPAQUE_FD};
	desc.handle.file = memory_file();
	CALL(cuImportExternalSemaphore(&h, &desc));
}
CASE(external_timeline_import, "cuImportExternalSemaphore, timeline", 0) {
	static ExternalSem desc = {.type = TIMELINE_FD};
	desc.handle.file = memory_file();
	CALL(cuImportExternalSemaphore(&h, &desc));
}
ROW(external_sem_destroy, "cuDestroyExternalSemaphore, binary, never used", 0,
    h = new_external_sem(OPAQUE_FD), cuDestroyExternalSemaphore(h))
ROW(external_timeline_destroy, "cuDestroyExternalSemaphore, timeline, never used", 0,
    h = new_external_sem(TIMELINE_FD), cuDestroyExternalSemaphore(h))

// Managed memory.
static D new_managed(void) {
	D at;
	ok(cuMemAllocManaged(&at, 1 << 20, 1));
	return at;
}
// new_managed_at_host returns managed memory that is at the host, and prefers to be there.
static D new_managed_at_host(void) {
	D at = new_managed();
	ok(cuMemAdvise(at, 1 << 20, 3, (Location){2, 0}));
	memset((void *)at, 1, 1 << 20);
	return at;
}
ROW(managed_alloc, "cuMemAllocManaged, the first", 0, , cuMemAllocManaged(&d, 1 << 20, 1))
ROW(managed_alloc2, "cuMemAllocManaged, not the first", 0, new_managed(), cuMemAllocManaged(&d, 1 << 20, 1))
ROW(managed_free, "cuMemFree of managed memory", 0, d = new_managed(), cuMemFree(d))
ROW(managed_advise, "cuMemAdvise, preferred location", 0,
    d = new_managed(), cuMemAdvise(d, 1 << 20, 3, (Location){1, dev}))
ROW(managed_mapped, "cuMemAdvise, accessed by", 0, d = new_managed(), cuMemAdvise(d, 1 << 20, 5, (Location){1, dev}))
ROW(managed_copies, "cuMemAdvise, read mostly", 0, d = new_managed(), cuMemAdvise(d, 1 << 20, 1, (Location){1, dev}))
ROW(managed_prefetch, "cuMemPrefetchAsync, free stream", 0,
    d = new_managed(), cuMemPrefetchAsync(d, 1 << 20, (Location){1, dev}, 0, idle))
ROW(managed_prefetch_held, "cuMemPrefetchAsync, held stream", 0,
    d = new_managed(), cuMemPrefetchAsync(d, 1 << 20, (Location){1, dev}, 0, held))
ROW(managed_prefetch_back, "cuMemPrefetchAsync, to the host, free stream", 0,
    d = new_managed(); ok(cuMemsetD8(d, 1, 1 << 20)), cuMemPrefetchAsync(d, 1 << 20, (Location){2, 0}, 0, idle))
CASE(managed_prefetch_many, "cuMemPrefetchAsync, held stream, the Nth", 0) {
	d = new_managed();
	MANY(1, 1100, 1, cuMemPrefetchAsync(d, 1 << 20, (Location){1, dev}, 0, held));
}
ROW(managed_range, "cuMemRangeGetAttribute", 0, d = new_managed(), cuMemRangeGetAttribute(&i1, 4, 1, d, 1 << 20))
ROW(managed_attach, "cuStreamAttachMemAsync, free stream", 0,
    d = new_managed(), cuStreamAttachMemAsync(idle, d, 0, 4))
ROW(managed_attach_held, "cuStreamAttachMemAsync, held stream", 0,
    d = new_managed(), cuStreamAttachMemAsync(held, d, 0, 4))

// Several pieces of memory.
static D pieces[64], others[64];
static size_t lengths[64], firsts[1];
static CopyWay in_order = {.order = 1};
static void several(D to, D from, size_t n) {
	for (int i = 0; i < 64; i++)
		pieces[i] = to + (D)i * n, others[i] = from + (D)i * n, lengths[i] = n;
}
static BoxCopy box_of(D to, D from) {
	return (BoxCopy){.src = {.type = 1, .at = from}, .dst = {.type = 1, .at = to}, .width = 16, .height = 2, .depth = 1, .order = 1};
}
ROW(copies, "cuMemcpyBatchAsync, free stream", 0, several(new_mem(4096), new_mem(4096), 64),
    cuMemcpyBatchAsync(pieces, others, lengths, 64, &in_order, firsts, 1, idle))
ROW(copies_held, "cuMemcpyBatchAsync, held stream", 0, several(new_mem(4096), new_mem(4096), 64),
    cuMemcpyBatchAsync(pieces, others, lengths, 64, &in_order, firsts, 1, held))
ROW(copies_pinned, "cuMemcpyBatchAsync, to pinned memory, held stream", 0,
    several((D)new_host(4096, 0), new_mem(4096), 64),
    cuMemcpyBatchAsync(pieces, others, lengths, 64, &in_order, firsts, 1, held))
CASE(copies_many, "cuMemcpyBatchAsync, 8 copies, held stream, the Nth", 0) {
	several(new_mem(4096), new_mem(4096), 64);
	MANY(1, 2100, 1, cuMemcpyBatchAsync(pieces, others, lengths, 8, &in_order, firsts, 1, held));
}
ROW(boxes, "cuMemcpy3DBatchAsync, free stream", 0, d = new_mem(4096); d2 = new_mem(4096),
    cuMemcpy3DBatchAsync(1, (BoxCopy[]){box_of(d, d2)}, 0, idle))
ROW(boxes_held, "cuMemcpy3DBatchAsync, held stream", 0, d = new_mem(4096); d2 = new_mem(4096),
    cuMemcpy3DBatchAsync(1, (BoxCopy[]){box_of(d, d2)}, 0, held))
ROW(prefetches_held, "cuMemPrefetchBatchAsync, held stream", 0, several(new_managed(), 0, 1 << 14),
    cuMemPrefetchBatchAsync(pieces, lengths, 64, (Location[]){{1, dev}}, firsts, 1, 0, held))
CASE(prefetches_many, "cuMemPrefetchBatchAsync, held stream, the Nth", 0) {
	several(new_managed(), 0, 1 << 14);
	MANY(1, 1100, 1, cuMemPrefetchBatchAsync(pieces, lengths, 64, (Location[]){{1, dev}}, firsts, 1, 0, held));
}
ROW(discards_held, "cuMemDiscardBatchAsync, held stream", 0, several(new_managed(), 0, 1 << 14),
    cuMemDiscardBatchAsync(pieces, lengths, 64, 0, held))
CASE(discards_many, "cuMemDiscardBatchAsync, held stream, the Nth", 0) {
	several(new_managed(), 0, 1 << 14);
	MANY(1, 2100, 1, cuMemDiscardBatchAsync(pieces, lengths, 64, 0, held));
}
ROW(discard_moves_held, "cuMemDiscardAndPrefetchBatchAsync, held stream", 0, several(new_managed(), 0, 1 << 14),
    cuMemDiscardAndPrefetchBatchAsync(pieces, lengths, 64, (Location[]){{1, dev}}, firsts, 1, 0, held))

// Rectangles and boxes.
static Copy2 rectangle;
static Copy3 cuboid;
static void rectangles(void) {
	ok(cuMemAllocPitch(&d, &z1, 256, 64, 4));
	h = new_host(256 * 64, 0);
	rectangle = (Copy2){{0, 0, 1, h, 0, NULL, 256}, {0, 0, 2, NULL, d, NULL, z1}, 256, 64};
	cuboid = (Copy3){{0, 0, 0, 0, 1, h, 0, NULL, NULL, 256, 8}, {0, 0, 0, 0, 2, NULL, d, NULL, NULL, z1, 8}, 256, 8, 8};
}
ROW(pitch_alloc, "cuMemAllocPitch", 0, , cuMemAllocPitch(&d, &z1, 256, 64, 4))
ROW(copy2, "cuMemcpy2DAsync, pinned, free stream", 0, rectangles(), cuMemcpy2DAsync(&rectangle, idle))
ROW(copy2_held, "cuMemcpy2DAsync, pinned, held stream", 0, rectangles(), cuMemcpy2DAsync(&rectangle, held))
CASE(copy2_many, "cuMemcpy2DAsync, pinned, held stream, the Nth", 0) {
	rectangles();
	MANY(1, 1100, 1, cuMemcpy2DAsync(&rectangle, held));
}
ROW(copy3, "cuMemcpy3DAsync, pinned, free stream", 0, rectangles(), cuMemcpy3DAsync(&cuboid, idle))
ROW(copy3_held, "cuMemcpy3DAsync, pinned, held stream", 0, rectangles(), cuMemcpy3DAsync(&cuboid, held))
CASE(copy3_many, "cuMemcpy3DAsync, pinned, held stream, the Nth", 0) {
	rectangles();
	MANY(1, 1100, 1, cuMemcpy3DAsync(&cuboid, held));
}
ROW(set2, "cuMemsetD2D8Async, free stream", 0, rectangles(), cuMemsetD2D8Async(d, z1, 1, 256, 64, idle))
CASE(set2_many, "cuMemsetD2D8Async, held stream, the Nth", 0) {
	rectangles();
	MANY(1, 1100, 1, cuMemsetD2D8Async(d, z1, 1, 256, 64, held));
}
ROW(set2_halves, "cuMemsetD2D16Async, free stream", 0, rectangles(), cuMemsetD2D16Async(d, z1, 1, 128, 64, idle))
CASE(set2_halves_many, "cuMemsetD2D16Async, held stream, the Nth", 0) {
	rectangles();
	MANY(1, 1100, 1, cuMemsetD2D16Async(d, z1, 1, 128, 64, held));
}
ROW(set2_words, "cuMemsetD2D32Async, free stream", 0, rectangles(), cuMemsetD2D32Async(d, z1, 1, 64, 64, idle))

// Copies. What is not async uses the legacy stream, which waits for those that are not non-blocking.
#define BIG ((size_t)64 << 20)
#define COPY (d = new_mem(BIG), d2 = new_mem(BIG))
#define PAGES (COPY, h = new_pages(BIG))
#define PINNED (COPY, h = new_host(BIG, 0))
ROW(htod, "cuMemcpyHtoD, 64 bytes", 0, PAGES, cuMemcpyHtoD(d, h, 64))
ROW(htod_bare, "cuMemcpyHtoD, 64 bytes, the first of the context", BARE, PAGES, cuMemcpyHtoD(d, h, 64))
ROW(htod_big, "cuMemcpyHtoD, pageable, 64 MiB", 0, PAGES, cuMemcpyHtoD(d, h, BIG))
ROW(htod_pinned, "cuMemcpyHtoD, pinned, 64 MiB", 0, PINNED, cuMemcpyHtoD(d, h, BIG))
ROW(dtoh, "cuMemcpyDtoH, 64 bytes", 0, PAGES, cuMemcpyDtoH(h, d, 64))
ROW(dtoh_big, "cuMemcpyDtoH, pageable, 64 MiB", 0, PAGES, cuMemcpyDtoH(h, d, BIG))
ROW(dtoh_pinned, "cuMemcpyDtoH, pinned, 64 MiB", 0, PINNED, cuMemcpyDtoH(h, d, BIG))
ROW(dtod, "cuMemcpyDtoD", 0, COPY, cuMemcpyDtoD(d, d2, BIG))
ROW(htod_async, "cuMemcpyHtoDAsync, pageable, 64 bytes, free stream", 0, PAGES, cuMemcpyHtoDAsync(d, h, 64, idle))
ROW(htod_async_big, "cuMemcpyHtoDAsync, pageable, 64 MiB, free stream", 0, PAGES, cuMemcpyHtoDAsync(d, h, BIG, idle))
ROW(htod_async_pinned, "cuMemcpyHtoDAsync, pinned, free stream", 0, PINNED, cuMemcpyHtoDAsync(d, h, BIG, idle))
ROW(htod_held, "cuMemcpyHtoDAsync, pageable, 64 bytes, held stream", 0, PAGES, cuMemcpyHtoDAsync(d, h, 64, held))
ROW(htod_held_big, "cuMemcpyHtoDAsync, pageable, 64 MiB, held stream", 0, PAGES, cuMemcpyHtoDAsync(d, h, BIG, held))
ROW(htod_held_pinned, "cuMemcpyHtoDAsync, pinned, held stream", 0, PINNED, cuMemcpyHtoDAsync(d, h, BIG, held))
ROW(dtoh_async, "cuMemcpyDtoHAsync, pageable, 64 bytes, free stream", 0, PAGES, cuMemcpyDtoHAsync(h, d, 64, idle))
ROW(dtoh_async_big, "cuMemcpyDtoHAsync, pageable, 64 MiB, free stream", 0, PAGES, cuMemcpyDtoHAsync(h, d, BIG, idle))
ROW(dtoh_async_pinned, "cuMemcpyDtoHAsync, pinned, free stream", 0, PINNED, cuMemcpyDtoHAsync(h, d, BIG, idle))
ROW(dtoh_held, "cuMemcpyDtoHAsync, pageable, 64 bytes, held stream", 0, PAGES, cuMemcpyDtoHAsync(h, d, 64, held))
ROW(dtoh_held_pinned, "cuMemcpyDtoHAsync, pinned, held stream", 0, PINNED, cuMemcpyDtoHAsync(h, d, BIG, held))
ROW(dtod_async, "cuMemcpyDtoDAsync, free stream", 0, COPY, cuMemcpyDtoDAsync(d, d2, BIG, idle))
#define MANAGED (d = new_mem(1 << 20), d2 = new_managed())
#define AT_HOST (d = new_mem(1 << 20), d2 = new_managed_at_host())
ROW(from_managed, "cuMemcpyDtoDAsync, from managed memory, held stream", 0,
    MANAGED, cuMemcpyDtoDAsync(d, d2, 1 << 20, held))
ROW(from_host, "cuMemcpyDtoDAsync, from managed memory at the host, free stream", 0,
    AT_HOST, cuMemcpyDtoDAsync(d, d2, 1 << 20, idle))
ROW(from_host_held, "cuMemcpyDtoDAsync, from managed memory at the host, held stream", 0,
    AT_HOST, cuMemcpyDtoDAsync(d, d2, 1 << 20, held))
ROW(to_host_held, "cuMemcpyDtoDAsync, to managed memory at the host, held stream", 0,
    AT_HOST, cuMemcpyDtoDAsync(d2, d, 1 << 20, held))
ROW(from_host_short, "cuMemcpyDtoDAsync, 64 bytes from managed memory at the host, held stream", 0,
    AT_HOST, cuMemcpyDtoDAsync(d, d2, 64, held))
static D new_pooled_at_host(void) {
	PoolProps props = {2, 0, {2, 0}, NULL, 0, {0}};
	H p;
	ok(cuMemPoolCreate(&p, &props));
	D at = new_pooled(p, idle);
	ok(cuStreamSynchronize(idle));
	return at;
}
#define POOLED_AT_HOST (d = new_mem(1 << 20), d2 = new_pooled_at_host())
ROW(from_pool, "cuMemcpyDtoDAsync, from a pool's managed memory at the host, held stream", 0,
    POOLED_AT_HOST, cuMemcpyDtoDAsync(d, d2, 1 << 20, held))
ROW(from_pool_set, "cuMemcpyDtoDAsync, from a pool's managed memory at the host, set before, held stream", 0,
    POOLED_AT_HOST; hold(); ok(cuMemsetD8Async(d2, 1, 1 << 20, held)), cuMemcpyDtoDAsync(d, d2, 1 << 20, held))
ROW(any_from_pool, "cuMemcpyAsync, from a pool's managed memory at the host, held stream", 0,
    POOLED_AT_HOST, cuMemcpyAsync(d, d2, 1 << 20, held))
ROW(any_from_host, "cuMemcpyAsync, from managed memory at the host, held stream", 0,
    AT_HOST, cuMemcpyAsync(d, d2, 1 << 20, held))
ROW(any_to_pool, "cuMemcpyAsync, to a pool's managed memory at the host, held stream", 0,
    POOLED_AT_HOST, cuMemcpyAsync(d2, d, 1 << 20, held))
ROW(htod_managed, "cuMemcpyHtoDAsync, from managed memory, held stream", 0,
    MANAGED, cuMemcpyHtoDAsync(d, (H)d2, 1 << 20, held))
ROW(set_host_held, "cuMemsetD8Async, managed memory at the host, held stream", 0,
    AT_HOST, cuMemsetD8Async(d2, 1, 1 << 20, held))
ROW(copies_host, "cuMemcpyBatchAsync, from managed memory at the host, held stream", 0,
    AT_HOST; several(d, d2, 1 << 14), cuMemcpyBatchAsync(pieces, others, lengths, 64, &in_order, firsts, 1, held))
ROW(peer_same, "cuMemcpyPeer, both of the same context", 0, COPY, cuMemcpyPeer(d, ctx, d2, ctx, BIG))
ROW(peer_far, "cuMemcpyPeer, to another device", 0,
    h = far_context(); in(h); d = new_mem(BIG); in(ctx); d2 = new_mem(BIG), cuMemcpyPeer(d, h, d2, ctx, BIG))
ROW(peer_async_same, "cuMemcpyPeerAsync, both of the same context, free stream", 0,
    COPY, cuMemcpyPeerAsync(d, ctx, d2, ctx, BIG, idle))
ROW(peer_async_far, "cuMemcpyPeerAsync, to another device, free stream", 0,
    h = far_context(); in(h); d = new_mem(BIG); in(ctx); d2 = new_mem(BIG),
    cuMemcpyPeerAsync(d, h, d2, ctx, BIG, idle))
ROW(set8, "cuMemsetD8", 0, COPY, cuMemsetD8(d, 1, BIG))
ROW(set32, "cuMemsetD32", 0, COPY, cuMemsetD32(d, 1, BIG / 4))
ROW(set8_async, "cuMemsetD8Async, free stream", 0, COPY, cuMemsetD8Async(d, 1, BIG, idle))
ROW(set16_async, "cuMemsetD16Async, free stream", 0, COPY, cuMemsetD16Async(d, 1, BIG / 2, idle))
ROW(set32_async, "cuMemsetD32Async, free stream", 0, COPY, cuMemsetD32Async(d, 1, BIG / 4, idle))
#define DEFAULT_HELD hold_in(ctx, new_stream(STREAM_DEFAULT), NULL)
ROW(legacy_htod, "cuMemcpyHtoD, 64 bytes, the held stream is not non-blocking", 0,
    PAGES; DEFAULT_HELD, cuMemcpyHtoD(d, h, 64))
ROW(legacy_dtoh, "cuMemcpyDtoH, 64 bytes, the held stream is not non-blocking", 0,
    PAGES; DEFAULT_HELD, cuMemcpyDtoH(h, d, 64))
ROW(legacy_dtod, "cuMemcpyDtoD, the held stream is not non-blocking", 0, COPY; DEFAULT_HELD, cuMemcpyDtoD(d, d2, 64))
ROW(legacy_set, "cuMemsetD8, the held stream is not non-blocking", 0, COPY; DEFAULT_HELD, cuMemsetD8(d, 1, 64))
ROW(legacy_record, "cuEventRecord, legacy stream, the held stream is not non-blocking", 0,
    h = new_event(0); DEFAULT_HELD, cuEventRecord(h, NULL))
ROW(legacy_launch, "cuLaunchKernel, legacy stream, the held stream is not non-blocking", 0,
    DEFAULT_HELD, launch(small, NULL, NULL))
ROW(legacy_query, "cuStreamQuery, legacy stream, the held stream is not non-blocking", 0,
    DEFAULT_HELD, cuStreamQuery(NULL))
ROW(legacy_sync, "cuStreamSynchronize, legacy stream, the held stream is not non-blocking", 0,
    DEFAULT_HELD, cuStreamSynchronize(NULL))
ROW(legacy_alloc, "cuMemAlloc, the legacy stream is held", 0, hold_in(ctx, NULL, NULL), cuMemAlloc(&d, 1 << 20))
ROW(legacy_created, "cuStreamCreate, default, the legacy stream is held", 0,
    hold_in(ctx, NULL, NULL), cuStreamCreate(&h, 0))
ROW(legacy_event, "cuEventCreate, the legacy stream is held", 0, hold_in(ctx, NULL, NULL), cuEventCreate(&h, 0))

// Modules and functions.
ROW(load_ptx, "cuModuleLoadData, PTX", 0, , cuModuleLoadData(&h, ptx))
ROW(load_cubin, "cuModuleLoadData, cubin", 0, h2 = cubin(), cuModuleLoadData(&h, h2))
ROW(load_again, "cuModuleLoadData, PTX, not the first", 0, load_module(ptx), cuModuleLoadData(&h, ptx))
ROW(load_bare, "cuModuleLoadData, PTX, the first of the context", BARE, , cuModuleLoadData(&h, ptx))
ROW(load_eager, "cuModuleLoadData, PTX, CUDA_MODULE_LOADING=EAGER", EAGER, , cuModuleLoadData(&h, ptx))
ROW(load_created, "cuModuleLoadData, PTX, a created context", CREATED, , cuModuleLoadData(&h, ptx))
ROW(load_ex, "cuModuleLoadDataEx, PTX", 0, , cuModuleLoadDataEx(&h, ptx, 0, NULL, NULL))
ROW(load_bad, "cuModuleLoadData, no module", 0, , cuModuleLoadData(&h, "no module"))
ROW(load_other, "cuModuleLoadData, PTX, a stream of another context is held", 0,
    h2 = new_context(); hold(); in(h2), cuModuleLoadData(&h, ptx))
ROW(load_spin, "cuModuleLoadData, PTX, a kernel that spins holds the stream", 0,
    hold_in(ctx, held, function(load_module(ptx), "spin")), cuModuleLoadData(&h, ptx))
ROW(load_deep, "cuModuleLoadData, a kernel with 200 KB of local memory", ALONE, , cuModuleLoadData(&h, ptx_deep))
ROW(unload, "cuModuleUnload, never used", 0, h = load_module(ptx), cuModuleUnload(h))
ROW(unload_used, "cuModuleUnload, its kernel ran", 0,
    h = load_module(ptx); ok(launch(function(h, "small"), idle, NULL)); ok(cuStreamSynchronize(idle)),
    cuModuleUnload(h))
ROW(unload_cubin, "cuModuleUnload, cubin", 0, h = load_module(cubin()), cuModuleUnload(h))
ROW(unload_eager, "cuModuleUnload, never used, CUDA_MODULE_LOADING=EAGER", EAGER,
    h = load_module(ptx), cuModuleUnload(h))
ROW(unload_other, "cuModuleUnload, a stream of another context is held", 0,
    h2 = new_context(); in(h2); h = load_module(ptx); in(ctx); hold(); in(h2), cuModuleUnload(h))
ROW(unload_spin, "cuModuleUnload, a kernel that spins holds the stream", 0,
    h = load_module(ptx); hold_in(ctx, held, function(load_module(ptx), "spin")), cuModuleUnload(h))
ROW(get_function, "cuModuleGetFunction, the first of a module", 0,
    h = load_module(ptx), cuModuleGetFunction(&h2, h, "small"))
ROW(get_function2, "cuModuleGetFunction, the second of a module", 0, , cuModuleGetFunction(&h, module, "small2"))
ROW(get_function3, "cuModuleGetFunction, the same again", 0, , cuModuleGetFunction(&h, module, "small"))
ROW(get_function_eager, "cuModuleGetFunction, CUDA_MODULE_LOADING=EAGER", EAGER, ,
    cuModuleGetFunction(&h, module, "small2"))
ROW(get_function_deep, "cuModuleGetFunction, a kernel with 200 KB of local memory", ALONE,
    h = load_module(ptx_deep), cuModuleGetFunction(&h2, h, "deep"))
// Libraries and their kernels.
ROW(lib_load, "cuLibraryLoadData, PTX", 0, , cuLibraryLoadData(&h, ptx, NULL, NULL, 0, NULL, NULL, 0))
ROW(lib_unload, "cuLibraryUnload, never used", 0, h = load_library(ptx), cuLibraryUnload(h))
ROW(lib_unload_used, "cuLibraryUnload, its kernel ran", 0,
    h = load_library(ptx); ok(launch(lib_function(h, "small"), idle, NULL)); ok(cuStreamSynchronize(idle)),
    cuLibraryUnload(h))
ROW(lib_unload_other, "cuLibraryUnload, a stream of another context is held", 0,
    h2 = new_context(); in(h2); h = load_library(ptx); lib_function(h, "small"); in(ctx); hold(); in(h2),
    cuLibraryUnload(h))
ROW(lib_kernel, "cuLibraryGetKernel", 0, h = load_library(ptx), cuLibraryGetKernel(&h2, h, "small"))
ROW(lib_count, "cuLibraryGetKernelCount", 0, h = load_library(ptx), cuLibraryGetKernelCount(&u1, h))
ROW(lib_list, "cuLibraryEnumerateKernels", 0, h = load_library(ptx), cuLibraryEnumerateKernels(hs, 2, h))
ROW(lib_module, "cuLibraryGetModule, the first of the context", 0, h = load_library(ptx), cuLibraryGetModule(&h2, h))
ROW(lib_module2, "cuLibraryGetModule, not the first", 0, h = load_library(ptx); ok(cuLibraryGetModule(&h2, h)),
    cuLibraryGetModule(&h2, h))
ROW(lib_global, "cuLibraryGetGlobal, the first of the context", 0, h = load_library(ptx),
    cuLibraryGetGlobal(&d, &z1, h, "counter"))
ROW(kernel_function, "cuKernelGetFunction, the first of the context", 0, h = kernel_of(load_library(ptx), "small"),
    cuKernelGetFunction(&h2, h))
ROW(kernel_function2, "cuKernelGetFunction, not the first", 0,
    h = kernel_of(load_library(ptx), "small"); ok(cuKernelGetFunction(&h2, h)), cuKernelGetFunction(&h2, h))
ROW(kernel_library, "cuKernelGetLibrary", 0, h = kernel_of(load_library(ptx), "small"), cuKernelGetLibrary(&h2, h))
ROW(kernel_name, "cuKernelGetName", 0, h = kernel_of(load_library(ptx), "small"), cuKernelGetName(&text, h))
ROW(kernel_attribute, "cuKernelGetAttribute", 0, h = kernel_of(load_library(ptx), "small"),
    cuKernelGetAttribute(&i1, 0, h, dev))
ROW(kernel_set, "cuKernelSetAttribute, the library was not used", 0, h = kernel_of(load_library(ptx), "small"),
    cuKernelSetAttribute(ATTRIBUTE_MAX_DYNAMIC_SHARED, 64 << 10, h, dev))
ROW(kernel_set2, "cuKernelSetAttribute, the library was used", 0,
    h = kernel_of(load_library(ptx), "small"); ok(cuKernelGetFunction(&h2, h)),
    cuKernelSetAttribute(ATTRIBUTE_MAX_DYNAMIC_SHARED, 64 << 10, h, dev))
ROW(kernel_param, "cuKernelGetParamInfo", 0, h = kernel_of(load_library(ptx), "args"),
    cuKernelGetParamInfo(h, 1, &z1, &z2))
static const char ptx_managed[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                                  ".visible .global .attribute(.managed) .align 4 .u32 total = 7;\n";
ROW(lib_managed, "cuLibraryGetManaged, the first of the context", 0, h = load_library(ptx_managed),
    cuLibraryGetManaged(&d, &z1, h, "total"))
ROW(lib_managed2, "cuLibraryGetManaged, not the first", 0,
    h = load_library(ptx_managed); ok(cuLibraryGetManaged(&d, &z1, h, "total")),
    cuLibraryGetManaged(&d, &z1, h, "total"))
ROW(kernel_launch, "cuLaunchKernel, a kernel of a library, its first", 0, h = kernel_of(load_library(ptx), "small"),
    launch(h, idle, NULL))

// The linker.
static void *linked;
ROW(link_create, "cuLinkCreate", 0, , cuLinkCreate(0, NULL, NULL, &h))
ROW(link_add, "cuLinkAddData, PTX", 0, h = linker(NULL),
    cuLinkAddData(h, LINK_PTX, (void *)(uintptr_t)ptx, sizeof ptx, "small", 0, NULL, NULL))
ROW(link_complete, "cuLinkComplete", 0, h = linker(ptx), cuLinkComplete(h, &linked, &z1))
ROW(link_destroy, "cuLinkDestroy", 0, h = linker(ptx); ok(cuLinkComplete(h, &linked, &z1)), cuLinkDestroy(h))

ROW(get_global, "cuModuleGetGlobal", 0, h = load_module(ptx), cuModuleGetGlobal(&d, &z1, h, "counter"))
ROW(func_attribute, "cuFuncGetAttribute, before the first launch", 0,
    h = function(load_module(ptx), "small"), cuFuncGetAttribute(&i1, 0, h))
ROW(func_set, "cuFuncSetAttribute, before the first launch", 0,
    h = function(load_module(ptx), "small"), cuFuncSetAttribute(h, ATTRIBUTE_MAX_DYNAMIC_SHARED, 64 << 10))
ROW(func_name, "cuFuncGetName", 0, , cuFuncGetName(&text, small))
ROW(func_param, "cuFuncGetParamInfo", 0, h = function(load_module(ptx), "args"), cuFuncGetParamInfo(h, 1, &z1, &z2))
ROW(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", 0,
    h = function(load_module(ptx), "small"), cuOccupancyMaxActiveBlocksPerMultiprocessor(&i1, h, 64, 0))
ROW(func_load, "cuFuncLoad, before the first launch", 0, h = function(load_module(ptx), "small"), cuFuncLoad(h))
ROW(func_load_deep, "cuFuncLoad, a kernel with 200 KB of local memory", ALONE, h = deep_kernel(), cuFuncLoad(h))
ROW(func_loaded, "cuFuncIsLoaded, before the first launch", 0, h = function(load_module(ptx), "small"),
    cuFuncIsLoaded(&i1, h))
ROW(occupancy_shared, "cuOccupancyAvailableDynamicSMemPerBlock", 0, h = function(load_module(ptx), "small"),
    cuOccupancyAvailableDynamicSMemPerBlock(&z1, h, 1, 64))
ROW(potential, "cuOccupancyMaxPotentialBlockSize", 0,
    h = function(load_module(ptx), "small"), cuOccupancyMaxPotentialBlockSize(&i1, &i2, h, NULL, 0, 0))

// Launches.
ROW(launch_bare, "cuLaunchKernel, a small kernel, the first of the context", BARE,
    h = function(load_module(ptx), "small"), launch(h, idle, NULL))
ROW(launch_first, "cuLaunchKernel, a small kernel, its first", 0,
    h = function(load_module(ptx), "small"), launch(h, idle, NULL))
ROW(launch_again, "cuLaunchKernel, a small kernel, not its first", 0, , launch(small, idle, NULL))
CASE(launch_many, "cuLaunchKernel, a small kernel, free stream, the Nth", 0) {
	MANY(1, 20000, 3, launch(small, idle, NULL));
}
CASE(launch_streams, "cuLaunchKernel, a small kernel, the first on the Nth of 140 streams", 0) {
	for (int i = 0; i < 140; i++)
		ok(cuStreamCreate(&hs[i], STREAM_NON_BLOCKING));
	MANY(1, 140, 6, launch(small, hs[many.at - 1], NULL));
}
CASE(record_streams, "cuEventRecord, the first on the Nth of 140 streams", 0) {
	h = new_event(EVENT_TIMED);
	for (int i = 0; i < 140; i++)
		ok(cuStreamCreate(&hs[i], STREAM_NON_BLOCKING));
	MANY(1, 140, 6, cuEventRecord(h, hs[many.at - 1]));
}
ROW(launch_deep1, "cuLaunchKernel, 200 KB of local memory, its first", ALONE, h = deep_kernel(), launch_deep(h, idle))
ROW(launch_deep2, "cuLaunchKernel, 200 KB of local memory, its second", ALONE,
    h = deep_kernel(); ok(launch_deep(h, idle)); ok(cuStreamSynchronize(idle)), launch_deep(h, idle))
ROW(launch_deep_eager, "cuLaunchKernel, 200 KB of local memory, its first, CUDA_MODULE_LOADING=EAGER", EAGER | ALONE,
    h = deep_kernel(), launch_deep(h, idle))
ROW(launch_small_deep, "cuLaunchKernel, a small kernel after one with 200 KB of local memory", ALONE,
    h = deep_kernel(); ok(launch_deep(h, idle)); ok(cuStreamSynchronize(idle)), launch(small, idle, NULL))
ROW(launch_printf, "cuLaunchKernel, with printf, its first", 0,
    h = function(load_module(ptx_printf), "prints"), launch(h, idle, NULL))
ROW(launch_printf2, "cuLaunchKernel, with printf, its second", 0,
    h = function(load_module(ptx_printf), "prints"); ok(launch(h, idle, NULL)); ok(cuStreamSynchronize(idle)),
    launch(h, idle, NULL))
ROW(sync_printf, "cuStreamSynchronize, free, after a kernel with printf", 0,
    h = function(load_module(ptx_printf), "prints"); ok(launch(h, idle, NULL)), cuStreamSynchronize(idle))
ROW(launch_malloc, "cuLaunchKernel, with malloc, its first", 0,
    h = function(load_module(ptx_malloc), "allocates"), launch(h, idle, NULL))
ROW(launch_malloc2, "cuLaunchKernel, with malloc, its second", 0,
    h = function(load_module(ptx_malloc), "allocates"); ok(launch(h, idle, NULL)); ok(cuStreamSynchronize(idle)),
    launch(h, idle, NULL))
ROW(cooperative, "cuLaunchCooperativeKernel, the first", 0,
    h = function(load_module(ptx), "small"), cuLaunchCooperativeKernel(h, 1, 1, 1, 1, 1, 1, 0, idle, NULL))
CASE(launch_ex, "cuLaunchKernelEx, free stream", 0) {
	LaunchConfig c = {{1, 1, 1}, {1, 1, 1}, 0, idle, NULL, 0};
	CALL(cuLaunchKernelEx(&c, small, NULL, NULL));
}

#include "blocking_graphs.h"
