// The last cases of blocking.c: graphs, other processes, and what becomes of memory.

// Building graphs.
ROW(graph_create, "cuGraphCreate", 0, , cuGraphCreate(&h, 0))
ROW(graph_destroy, "cuGraphDestroy", 0, h = kernel_graph(), cuGraphDestroy(h))
ROW(graph_clone, "cuGraphClone", 0, h = kernel_graph(), cuGraphClone(&h2, h))
ROW(graph_dot, "cuGraphDebugDotPrint", 0, h = kernel_graph(), cuGraphDebugDotPrint(h, "/dev/null", 0))
ROW(graph_empty, "cuGraphAddEmptyNode", 0, ok(cuGraphCreate(&h, 0)), cuGraphAddEmptyNode(&h2, h, NULL, 0))
ROW(graph_record, "cuGraphAddEventRecordNode", 0,
    ok(cuGraphCreate(&h, 0)); h2 = new_event(EVENT_TIMED), cuGraphAddEventRecordNode(hs, h, NULL, 0, h2))
ROW(graph_wait, "cuGraphAddEventWaitNode", 0,
    ok(cuGraphCreate(&h, 0)); h2 = new_event(EVENT_TIMED), cuGraphAddEventWaitNode(hs, h, NULL, 0, h2))
ROW(graph_record_get, "cuGraphEventRecordNodeGetEvent", 0,
    event_graph(&h, new_event(EVENT_TIMED)), cuGraphEventRecordNodeGetEvent(h, &h2))
ROW(graph_record_set, "cuGraphEventRecordNodeSetEvent", 0,
    event_graph(&h, new_event(EVENT_TIMED)); h2 = new_event(EVENT_TIMED), cuGraphEventRecordNodeSetEvent(h, h2))
ROW(graph_wait_get, "cuGraphEventWaitNodeGetEvent", 0,
    wait_graph(&h, new_event(EVENT_TIMED)), cuGraphEventWaitNodeGetEvent(h, &h2))
ROW(graph_wait_set, "cuGraphEventWaitNodeSetEvent", 0,
    wait_graph(&h, new_event(EVENT_TIMED)); h2 = new_event(EVENT_TIMED), cuGraphEventWaitNodeSetEvent(h, h2))
ROW(graph_nodes, "cuGraphGetNodes", 0, h = kernel_graph(), cuGraphGetNodes(h, NULL, &z1))
ROW(graph_edges, "cuGraphGetEdges", 0, h = kernel_graph(), cuGraphGetEdges(h, NULL, NULL, &z1))
ROW(graph_type, "cuGraphNodeGetType", 0, event_graph(&h, new_event(EVENT_TIMED)), cuGraphNodeGetType(h, &i1))

// Nodes with work, and changes of them. built is a graph of a kernel, a copy, a memset, a host function
// and a graph, whose nodes are hs[0] to hs[4].
static KernelParams kernel_params;
static CopyParams copy_params;
static SetParams set_params;
static HostParams host_params = {nothing, NULL};
static void node_params(void) {
	d = new_mem(1 << 20);
	kernel_params = (KernelParams){.function = small, .grid = {1, 1, 1}, .block = {1, 1, 1}};
	copy_params = (CopyParams){.src_type = 2, .src = d, .src_pitch = 64, .src_height = 1, .dst_type = 2,
	                           .dst = d + 64, .dst_pitch = 64, .dst_height = 1, .width = 64, .height = 1, .depth = 1};
	set_params = (SetParams){.dst = d, .value = 1, .size = 1, .width = 64, .height = 1};
}
static H built(void) {
	H g, inner = kernel_graph();
	node_params();
	ok(cuGraphCreate(&g, 0));
	ok(cuGraphAddKernelNode(&hs[0], g, NULL, 0, &kernel_params));
	ok(cuGraphAddMemcpyNode(&hs[1], g, NULL, 0, &copy_params, ctx));
	ok(cuGraphAddMemsetNode(&hs[2], g, NULL, 0, &set_params, ctx));
	ok(cuGraphAddHostNode(&hs[3], g, NULL, 0, &host_params));
	ok(cuGraphAddChildGraphNode(&hs[4], g, NULL, 0, inner));
	return g;
}
#define NEW node_params(); ok(cuGraphCreate(&h, 0))
#define BUILT h = built()
#define EXEC BUILT; h2 = executable(h)
#define RUNNING EXEC; hold(); ok(cuGraphLaunch(h2, held))
ROW(node_kernel, "cuGraphAddKernelNode", 0, NEW, cuGraphAddKernelNode(&h2, h, NULL, 0, &kernel_params))
CASE(node_kernel_deep, "cuGraphAddKernelNode, a kernel with 200 KB of local memory", ALONE) {
	NEW;
	kernel_params.function = deep_kernel();
	kernel_params.params = (void *[]){&d, &(D){0}, &(D){4}};
	CALL(cuGraphAddKernelNode(&h2, h, NULL, 0, &kernel_params));
}
static AllocNodeParams alloc_params;
static H empty_graph(void) {
	H g;
	alloc_params = (AllocNodeParams){.pool = {1, 0, {1, dev}, NULL, 0, {0}}, .size = 1 << 20};
	ok(cuGraphCreate(&g, 0));
	return g;
}
ROW(node_alloc, "cuGraphAddMemAllocNode", 0, h = empty_graph(), cuGraphAddMemAllocNode(&h2, h, NULL, 0, &alloc_params))
ROW(node_free, "cuGraphAddMemFreeNode", 0,
    h = empty_graph(); ok(cuGraphAddMemAllocNode(hs, h, NULL, 0, &alloc_params)),
    cuGraphAddMemFreeNode(&h2, h, hs, 1, alloc_params.at))
