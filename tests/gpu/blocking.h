// What blocking.c uses of the driver: the functions, as far as package cu calls them, under the names
// that the library exports, and the constants. Everything is looked up with dlsym, so that a driver
// without a function is measured, too.
#include <stddef.h>

typedef void *H;              // a handle
typedef unsigned long long D; // a CUdeviceptr
typedef unsigned U;
typedef struct {
	unsigned long long words[18];
} Resource; // a CUdevResource: its type, 92 bytes, and 48 for what the type says
typedef struct {
	char bytes[64];
} Ipc; // a CUipcEventHandle or CUipcMemHandle
typedef struct {
	char bytes[16];
} Uuid;
typedef struct {
	U grid[3], block[3], shared;
	H stream;
	void *attributes;
	U count;
} LaunchConfig;
typedef struct {
	U operation;
	D address;
	unsigned long long value;
	U flags;
	D alias, rest;
} MemOp; // a CUstreamBatchMemOpParams
typedef struct {
	H context;
	U count;
	MemOp *ops;
	U flags;
} BatchParams; // a CUDA_BATCH_MEM_OP_NODE_PARAMS_v2
typedef struct {
	int type, reserved[3];
	unsigned long long condition;
	U kind, bodies;
	H *body;
	H context;
	long long rest[26];
} NodeParams; // a CUgraphNodeParams, of a conditional node, or of a child graph with the handle condition
typedef struct {
	H function;
	U grid[3], block[3], shared;
	void **params, **extra;
	H kernel, context;
} KernelParams; // a CUDA_KERNEL_NODE_PARAMS_v2
typedef struct {
	size_t src_place[4];
	U src_type;
	const void *src_host;
	D src;
	H src_array, reserved0;
	size_t src_pitch, src_height, dst_place[4];
	U dst_type;
	void *dst_host;
	D dst;
	H dst_array, reserved1;
	size_t dst_pitch, dst_height, width, height, depth;
} CopyParams; // a CUDA_MEMCPY3D_v2
typedef struct {
	D dst;
	size_t pitch;
	U value, size;
	size_t width, height;
} SetParams; // a CUDA_MEMSET_NODE_PARAMS_v1
typedef struct {
	int result;
	H node, from;
} UpdateInfo; // a CUgraphExecUpdateResultInfo_v1
typedef struct {
	void (*function)(void *);
	void *data;
} HostParams; // a CUDA_HOST_NODE_PARAMS_v1
typedef struct {
	unsigned long long flags;
	H stream, node;
	U result;
} InstantiateParams; // a CUDA_GRAPH_INSTANTIATE_PARAMS
typedef struct {
	int type, id;
} Location; // a CUmemLocation
typedef struct {
	int order;
	Location from, to;
	U flags;
} CopyWay; // a CUmemcpyAttributes
typedef struct {
	struct {
		int type;
		D at;
		size_t row, height;
		Location hint;
	} src, dst;
	size_t width, height, depth;
	int order;
	U flags;
} BoxCopy; // a CUDA_MEMCPY3D_BATCH_OP
typedef struct {
	int type, handles;
	Location location;
	void *security;
	size_t max;
	char reserved[56];
} PoolProps; // a CUmemPoolProps
typedef struct {
	int type, handles;
	Location location;
	void *security;
	unsigned char flags[8];
} PhysicalProps; // a CUmemAllocationProp
typedef struct {
	Location location;
	int flags;
} Access; // a CUmemAccessDesc
typedef struct {
	int type;
	union {
		int file;
		void *words[2];
	} handle;
	unsigned long long size;
	U flags, reserved[16];
} ExternalMem; // a CUDA_EXTERNAL_MEMORY_HANDLE_DESC
typedef struct {
	unsigned long long offset, size;
	U flags, reserved[16];
} ExternalRange; // a CUDA_EXTERNAL_MEMORY_BUFFER_DESC
typedef struct {
	int type;
	union {
		int file;
		void *words[2];
	} handle;
	U flags, reserved[16];
} ExternalSem; // a CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC
typedef struct {
	unsigned long long value, sci, key;
	U rest[12], flags, reserved[16];
} ExternalSignal; // a CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS
typedef struct {
	unsigned long long value, sci, key;
	U timeout, rest[11], flags, reserved[16];
} ExternalWait; // a CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS
typedef struct {
	H *semaphores;
	const ExternalSignal *signals;
	U count;
} SignalNodeParams; // a CUDA_EXT_SEM_SIGNAL_NODE_PARAMS
typedef struct {
	H *semaphores;
	const ExternalWait *waits;
	U count;
} WaitNodeParams; // a CUDA_EXT_SEM_WAIT_NODE_PARAMS
typedef struct {
	PoolProps pool;
	const Access *access;
	size_t accesses, size;
	D at;
} AllocNodeParams; // a CUDA_MEM_ALLOC_NODE_PARAMS
typedef struct {
	size_t x, y;
	int type;
	void *host;
	D device;
	void *array;
	size_t pitch;
} End2;
typedef struct {
	End2 from, to;
	size_t width, height;
} Copy2; // a CUDA_MEMCPY2D
typedef struct {
	size_t x, y, z, lod;
	int type;
	void *host;
	D device;
	void *array, *reserved;
	size_t pitch, height;
} End3;
typedef struct {
	End3 from, to;
	size_t width, height, depth;
} Copy3; // a CUDA_MEMCPY3D