ROW(graph_trim, "cuDeviceGraphMemTrim, never used", 0, , cuDeviceGraphMemTrim(dev))
ROW(graph_trim_used, "cuDeviceGraphMemTrim, with memory of a graph that is free", 0,
    h = executable(alloc_graph()); ok(cuGraphLaunch(h, idle)); ok(cuStreamSynchronize(idle)), cuDeviceGraphMemTrim(dev))
ROW(node_copy, "cuGraphAddMemcpyNode", 0, NEW, cuGraphAddMemcpyNode(&h2, h, NULL, 0, &copy_params, ctx))
ROW(node_set, "cuGraphAddMemsetNode", 0, NEW, cuGraphAddMemsetNode(&h2, h, NULL, 0, &set_params, ctx))
ROW(node_host, "cuGraphAddHostNode", 0, NEW, cuGraphAddHostNode(&h2, h, NULL, 0, &host_params))
ROW(node_child, "cuGraphAddChildGraphNode", 0, NEW; hs[0] = kernel_graph(),
    cuGraphAddChildGraphNode(&h2, h, NULL, 0, hs[0]))
ROW(node_kernel_n, "cuGraphAddKernelNode, a graph with many nodes", 0,
    NEW; for (int i = 0; i < 1000; i++) ok(cuGraphAddKernelNode(&h2, h, NULL, 0, &kernel_params)),
    cuGraphAddKernelNode(&h2, h, NULL, 0, &kernel_params))
ROW(node_set_kernel, "cuGraphKernelNodeSetParams", 0, BUILT, cuGraphKernelNodeSetParams(hs[0], &kernel_params))
ROW(node_set_copy, "cuGraphMemcpyNodeSetParams", 0, BUILT, cuGraphMemcpyNodeSetParams(hs[1], &copy_params))
ROW(node_set_set, "cuGraphMemsetNodeSetParams", 0, BUILT, cuGraphMemsetNodeSetParams(hs[2], &set_params))
ROW(node_set_host, "cuGraphHostNodeSetParams", 0, BUILT, cuGraphHostNodeSetParams(hs[3], &host_params))
ROW(node_set_attribute, "cuGraphKernelNodeSetAttribute", 0, BUILT,
	cuGraphKernelNodeSetAttribute(hs[0], 2, &(long[8]){1}))
ROW(node_get_attribute, "cuGraphKernelNodeGetAttribute", 0, BUILT,
	cuGraphKernelNodeGetAttribute(hs[0], 2, &(long[8]){0}))
ROW(node_get_kernel, "cuGraphKernelNodeGetParams", 0, BUILT, cuGraphKernelNodeGetParams(hs[0], &(KernelParams){0}))
ROW(node_get_copy, "cuGraphMemcpyNodeGetParams", 0, BUILT, cuGraphMemcpyNodeGetParams(hs[1], &(CopyParams){0}))
ROW(node_get_set, "cuGraphMemsetNodeGetParams", 0, BUILT, cuGraphMemsetNodeGetParams(hs[2], &(SetParams){0}))
ROW(node_get_host, "cuGraphHostNodeGetParams", 0, BUILT, cuGraphHostNodeGetParams(hs[3], &(HostParams){0}))
ROW(node_get_child, "cuGraphChildGraphNodeGetGraph", 0, BUILT, cuGraphChildGraphNodeGetGraph(hs[4], &h2))
ROW(node_destroy, "cuGraphDestroyNode", 0, BUILT, cuGraphDestroyNode(hs[0]))
ROW(node_destroy_child, "cuGraphDestroyNode, a graph", 0, BUILT, cuGraphDestroyNode(hs[4]))
ROW(node_destroy_used, "cuGraphDestroyNode, its executable graph runs on the held stream", 0, RUNNING,
    cuGraphDestroyNode(hs[0]))
ROW(edges_v2, "cuGraphGetEdges_v2", 0, h = kernel_graph(), cuGraphGetEdges_v2(h, NULL, NULL, NULL, &z1))
ROW(edge_add_v2, "cuGraphAddDependencies_v2", 0, BUILT, cuGraphAddDependencies_v2(h, hs, hs + 1, NULL, 1))
ROW(condition_create, "cuGraphConditionalHandleCreate", 0, NEW,
    cuGraphConditionalHandleCreate(&(unsigned long long){0}, h, ctx, 1, 1))
ROW(node_alloc_get, "cuGraphMemAllocNodeGetParams", 0,
    h = empty_graph(); ok(cuGraphAddMemAllocNode(hs, h, NULL, 0, &alloc_params)),
    cuGraphMemAllocNodeGetParams(hs[0], &(AllocNodeParams){.size = 0}))
ROW(node_free_get, "cuGraphMemFreeNodeGetParams", 0,
    h = empty_graph(); ok(cuGraphAddMemAllocNode(hs, h, NULL, 0, &alloc_params));
    ok(cuGraphAddMemFreeNode(&h2, h, hs, 1, alloc_params.at)), cuGraphMemFreeNodeGetParams(h2, &d))
static unsigned long long condition;
static NodeParams *node_if(H g) {
	static NodeParams p = {.type = 13, .bodies = 1};
	ok(cuGraphConditionalHandleCreate(&condition, g, ctx, 1, 1));
	p.condition = condition, p.context = ctx;
	return &p;
}
static NodeParams *if_params;
ROW(node_if_add, "cuGraphAddNode, conditional", 0, NEW; if_params = node_if(h),
    cuGraphAddNode(&h2, h, NULL, NULL, 0, if_params))
static NodeParams child_params = {.type = 4};
ROW(node_set_child, "cuGraphNodeSetParams, a child graph", 0,
    BUILT; child_params.condition = (uintptr_t)kernel_graph(), cuGraphNodeSetParams(hs[4], &child_params))
static MemOp write_op = {2, 0, 1, 0, 0, 0};
static BatchParams batch_params = {NULL, 1, &write_op, 0};
static H batch_graph(void) {
	H g;
	write_op.address = new_mem(64), batch_params.context = ctx;
	ok(cuGraphCreate(&g, 0));
	ok(cuGraphAddBatchMemOpNode(hs, g, NULL, 0, &batch_params));
	return g;
}
ROW(node_batch, "cuGraphAddBatchMemOpNode", 0, h = batch_graph(),
    cuGraphAddBatchMemOpNode(&h2, h, NULL, 0, &batch_params))
ROW(node_get_batch, "cuGraphBatchMemOpNodeGetParams", 0, h = batch_graph(),
    cuGraphBatchMemOpNodeGetParams(hs[0], &(BatchParams){.count = 0}))
ROW(node_set_batch, "cuGraphBatchMemOpNodeSetParams", 0, h = batch_graph(),
    cuGraphBatchMemOpNodeSetParams(hs[0], &batch_params))
ROW(exec_set_batch, "cuGraphExecBatchMemOpNodeSetParams", 0, h2 = executable(batch_graph()),
    cuGraphExecBatchMemOpNodeSetParams(h2, hs[0], &batch_params))