// F(name here, name of the export, parameters)
#define FUNCTIONS(F)                                                                                                   \
	F(cuInit, "cuInit", (U))                                                                                       \
	F(cuDriverGetVersion, "cuDriverGetVersion", (int *))                                                           \
	F(cuGetErrorName, "cuGetErrorName", (int, const char **))                                                      \
	F(cuGetErrorString, "cuGetErrorString", (int, const char **))                                                  \
	F(cuGetProcAddress, "cuGetProcAddress_v2", (const char *, void **, int, unsigned long long, int *))            \
	F(cuDeviceGet, "cuDeviceGet", (int *, int))                                                                    \
	F(cuDeviceGetCount, "cuDeviceGetCount", (int *))                                                               \
	F(cuDeviceGetName, "cuDeviceGetName", (char *, int, int))                                                      \
	F(cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", (int *, const char *))                                       \
	F(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char *, int, int))                                              \
	F(cuDeviceGetUuid, "cuDeviceGetUuid", (Uuid *, int))                                                           \
	F(cuDeviceGetUuid_v2, "cuDeviceGetUuid_v2", (Uuid *, int))                                                     \
	F(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, int))                                             \
	F(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *, int))                                                    \
	F(cuDeviceCanAccessPeer, "cuDeviceCanAccessPeer", (int *, int, int))                                           \
	F(cuDeviceGetP2PAttribute, "cuDeviceGetP2PAttribute", (int *, int, int, int))                                  \
	F(cuDeviceGetDevResource, "cuDeviceGetDevResource", (int, Resource *, int))                                    \
	F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (H *, int))                                            \
	F(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int))                                            \
	F(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset_v2", (int))                                                \
	F(cuDevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", (int, U *, int *))                                 \
	F(cuDevicePrimaryCtxSetFlags, "cuDevicePrimaryCtxSetFlags_v2", (int, U))                                       \
	F(cuCtxCreate_v2, "cuCtxCreate_v2", (H *, U, int))                                                             \
	F(cuCtxCreate_v4, "cuCtxCreate_v4", (H *, void *, U, int))                                                     \
	F(cuCtxDestroy, "cuCtxDestroy_v2", (H))                                                                        \
	F(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (H))                                                                \
	F(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (H *))                                                                \
	F(cuCtxGetCurrent, "cuCtxGetCurrent", (H *))                                                                   \
	F(cuCtxSetCurrent, "cuCtxSetCurrent", (H))                                                                     \
	F(cuCtxGetDevice, "cuCtxGetDevice", (int *))                                                                   \
	F(cuCtxGetFlags, "cuCtxGetFlags", (U *))                                                                       \
	F(cuCtxSetFlags, "cuCtxSetFlags", (U))                                                                         \
	F(cuCtxSynchronize, "cuCtxSynchronize", (void))                                                                \
	F(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int *, int *))                                  \
	F(cuCtxGetApiVersion, "cuCtxGetApiVersion", (H, U *))                                                          \
	F(cuCtxGetId, "cuCtxGetId", (H, unsigned long long *))                                                         \
	F(cuCtxGetLimit, "cuCtxGetLimit", (size_t *, int))                                                             \
	F(cuCtxSetLimit, "cuCtxSetLimit", (int, size_t))                                                               \
	F(cuCtxRecordEvent, "cuCtxRecordEvent", (H, H))                                                                \
	F(cuCtxWaitEvent, "cuCtxWaitEvent", (H, H))                                                                    \
	F(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", (H, U))                                                      \
	F(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", (H))                                                       \
	F(cuDevSmResourceSplitByCount, "cuDevSmResourceSplitByCount",                                                  \
	  (Resource *, U *, const Resource *, Resource *, U, U))                                                       \
	F(cuDevResourceGenerateDesc, "cuDevResourceGenerateDesc", (H *, Resource *, U))                                \
	F(cuGreenCtxCreate, "cuGreenCtxCreate", (H *, H, int, U))                                                      \
	F(cuGreenCtxDestroy, "cuGreenCtxDestroy", (H))                                                                 \
	F(cuGreenCtxGetDevResource, "cuGreenCtxGetDevResource", (H, Resource *, int))                                  \
	F(cuGreenCtxRecordEvent, "cuGreenCtxRecordEvent", (H, H))                                                      \
	F(cuGreenCtxWaitEvent, "cuGreenCtxWaitEvent", (H, H))                                                          \
	F(cuGreenCtxStreamCreate, "cuGreenCtxStreamCreate", (H *, H, U, int))                                          \
	F(cuCtxFromGreenCtx, "cuCtxFromGreenCtx", (H *, H))                                                            \
	F(cuEventCreate, "cuEventCreate", (H *, U))                                                                    \
	F(cuEventDestroy, "cuEventDestroy_v2", (H))                                                                    \
	F(cuEventRecord, "cuEventRecord", (H, H))                                                                      \
	F(cuEventRecordWithFlags, "cuEventRecordWithFlags", (H, H, U))                                                 \
	F(cuEventQuery, "cuEventQuery", (H))                                                                           \
	F(cuEventSynchronize, "cuEventSynchronize", (H))                                                               \
	F(cuEventElapsedTime, "cuEventElapsedTime", (float *, H, H))                                                   \
	F(cuEventElapsedTime_v2, "cuEventElapsedTime_v2", (float *, H, H))                                             \
	F(cuStreamCreate, "cuStreamCreate", (H *, U))                                                                  \
	F(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (H *, U, int))                                     \
	F(cuStreamDestroy, "cuStreamDestroy_v2", (H))                                                                  \
	F(cuStreamQuery, "cuStreamQuery", (H))                                                                         \
	F(cuStreamSynchronize, "cuStreamSynchronize", (H))                                                             \
	F(cuStreamWaitEvent, "cuStreamWaitEvent", (H, H, U))                                                           \
	F(cuStreamGetCtx, "cuStreamGetCtx", (H, H *))                                                                  \
	F(cuStreamGetFlags, "cuStreamGetFlags", (H, U *))                                                              \
	F(cuStreamGetPriority, "cuStreamGetPriority", (H, int *))                                                      \
	F(cuStreamGetId, "cuStreamGetId", (H, unsigned long long *))                                                   \
	F(cuStreamGetDevice, "cuStreamGetDevice", (H, int *))                                                          \
	F(cuStreamWaitValue32, "cuStreamWaitValue32_v2", (H, D, U, U))                                                 \
	F(cuStreamWaitValue64, "cuStreamWaitValue64_v2", (H, D, unsigned long long, U))                                \
	F(cuStreamWriteValue32, "cuStreamWriteValue32_v2", (H, D, U, U))                                               \
	F(cuStreamWriteValue64, "cuStreamWriteValue64_v2", (H, D, unsigned long long, U))                              \
	F(cuStreamBatchMemOp, "cuStreamBatchMemOp_v2", (H, U, MemOp *, U))                                             \
	F(cuStreamAddCallback, "cuStreamAddCallback", (H, void (*)(H, int, void *), void *, U))                        \
	F(cuLaunchHostFunc, "cuLaunchHostFunc", (H, void (*)(void *), void *))                                         \
	F(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (H, int))                                                   \
	F(cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", (H, H, const H *, const void *, size_t, int))    \
	F(cuStreamEndCapture, "cuStreamEndCapture", (H, H *))                                                          \
	F(cuStreamIsCapturing, "cuStreamIsCapturing", (H, int *))                                                      \
	F(cuStreamGetCaptureInfo_v2, "cuStreamGetCaptureInfo_v2",                                                      \
	  (H, int *, unsigned long long *, H *, const H **, size_t *))                                                 \
	F(cuStreamGetCaptureInfo_v3, "cuStreamGetCaptureInfo_v3",                                                      \
	  (H, int *, unsigned long long *, H *, const H **, const void **, size_t *))                                  \
	F(cuStreamUpdateCaptureDependencies, "cuStreamUpdateCaptureDependencies", (H, H *, size_t, U))                 \
	F(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *))                             \
	F(cuGraphCreate, "cuGraphCreate", (H *, U))                                                                    \
	F(cuGraphDestroy, "cuGraphDestroy", (H))                                                                       \
	F(cuGraphClone, "cuGraphClone", (H *, H))                                                                      \
	F(cuGraphDebugDotPrint, "cuGraphDebugDotPrint", (H, const char *, U))                                          \
	F(cuGraphAddEmptyNode, "cuGraphAddEmptyNode", (H *, H, const H *, size_t))                                     \
	F(cuGraphAddEventRecordNode, "cuGraphAddEventRecordNode", (H *, H, const H *, size_t, H))                      \
	F(cuGraphAddEventWaitNode, "cuGraphAddEventWaitNode", (H *, H, const H *, size_t, H))                          \
	F(cuGraphEventRecordNodeGetEvent, "cuGraphEventRecordNodeGetEvent", (H, H *))                                  \
	F(cuGraphEventRecordNodeSetEvent, "cuGraphEventRecordNodeSetEvent", (H, H))                                    \
	F(cuGraphEventWaitNodeGetEvent, "cuGraphEventWaitNodeGetEvent", (H, H *))                                      \
	F(cuGraphEventWaitNodeSetEvent, "cuGraphEventWaitNodeSetEvent", (H, H))                                        \
	F(cuGraphGetNodes, "cuGraphGetNodes", (H, H *, size_t *))                                                      \
	F(cuGraphGetEdges, "cuGraphGetEdges", (H, H *, H *, size_t *))                                                 \
	F(cuGraphNodeGetType, "cuGraphNodeGetType", (H, int *))                                                        \
	F(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", (H *, H, unsigned long long))                    \
	F(cuGraphExecUpdate, "cuGraphExecUpdate", (H, H, H *, int *))                                                  \
	F(cuGraphExecEventRecordNodeSetEvent, "cuGraphExecEventRecordNodeSetEvent", (H, H, H))                         \
	F(cuGraphExecEventWaitNodeSetEvent, "cuGraphExecEventWaitNodeSetEvent", (H, H, H))                             \
	F(cuGraphAddKernelNode, "cuGraphAddKernelNode_v2", (H *, H, const H *, size_t, const KernelParams *))          \
	F(cuGraphAddMemcpyNode, "cuGraphAddMemcpyNode", (H *, H, const H *, size_t, const CopyParams *, H))            \
	F(cuGraphAddMemsetNode, "cuGraphAddMemsetNode", (H *, H, const H *, size_t, const SetParams *, H))             \
	F(cuGraphAddHostNode, "cuGraphAddHostNode", (H *, H, const H *, size_t, const HostParams *))                   \
	F(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", (H *, H, const H *, size_t, AllocNodeParams *))            \
	F(cuGraphAddMemFreeNode, "cuGraphAddMemFreeNode", (H *, H, const H *, size_t, D))                              \
	F(cuGraphAddChildGraphNode, "cuGraphAddChildGraphNode", (H *, H, const H *, size_t, H))                        \
	F(cuGraphKernelNodeSetParams, "cuGraphKernelNodeSetParams_v2", (H, const KernelParams *))                      \
	F(cuGraphKernelNodeSetAttribute, "cuGraphKernelNodeSetAttribute", (H, int, const void *))                      \
	F(cuGraphKernelNodeGetAttribute, "cuGraphKernelNodeGetAttribute", (H, int, void *))                            \
	F(cuGraphKernelNodeGetParams, "cuGraphKernelNodeGetParams_v2", (H, KernelParams *))                            \
	F(cuGraphMemcpyNodeGetParams, "cuGraphMemcpyNodeGetParams", (H, CopyParams *))                                 \
	F(cuGraphMemsetNodeGetParams, "cuGraphMemsetNodeGetParams", (H, SetParams *))                                  \
	F(cuGraphHostNodeGetParams, "cuGraphHostNodeGetParams", (H, HostParams *))                                     \
	F(cuGraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph", (H, H *))                                    \
	F(cuGraphExecGetFlags, "cuGraphExecGetFlags", (H, unsigned long long *))                                       \
	F(cuGraphExecUpdate_v2, "cuGraphExecUpdate_v2", (H, H, UpdateInfo *))                                          \
	F(cuGraphMemcpyNodeSetParams, "cuGraphMemcpyNodeSetParams", (H, const CopyParams *))                           \
	F(cuGraphMemsetNodeSetParams, "cuGraphMemsetNodeSetParams", (H, const SetParams *))                            \
	F(cuGraphHostNodeSetParams, "cuGraphHostNodeSetParams", (H, const HostParams *))                               \
	F(cuGraphDestroyNode, "cuGraphDestroyNode", (H))                                                               \
	F(cuGraphAddDependencies, "cuGraphAddDependencies", (H, const H *, const H *, size_t))                         \
	F(cuGraphAddDependencies_v2, "cuGraphAddDependencies_v2", (H, const H *, const H *, const void *, size_t))     \
	F(cuGraphGetEdges_v2, "cuGraphGetEdges_v2", (H, H *, H *, void *, size_t *))                                   \
	F(cuGraphConditionalHandleCreate, "cuGraphConditionalHandleCreate", (unsigned long long *, H, H, U, U))        \
	F(cuGraphAddNode, "cuGraphAddNode_v2", (H *, H, const H *, const void *, size_t, NodeParams *))                \
	F(cuGraphNodeSetParams, "cuGraphNodeSetParams", (H, NodeParams *))                                             \
	F(cuGraphAddBatchMemOpNode, "cuGraphAddBatchMemOpNode", (H *, H, const H *, size_t, const BatchParams *))      \
	F(cuGraphBatchMemOpNodeGetParams, "cuGraphBatchMemOpNodeGetParams", (H, BatchParams *))                        \
	F(cuGraphBatchMemOpNodeSetParams, "cuGraphBatchMemOpNodeSetParams", (H, const BatchParams *))                  \
	F(cuGraphExecBatchMemOpNodeSetParams, "cuGraphExecBatchMemOpNodeSetParams", (H, H, const BatchParams *))       \
	F(cuGraphMemAllocNodeGetParams, "cuGraphMemAllocNodeGetParams", (H, AllocNodeParams *))                        \
	F(cuGraphMemFreeNodeGetParams, "cuGraphMemFreeNodeGetParams", (H, D *))                                        \
	F(cuGraphRemoveDependencies, "cuGraphRemoveDependencies", (H, const H *, const H *, size_t))                   \
	F(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", (H *, H, InstantiateParams *))                 \
	F(cuGraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2", (H, H, const KernelParams *))           \
	F(cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams", (H, H, const CopyParams *, H))             \
	F(cuGraphExecMemsetNodeSetParams, "cuGraphExecMemsetNodeSetParams", (H, H, const SetParams *, H))              \
	F(cuGraphExecHostNodeSetParams, "cuGraphExecHostNodeSetParams", (H, H, const HostParams *))                    \
	F(cuGraphExecChildGraphNodeSetParams, "cuGraphExecChildGraphNodeSetParams", (H, H, H))                         \
	F(cuGraphNodeSetEnabled, "cuGraphNodeSetEnabled", (H, H, U))                                                   \
	F(cuGraphNodeGetEnabled, "cuGraphNodeGetEnabled", (H, H, U *))                                                 \
	F(cuGraphLaunch, "cuGraphLaunch", (H, H))                                                                      \
	F(cuGraphUpload, "cuGraphUpload", (H, H))                                                                      \
	F(cuGraphExecDestroy, "cuGraphExecDestroy", (H))                                                               \
	F(cuIpcGetEventHandle, "cuIpcGetEventHandle", (Ipc *, H))                                                      \
	F(cuIpcOpenEventHandle, "cuIpcOpenEventHandle", (H *, Ipc))                                                    \
	F(cuIpcGetMemHandle, "cuIpcGetMemHandle", (Ipc *, D))                                                          \
	F(cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2", (D *, Ipc, U))                                                  \
	F(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", (D))                                                             \
	F(cuCheckpointProcessGetState, "cuCheckpointProcessGetState", (int, int *))                                    \
	F(cuCheckpointProcessGetRestoreThreadId, "cuCheckpointProcessGetRestoreThreadId", (int, int *))                \
	F(cuCheckpointProcessLock, "cuCheckpointProcessLock", (int, void *))                                           \
	F(cuCheckpointProcessCheckpoint, "cuCheckpointProcessCheckpoint", (int, void *))                               \
	F(cuCheckpointProcessRestore, "cuCheckpointProcessRestore", (int, void *))                                     \
	F(cuCheckpointProcessUnlock, "cuCheckpointProcessUnlock", (int, void *))                                       \
	F(cuMemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                                                       \
	F(cuMemAlloc, "cuMemAlloc_v2", (D *, size_t))                                                                  \
	F(cuMemFree, "cuMemFree_v2", (D))                                                                              \
	F(cuMemAllocAsync, "cuMemAllocAsync", (D *, size_t, H))                                                        \
	F(cuMemFreeAsync, "cuMemFreeAsync", (D, H))                                                                    \
	F(cuMemHostAlloc, "cuMemHostAlloc", (void **, size_t, U))                                                      \
	F(cuMemFreeHost, "cuMemFreeHost", (void *))                                                                    \
	F(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (D *, void *, U))                                 \
	F(cuMemHostGetFlags, "cuMemHostGetFlags", (U *, void *))                                                       \
	F(cuMemHostRegister, "cuMemHostRegister_v2", (void *, size_t, U))                                              \
	F(cuMemHostUnregister, "cuMemHostUnregister", (void *))                                                        \
	F(cuMemcpyHtoD, "cuMemcpyHtoD_v2", (D, const void *, size_t))                                                  \
	F(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *, D, size_t))                                                        \
	F(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (D, const void *, size_t, H))                                     \
	F(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, D, size_t, H))                                           \
	F(cuMemcpyDtoD, "cuMemcpyDtoD_v2", (D, D, size_t))                                                             \
	F(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (D, D, size_t, H))                                                \
	F(cuMemcpyAsync, "cuMemcpyAsync", (D, D, size_t, H))                                                           \
	F(cuMemcpyPeer, "cuMemcpyPeer", (D, H, D, H, size_t))                                                          \
	F(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", (D, H, D, H, size_t, H))                                             \
	F(cuMemsetD8, "cuMemsetD8_v2", (D, unsigned char, size_t))                                                     \
	F(cuMemsetD32, "cuMemsetD32_v2", (D, U, size_t))                                                               \
	F(cuMemsetD8Async, "cuMemsetD8Async", (D, unsigned char, size_t, H))                                           \
	F(cuMemsetD16Async, "cuMemsetD16Async", (D, unsigned short, size_t, H))                                        \
	F(cuMemsetD32Async, "cuMemsetD32Async", (D, U, size_t, H))                                                     \
	F(cuPointerGetAttribute, "cuPointerGetAttribute", (void *, int, D))                                            \
	F(cuPointerGetAttributes, "cuPointerGetAttributes", (U, int *, void **, D))                                    \
	F(cuMemcpyBatchAsync, "cuMemcpyBatchAsync_v2", (D *, D *, size_t *, size_t, const CopyWay *, size_t *, size_t, H)) \
	F(cuMemcpy3DBatchAsync, "cuMemcpy3DBatchAsync_v2", (size_t, const BoxCopy *, unsigned long long, H))           \
	F(cuMemPrefetchBatchAsync, "cuMemPrefetchBatchAsync", (D *, size_t *, size_t, Location *, size_t *, size_t, unsigned long long, H)) \
	F(cuMemDiscardBatchAsync, "cuMemDiscardBatchAsync", (D *, size_t *, size_t, unsigned long long, H))            \
	F(cuMemDiscardAndPrefetchBatchAsync, "cuMemDiscardAndPrefetchBatchAsync", (D *, size_t *, size_t, Location *, size_t *, size_t, unsigned long long, H)) \
	F(cuMemAllocPitch, "cuMemAllocPitch_v2", (D *, size_t *, size_t, size_t, U))                                   \
	F(cuMemcpy2DAsync, "cuMemcpy2DAsync_v2", (const Copy2 *, H))                                                   \
	F(cuMemcpy3DAsync, "cuMemcpy3DAsync_v2", (const Copy3 *, H))                                                   \
	F(cuMemsetD2D8Async, "cuMemsetD2D8Async", (D, size_t, unsigned char, size_t, size_t, H))                       \
	F(cuMemsetD2D16Async, "cuMemsetD2D16Async", (D, size_t, unsigned short, size_t, size_t, H))                    \
	F(cuMemsetD2D32Async, "cuMemsetD2D32Async", (D, size_t, U, size_t, size_t, H))                                 \
	F(cuMemGetAddressRange, "cuMemGetAddressRange_v2", (D *, size_t *, D))                                         \
	F(cuMemAllocManaged, "cuMemAllocManaged", (D *, size_t, U))                                                    \
	F(cuMemAdvise, "cuMemAdvise_v2", (D, size_t, int, Location))                                                   \
	F(cuMemPrefetchAsync, "cuMemPrefetchAsync_v2", (D, size_t, Location, U, H))                                    \
	F(cuMemRangeGetAttribute, "cuMemRangeGetAttribute", (void *, size_t, int, D, size_t))                          \
	F(cuStreamAttachMemAsync, "cuStreamAttachMemAsync", (H, D, size_t, U))                                         \
	F(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", (H *, int))                                          \
	F(cuDeviceGetMemPool, "cuDeviceGetMemPool", (H *, int))                                                        \
	F(cuDeviceSetMemPool, "cuDeviceSetMemPool", (int, H))                                                          \
	F(cuMemPoolCreate, "cuMemPoolCreate", (H *, const PoolProps *))                                                \
	F(cuMemPoolDestroy, "cuMemPoolDestroy", (H))                                                                   \
	F(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", (H, int, void *))                                            \
	F(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", (H, int, void *))                                            \
	F(cuMemPoolTrimTo, "cuMemPoolTrimTo", (H, size_t))                                                             \
	F(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", (int))                                                         \
	F(cuCtxResetPersistingL2Cache, "cuCtxResetPersistingL2Cache", (void))                                          \
	F(cuProfilerStart, "cuProfilerStart", (void))                                                                  \
	F(cuProfilerStop, "cuProfilerStop", (void))                                                                    \
	F(cuMemPoolImportFromShareableHandle, "cuMemPoolImportFromShareableHandle", (H *, void *, int, unsigned long long)) \
	F(cuMemPoolImportPointer, "cuMemPoolImportPointer", (D *, H, Ipc *))                                           \
	F(cuDeviceGetGraphMemAttribute, "cuDeviceGetGraphMemAttribute", (int, int, void *))                            \
	F(cuDeviceSetGraphMemAttribute, "cuDeviceSetGraphMemAttribute", (int, int, void *))                            \
	F(cuCtxGetExecAffinity, "cuCtxGetExecAffinity", (void *, int))                                                 \
	F(cuDeviceGetExecAffinitySupport, "cuDeviceGetExecAffinitySupport", (int *, int, int))                         \
	F(cuLogsCurrent, "cuLogsCurrent", (U *, U))                                                                    \
	F(cuLogsDumpToMemory, "cuLogsDumpToMemory", (U *, char *, size_t *, U))                                        \
	F(cuStreamGetAttribute, "cuStreamGetAttribute", (H, int, void *))                                              \
	F(cuStreamSetAttribute, "cuStreamSetAttribute", (H, int, const void *))                                        \
	F(cuStreamCopyAttributes, "cuStreamCopyAttributes", (H, H))                                                    \
	F(cuMemPoolGetAccess, "cuMemPoolGetAccess", (int *, H, Location *))                                            \
	F(cuMemPoolSetAccess, "cuMemPoolSetAccess", (H, const Access *, size_t))                                       \
	F(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", (D *, size_t, H, H))                                     \
	F(cuMemPoolExportToShareableHandle, "cuMemPoolExportToShareableHandle", (void *, H, int, unsigned long long))  \
	F(cuMemPoolExportPointer, "cuMemPoolExportPointer", (Ipc *, D))                                                \
	F(cuMemAddressReserve, "cuMemAddressReserve", (D *, size_t, size_t, D, unsigned long long))                    \
	F(cuMemAddressFree, "cuMemAddressFree", (D, size_t))                                                           \
	F(cuMemCreate, "cuMemCreate", (unsigned long long *, size_t, const PhysicalProps *, unsigned long long))       \
	F(cuMemRelease, "cuMemRelease", (unsigned long long))                                                          \
	F(cuMemMap, "cuMemMap", (D, size_t, size_t, unsigned long long, unsigned long long))                           \
	F(cuMemUnmap, "cuMemUnmap", (D, size_t))                                                                       \
	F(cuMemSetAccess, "cuMemSetAccess", (D, size_t, const Access *, size_t))                                       \
	F(cuMemGetAccess, "cuMemGetAccess", (unsigned long long *, const Location *, D))                               \
	F(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", (size_t *, const PhysicalProps *, int))      \
	F(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", (void *, unsigned long long, int, unsigned long long)) \
	F(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", (unsigned long long *, void *, int))       \
	F(cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle", (PhysicalProps *, unsigned long long)) \
	F(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", (unsigned long long *, void *))                  \
	F(cuImportExternalMemory, "cuImportExternalMemory", (H *, const ExternalMem *))                                \
	F(cuExternalMemoryGetMappedBuffer, "cuExternalMemoryGetMappedBuffer", (D *, H, const ExternalRange *))         \
	F(cuDestroyExternalMemory, "cuDestroyExternalMemory", (H))                                                     \
	F(cuImportExternalSemaphore, "cuImportExternalSemaphore", (H *, const ExternalSem *))                          \
	F(cuDestroyExternalSemaphore, "cuDestroyExternalSemaphore", (H))                                               \
	F(cuSignalExternalSemaphoresAsync, "cuSignalExternalSemaphoresAsync",                                          \
	  (const H *, const ExternalSignal *, U, H))                                                                   \
	F(cuWaitExternalSemaphoresAsync, "cuWaitExternalSemaphoresAsync",                                              \
	  (const H *, const ExternalWait *, U, H))                                                                     \
	F(cuGraphAddExternalSemaphoresSignalNode, "cuGraphAddExternalSemaphoresSignalNode",                            \
	  (H *, H, const H *, size_t, const SignalNodeParams *))                                                       \
	F(cuGraphAddExternalSemaphoresWaitNode, "cuGraphAddExternalSemaphoresWaitNode",                                \
	  (H *, H, const H *, size_t, const WaitNodeParams *))                                                         \
	F(cuGraphExternalSemaphoresSignalNodeGetParams, "cuGraphExternalSemaphoresSignalNodeGetParams",                \
	  (H, SignalNodeParams *))                                                                                     \
	F(cuGraphExternalSemaphoresWaitNodeGetParams, "cuGraphExternalSemaphoresWaitNodeGetParams",                    \
	  (H, WaitNodeParams *))                                                                                       \
	F(cuGraphExternalSemaphoresSignalNodeSetParams, "cuGraphExternalSemaphoresSignalNodeSetParams",                \
	  (H, const SignalNodeParams *))                                                                               \
	F(cuGraphExternalSemaphoresWaitNodeSetParams, "cuGraphExternalSemaphoresWaitNodeSetParams",                    \
	  (H, const WaitNodeParams *))                                                                                 \
	F(cuGraphExecExternalSemaphoresSignalNodeSetParams, "cuGraphExecExternalSemaphoresSignalNodeSetParams",        \
	  (H, H, const SignalNodeParams *))                                                                            \
	F(cuGraphExecExternalSemaphoresWaitNodeSetParams, "cuGraphExecExternalSemaphoresWaitNodeSetParams",            \
	  (H, H, const WaitNodeParams *))                                                                              \
	F(cuModuleLoadData, "cuModuleLoadData", (H *, const void *))                                                   \
	F(cuModuleLoadDataEx, "cuModuleLoadDataEx", (H *, const void *, U, int *, void **))                            \
	F(cuModuleUnload, "cuModuleUnload", (H))                                                                       \
	F(cuModuleGetFunction, "cuModuleGetFunction", (H *, H, const char *))                                          \
	F(cuModuleGetGlobal, "cuModuleGetGlobal_v2", (D *, size_t *, H, const char *))                                 \
	F(cuLibraryLoadData, "cuLibraryLoadData", (H *, const void *, int *, void **, U, int *, void **, U))           \
	F(cuLibraryUnload, "cuLibraryUnload", (H))                                                                     \
	F(cuLibraryGetKernel, "cuLibraryGetKernel", (H *, H, const char *))                                            \
	F(cuLibraryGetKernelCount, "cuLibraryGetKernelCount", (U *, H))                                                \
	F(cuLibraryEnumerateKernels, "cuLibraryEnumerateKernels", (H *, U, H))                                         \
	F(cuLibraryGetModule, "cuLibraryGetModule", (H *, H))                                                          \
	F(cuLibraryGetGlobal, "cuLibraryGetGlobal", (D *, size_t *, H, const char *))                                  \
	F(cuLibraryGetManaged, "cuLibraryGetManaged", (D *, size_t *, H, const char *))                                \
	F(cuKernelGetParamInfo, "cuKernelGetParamInfo", (H, size_t, size_t *, size_t *))                               \
	F(cuKernelGetFunction, "cuKernelGetFunction", (H *, H))                                                        \
	F(cuKernelGetLibrary, "cuKernelGetLibrary", (H *, H))                                                          \
	F(cuKernelGetName, "cuKernelGetName", (const char **, H))                                                      \
	F(cuKernelGetAttribute, "cuKernelGetAttribute", (int *, int, H, int))                                          \
	F(cuKernelSetAttribute, "cuKernelSetAttribute", (int, int, H, int))                                            \
	F(cuLinkCreate, "cuLinkCreate_v2", (U, int *, void **, H *))                                                   \
	F(cuLinkAddData, "cuLinkAddData_v2", (H, int, void *, size_t, const char *, U, int *, void **))                \
	F(cuLinkComplete, "cuLinkComplete", (H, void **, size_t *))                                                    \
	F(cuLinkDestroy, "cuLinkDestroy", (H))                                                                         \
	F(cuFuncGetAttribute, "cuFuncGetAttribute", (int *, int, H))                                                   \
	F(cuFuncSetAttribute, "cuFuncSetAttribute", (H, int, int))                                                     \
	F(cuFuncLoad, "cuFuncLoad", (H))                                                                               \
	F(cuFuncIsLoaded, "cuFuncIsLoaded", (int *, H))                                                                \
	F(cuOccupancyAvailableDynamicSMemPerBlock, "cuOccupancyAvailableDynamicSMemPerBlock", (size_t *, H, int, int)) \
	F(cuFuncGetName, "cuFuncGetName", (const char **, H))                                                          \
	F(cuFuncGetParamInfo, "cuFuncGetParamInfo", (H, size_t, size_t *, size_t *))                                   \
	F(cuOccupancyMaxActiveBlocksPerMultiprocessor, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                  \
	  (int *, H, int, size_t))                                                                                     \
	F(cuOccupancyMaxPotentialBlockSize, "cuOccupancyMaxPotentialBlockSize", (int *, int *, H, H, size_t, int))     \
	F(cuLaunchKernel, "cuLaunchKernel", (H, U, U, U, U, U, U, U, H, void **, void **))                             \
	F(cuLaunchKernelEx, "cuLaunchKernelEx", (LaunchConfig *, H, void **, void **))                                 \
	F(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", (H, U, U, U, U, U, U, U, H, void **))