ROW(exec_set_batch2, "cuGraphExecBatchMemOpNodeSetParams, runs on the held stream", 0,
    h2 = executable(batch_graph()); hold(); ok(cuGraphLaunch(h2, held)),
    cuGraphExecBatchMemOpNodeSetParams(h2, hs[0], &batch_params))
ROW(graph_memory, "cuDeviceGetGraphMemAttribute", 0, , cuDeviceGetGraphMemAttribute(dev, 1, &l1))
ROW(graph_memory_high, "cuDeviceSetGraphMemAttribute", 0, ,
    cuDeviceSetGraphMemAttribute(dev, 1, &(unsigned long long){0}))
ROW(edge_add, "cuGraphAddDependencies", 0, BUILT, cuGraphAddDependencies(h, hs, hs + 1, 1))
ROW(edge_remove, "cuGraphRemoveDependencies", 0, BUILT; ok(cuGraphAddDependencies(h, hs, hs + 1, 1)),
    cuGraphRemoveDependencies(h, hs, hs + 1, 1))
ROW(exec_set_kernel, "cuGraphExecKernelNodeSetParams", 0, EXEC,
    cuGraphExecKernelNodeSetParams(h2, hs[0], &kernel_params))
ROW(exec_set_kernel2, "cuGraphExecKernelNodeSetParams, runs on the held stream", 0, RUNNING,
    cuGraphExecKernelNodeSetParams(h2, hs[0], &kernel_params))
CASE(exec_set_kernel_n, "cuGraphExecKernelNodeSetParams, runs on the held stream, the Nth", 0) {
	RUNNING;
	MANY(1, 10000, 3, cuGraphExecKernelNodeSetParams(h2, hs[0], &kernel_params));
}
ROW(exec_set_copy, "cuGraphExecMemcpyNodeSetParams", 0, EXEC,
	cuGraphExecMemcpyNodeSetParams(h2, hs[1], &copy_params, ctx))
ROW(exec_set_copy2, "cuGraphExecMemcpyNodeSetParams, runs on the held stream", 0, RUNNING,
    cuGraphExecMemcpyNodeSetParams(h2, hs[1], &copy_params, ctx))
ROW(exec_set_set, "cuGraphExecMemsetNodeSetParams", 0, EXEC,
	cuGraphExecMemsetNodeSetParams(h2, hs[2], &set_params, ctx))
ROW(exec_set_set2, "cuGraphExecMemsetNodeSetParams, runs on the held stream", 0, RUNNING,
    cuGraphExecMemsetNodeSetParams(h2, hs[2], &set_params, ctx))
ROW(exec_set_host, "cuGraphExecHostNodeSetParams", 0, EXEC, cuGraphExecHostNodeSetParams(h2, hs[3], &host_params))
ROW(exec_set_host2, "cuGraphExecHostNodeSetParams, runs on the held stream", 0, RUNNING,
    cuGraphExecHostNodeSetParams(h2, hs[3], &host_params))
ROW(exec_set_child, "cuGraphExecChildGraphNodeSetParams", 0, EXEC; hs[5] = kernel_graph(),
    cuGraphExecChildGraphNodeSetParams(h2, hs[4], hs[5]))
ROW(exec_set_child2, "cuGraphExecChildGraphNodeSetParams, runs on the held stream", 0, hs[5] = kernel_graph(); RUNNING,
    cuGraphExecChildGraphNodeSetParams(h2, hs[4], hs[5]))
ROW(exec_disable, "cuGraphNodeSetEnabled", 0, EXEC, cuGraphNodeSetEnabled(h2, hs[0], 0))
ROW(exec_disable2, "cuGraphNodeSetEnabled, runs on the held stream", 0, RUNNING, cuGraphNodeSetEnabled(h2, hs[0], 0))
ROW(exec_enabled, "cuGraphNodeGetEnabled", 0, EXEC, cuGraphNodeGetEnabled(h2, hs[0], &(U){0}))
ROW(exec_flags, "cuGraphExecGetFlags", 0, h = executable(kernel_graph()), cuGraphExecGetFlags(h, &l1))
ROW(exec_flags2, "cuGraphExecGetFlags, runs on the held stream", 0, RUNNING, cuGraphExecGetFlags(h2, &l1))
ROW(instantiate_params, "cuGraphInstantiateWithParams, a kernel", 0, h = kernel_graph(),
    cuGraphInstantiateWithParams(&h2, h, &(InstantiateParams){0}))
ROW(instantiate_priority, "cuGraphInstantiateWithParams, a kernel, node priorities", 0, h = kernel_graph(),
    cuGraphInstantiateWithParams(&h2, h, &(InstantiateParams){.flags = 8}))
ROW(instantiate_upload, "cuGraphInstantiateWithParams, a kernel, with an upload to the free stream", 0,
    h = kernel_graph(), cuGraphInstantiateWithParams(&h2, h, &(InstantiateParams){.flags = 2, .stream = idle}))
ROW(instantiate_device, "cuGraphInstantiateWithParams, a kernel, for launches by kernels", 0, h = kernel_graph(),
    cuGraphInstantiateWithParams(&h2, h, &(InstantiateParams){.flags = 4}))
CASE(instantiate_params_n, "cuGraphInstantiateWithParams, a kernel, the Nth", 0) {
	h = kernel_graph();
	MANY(1, 1000, 3, cuGraphInstantiateWithParams(&h2, h, &(InstantiateParams){0}));
}

// Running them.
ROW(instantiate, "cuGraphInstantiateWithFlags, a kernel", 0,
    h = kernel_graph(), cuGraphInstantiateWithFlags(&h2, h, 0))
ROW(instantiate_many, "cuGraphInstantiateWithFlags, a kernel, the second", 0,
    h = kernel_graph(); executable(h), cuGraphInstantiateWithFlags(&h2, h, 0))
CASE(instantiate_n, "cuGraphInstantiateWithFlags, a kernel, the Nth", 0) {
	h = kernel_graph();
	MANY(1, 1000, 3, cuGraphInstantiateWithFlags(&h2, h, 0));
}
ROW(instantiate_event, "cuGraphInstantiateWithFlags, an event record", 0,
    h = event_graph(&h2, new_event(EVENT_TIMED)), cuGraphInstantiateWithFlags(&h2, h, 0))
ROW(instantiate_alloc, "cuGraphInstantiateWithFlags, an allocation and a free", 0,
    h = alloc_graph(), cuGraphInstantiateWithFlags(&h2, h, 0))
ROW(graph_upload, "cuGraphUpload, free stream", 0, h = executable(kernel_graph()), cuGraphUpload(h, idle))
ROW(graph_launch, "cuGraphLaunch, a kernel, free stream, the first", 0,
    h = executable(kernel_graph()), cuGraphLaunch(h, idle))
ROW(graph_launch2, "cuGraphLaunch, a kernel, free stream, the second", 0,
    h = executable(kernel_graph()); ok(cuGraphLaunch(h, idle)), cuGraphLaunch(h, idle))
CASE(graph_launch_many, "cuGraphLaunch, a kernel, free stream, the Nth", 0) {
	h = executable(kernel_graph());
	MANY(1, 10000, 3, cuGraphLaunch(h, idle));
}
CASE(graph_launch_each, "cuGraphInstantiateWithFlags and the first cuGraphLaunch, free stream, the Nth", 0) {
	h = kernel_graph();
	MANY(1, 500, 3, cuGraphInstantiateWithFlags(&h2, h, 0) || cuGraphLaunch(h2, idle));
}
ROW(graph_launch_held, "cuGraphLaunch, a kernel, held stream, the first", 0,
    h = executable(kernel_graph()), cuGraphLaunch(h, held))
ROW(graph_launch_both, "cuGraphLaunch, free stream, while it runs on the held one", 0,
    h = executable(kernel_graph()); hold(); ok(cuGraphLaunch(h, held)), cuGraphLaunch(h, idle))
ROW(graph_launch_event, "cuGraphLaunch, an event record, free stream, the first", 0,
    h = executable(event_graph(&h2, new_event(EVENT_TIMED))), cuGraphLaunch(h, idle))
ROW(graph_launch_alloc, "cuGraphLaunch, an allocation and a free, free stream, the first", 0,
    h = executable(alloc_graph()), cuGraphLaunch(h, idle))
ROW(graph_launch_alloc2, "cuGraphLaunch, an allocation and a free, free stream, the second", 0,
    h = executable(alloc_graph()); ok(cuGraphLaunch(h, idle)); ok(cuStreamSynchronize(idle)), cuGraphLaunch(h, idle))