#define DECLARE(name, export, parameters) static int(*name) parameters;
FUNCTIONS(DECLARE)

enum {
	NOT_READY = 600,
	CTX_BLOCKING_SYNC = 4,
	EVENT_TIMED = 0,
	EVENT_BLOCKING_SYNC = 1,
	EVENT_UNTIMED = 2,
	EVENT_INTERPROCESS = 6, // without timing, as it has to be
	RECORD_EXTERNAL = 1,
	STREAM_DEFAULT = 0,
	STREAM_NON_BLOCKING = 1,
	WAIT_GEQ = 0,
	CAPTURE_GLOBAL = 0,
	CAPTURE_THREAD_LOCAL = 1,
	CAPTURE_RELAXED = 2,
	HOST_PORTABLE = 1,
	HOST_MAPPED = 2,
	HOST_WRITECOMBINED = 4,
	RESOURCE_SM = 1,
	GREEN_DEFAULT_STREAM = 1,
	LIMIT_STACK = 0,
	LIMIT_PRINTF = 1,
	LIMIT_HEAP = 2,
	LIMIT_PENDING_LAUNCHES = 4,
	LIMIT_L2_FETCH = 5,
	LIMIT_L2_PERSISTING = 6,
	ATTRIBUTE_MAX_DYNAMIC_SHARED = 8,
	LINK_PTX = 1,
};