ROW(graph_launch_alloc3, "cuGraphLaunch, an allocation and a free, free stream, while it runs on the held one", 0,
    h = executable(alloc_graph()); hold(); ok(cuGraphLaunch(h, held)), cuGraphLaunch(h, idle))
CASE(graph_launch_deep, "cuGraphLaunch, a kernel with 200 KB of local memory, free stream, the first", ALONE) {
	H k = deep_kernel();
	capture();
	ok(launch_deep(k, idle));
	h = executable(captured());
	CALL(cuGraphLaunch(h, idle));
}
CASE(instantiate_deep, "cuGraphInstantiateWithFlags, a kernel with 200 KB of local memory", ALONE) {
	H k = deep_kernel();
	capture();
	ok(launch_deep(k, idle));
	h = captured();
	CALL(cuGraphInstantiateWithFlags(&h2, h, 0));
}
CASE(graph_launch_host, "cuGraphLaunch, a host function, free stream, the first", 0) {
	capture();
	ok(cuLaunchHostFunc(idle, nothing, NULL));
	h = executable(captured());
	CALL(cuGraphLaunch(h, idle));
}
ROW(exec_update, "cuGraphExecUpdate, idle", 0,
    h2 = kernel_graph(); h = executable(kernel_graph()), cuGraphExecUpdate(h, h2, hs, &i1))
ROW(exec_update_running, "cuGraphExecUpdate, runs on the held stream", 0,
    h2 = kernel_graph(); h = executable(kernel_graph()); hold(); ok(cuGraphLaunch(h, held)),
    cuGraphExecUpdate(h, h2, hs, &i1))
ROW(exec_update2, "cuGraphExecUpdate_v2, idle", 0,
    h2 = kernel_graph(); h = executable(kernel_graph()), cuGraphExecUpdate_v2(h, h2, &(UpdateInfo){0}))
ROW(exec_update2_running, "cuGraphExecUpdate_v2, runs on the held stream", 0,
    h2 = kernel_graph(); h = executable(kernel_graph()); hold(); ok(cuGraphLaunch(h, held)),
    cuGraphExecUpdate_v2(h, h2, &(UpdateInfo){0}))
CASE(exec_record_set, "cuGraphExecEventRecordNodeSetEvent", 0) {
	H node, g = event_graph(&node, new_event(EVENT_TIMED));
	h = executable(g);
	h2 = new_event(EVENT_TIMED);
	CALL(cuGraphExecEventRecordNodeSetEvent(h, node, h2));
}
CASE(exec_wait_set, "cuGraphExecEventWaitNodeSetEvent", 0) {
	H node, g = wait_graph(&node, finished(EVENT_TIMED));
	h = executable(g);
	h2 = finished(EVENT_TIMED);
	CALL(cuGraphExecEventWaitNodeSetEvent(h, node, h2));
}
CASE(exec_record_set_running, "cuGraphExecEventRecordNodeSetEvent, runs on the held stream", 0) {
	H node, g = event_graph(&node, new_event(EVENT_TIMED));
	h = executable(g);
	h2 = new_event(EVENT_TIMED);
	hold();
	ok(cuGraphLaunch(h, held));
	CALL(cuGraphExecEventRecordNodeSetEvent(h, node, h2));
}
ROW(exec_destroy, "cuGraphExecDestroy, never launched", 0, h = executable(kernel_graph()), cuGraphExecDestroy(h))
ROW(exec_destroy_idle, "cuGraphExecDestroy, idle", 0,
    h = executable(kernel_graph()); ok(cuGraphLaunch(h, idle)); ok(cuStreamSynchronize(idle)), cuGraphExecDestroy(h))
ROW(exec_destroy_running, "cuGraphExecDestroy, runs on the held stream", 0,
    h = executable(kernel_graph()); hold(); ok(cuGraphLaunch(h, held)), cuGraphExecDestroy(h))
ROW(exec_destroy_alloc, "cuGraphExecDestroy, an allocation and a free, idle", 0,
    h = executable(alloc_graph()); ok(cuGraphLaunch(h, idle)); ok(cuStreamSynchronize(idle)), cuGraphExecDestroy(h))
ROW(exec_destroy_alloc0, "cuGraphExecDestroy, an allocation and a free, never launched", 0,
    h = executable(alloc_graph()), cuGraphExecDestroy(h))
ROW(exec_destroy_alloc2, "cuGraphExecDestroy, an allocation and a free, runs on the held stream", 0,
    h = executable(alloc_graph()); hold(); ok(cuGraphLaunch(h, held)), cuGraphExecDestroy(h))
CASE(exec_destroy_many, "cuGraphExecDestroy, launched, idle, the Nth of 500", 0) {
	h = kernel_graph();
	for (int i = 0; i < 500; i++)
		hs[i] = executable(h), ok(cuGraphLaunch(hs[i], idle));
	ok(cuStreamSynchronize(idle));
	MANY(1, 500, 3, cuGraphExecDestroy(hs[many.at - 1]));
}
ROW(graph_destroy_alloc, "cuGraphDestroy, an allocation and a free, never instantiated", 0,
    h = alloc_graph(), cuGraphDestroy(h))
ROW(graph_destroy_alloc2, "cuGraphDestroy, an allocation and a free, its executable is idle", 0,
    h = alloc_graph(); h2 = executable(h); ok(cuGraphLaunch(h2, idle)); ok(cuStreamSynchronize(idle)),
    cuGraphDestroy(h))
ROW(graph_destroy_alloc3, "cuGraphDestroy, an allocation and a free, after its executable", 0,
    h = alloc_graph(); h2 = executable(h); ok(cuGraphLaunch(h2, idle)); ok(cuGraphExecDestroy(h2)), cuGraphDestroy(h))
ROW(graph_destroy_running, "cuGraphDestroy, its executable runs on the held stream", 0,
    h = kernel_graph(); h2 = executable(h); hold(); ok(cuGraphLaunch(h2, held)), cuGraphDestroy(h))

// Other processes.
ROW(ipc_event_get, "cuIpcGetEventHandle", 0, h = new_event(EVENT_INTERPROCESS), cuIpcGetEventHandle(ipc, h))
ROW(ipc_event_open, "cuIpcOpenEventHandle", HELPER, shared(ipc), cuIpcOpenEventHandle(&h, ipc[SHARED_EVENT]))
#define OPENED shared(ipc); ok(cuIpcOpenEventHandle(&h, ipc[SHARED_EVENT]))
ROW(ipc_event_record, "cuEventRecord, opened event, free stream", HELPER, OPENED, cuEventRecord(h, idle))
ROW(ipc_event_query, "cuEventQuery, opened event", HELPER, OPENED, cuEventQuery(h))
ROW(ipc_event_wait, "cuStreamWaitEvent, opened event, free stream", HELPER, OPENED, cuStreamWaitEvent(idle, h, 0))
ROW(ipc_event_destroy, "cuEventDestroy, opened event", HELPER, OPENED, cuEventDestroy(h))
ROW(ipc_event_destroy2, "cuEventDestroy, opened event, pending", HELPER,
    OPENED; hold(); ok(cuEventRecord(h, held)), cuEventDestroy(h))
ROW(ipc_mem_get, "cuIpcGetMemHandle", 0, d = new_mem(2 << 20), cuIpcGetMemHandle(ipc, d))
ROW(ipc_mem_open, "cuIpcOpenMemHandle", HELPER, shared(ipc), cuIpcOpenMemHandle(&d, ipc[SHARED_MEM], 1))
ROW(ipc_mem_close, "cuIpcCloseMemHandle", HELPER,
    shared(ipc); ok(cuIpcOpenMemHandle(&d, ipc[SHARED_MEM], 1)), cuIpcCloseMemHandle(d))
ROW(ipc_mem_free, "cuMemFree of memory with a handle", 0,
    d = new_mem(2 << 20); ok(cuIpcGetMemHandle(ipc, d)), cuMemFree(d))

// Checkpoints of another process, which has a context. Those of this one would block its own calls.
static unsigned long long no_args[8], lock_args[8] = {10000}; // ms
static int neighbor(void) {
	shared(ipc);
	return helper;
}
static int locked(void) {
	int pid = neighbor();
	ok(cuCheckpointProcessLock(pid, lock_args));
	return pid;
}
static int checkpointed(void) {
	int pid = locked();
	ok(cuCheckpointProcessCheckpoint(pid, no_args));
	return pid;
}
ROW(state_own, "cuCheckpointProcessGetState, of this process", 0, , cuCheckpointProcessGetState(getpid(), &i1))
ROW(thread_own, "cuCheckpointProcessGetRestoreThreadId, of this process", 0, ,
    cuCheckpointProcessGetRestoreThreadId(getpid(), &i1))
ROW(state_other, "cuCheckpointProcessGetState, of another process", NEIGHBOR, i2 = neighbor(),
    cuCheckpointProcessGetState(i2, &i1))
ROW(thread_other, "cuCheckpointProcessGetRestoreThreadId, of another process", NEIGHBOR, i2 = neighbor(),
    cuCheckpointProcessGetRestoreThreadId(i2, &i1))
ROW(lock, "cuCheckpointProcessLock, of another process", NEIGHBOR, i2 = neighbor(),
    cuCheckpointProcessLock(i2, lock_args))
ROW(checkpoint, "cuCheckpointProcessCheckpoint, of another process", NEIGHBOR, i2 = locked(),
    cuCheckpointProcessCheckpoint(i2, no_args))
ROW(restore, "cuCheckpointProcessRestore, of another process", NEIGHBOR, i2 = checkpointed(),
    cuCheckpointProcessRestore(i2, no_args))
ROW(unlock, "cuCheckpointProcessUnlock, of another process", NEIGHBOR, i2 = locked(),
    cuCheckpointProcessUnlock(i2, no_args))

// When memory comes back that cuMemFreeAsync frees. These rows have numbers: MiB that are free.
static double free_mib(void) {
	ok(cuMemGetInfo(&z1, &z2));
	return (double)z1 / (1 << 20);
}
static void comes_back(int how) {
	H s = new_stream(STREAM_NON_BLOCKING), e = new_event(EVENT_UNTIMED);
	double before, after, then, later, last;
	d = new_mem(1 << 30);
	ok(cuMemsetD8(d, 1, 1 << 30));
	before = free_mib();
	hold();
	ok(cuMemFreeAsync(d, s));
	ok(cuEventRecord(e, s));
	after = free_mib();
	sleep_ms(200);
	then = free_mib();
	for (int i = 0; i < 100 && how == 1 && cuStreamQuery(s) == NOT_READY; i++)
		sleep_ms(1);
	for (int i = 0; i < 100 && how == 2 && cuEventQuery(e) == NOT_READY; i++)
		sleep_ms(1);
	if (how == 3)
		ok(cuEventSynchronize(e));
	if (how == 4)
		ok(cuStreamSynchronize(s));
	if (how == 5) // another allocation that needs the room
		ok(cuMemAlloc(&d, 1 << 20));
	if (how == 6)
		ok(cuStreamDestroy(s));
	later = free_mib();
	let_go();
	ok(cuCtxSynchronize());
	last = free_mib();
	say("%+.0f at once, %+.0f after 0.2 s, %+.0f after that call, %+.0f after cuCtxSynchronize", after - before,
	    then - before, later - before, last - before);
}
CASE(back_query, "MiB free after cuMemFreeAsync of 1 GiB from cuMemAlloc, idle stream: cuStreamQuery", ALONE) {
	comes_back(1);
}
CASE(back_event, "MiB free after cuMemFreeAsync of 1 GiB from cuMemAlloc, idle stream: cuEventQuery", ALONE) {
	comes_back(2);
}
CASE(back_synced, "MiB free after cuMemFreeAsync of 1 GiB from cuMemAlloc, idle stream: cuEventSynchronize", ALONE) {
	comes_back(3);
}
CASE(back_sync, "MiB free after cuMemFreeAsync of 1 GiB from cuMemAlloc, idle stream: cuStreamSynchronize", ALONE) {
	comes_back(4);
}
CASE(back_alloc, "MiB free after cuMemFreeAsync of 1 GiB from cuMemAlloc, idle stream: cuMemAlloc of 1 MiB", ALONE) {
	comes_back(5);
}
CASE(back_destroy, "MiB free after cuMemFreeAsync of 1 GiB from cuMemAlloc, idle stream: cuStreamDestroy", ALONE) {
	comes_back(6);
}

#include "blocking_external.h"
