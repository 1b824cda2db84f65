package entries

import "github.com/purecu/purecu/driver"

// streamCalls are about attributes of streams, memory operations, and host functions.
func streamCalls() []call {
	return with(0,
		alone("cuStreamCreateWithPriority", func(w W, at A) R {
			s, r := w.StreamCreateWithPriority(at, driver.CU_STREAM_NON_BLOCKING, 0)
			return w.later(r, func(at A) R { return w.StreamDestroy(at, s) })
		}),
		onStream("cuStreamGetAttribute", func(w W, at A, s S) R {
			_, r := w.StreamGetAttribute(at, s, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY)
			return r
		}),
		onStream("cuStreamSetAttribute", func(w W, at A, s S) R {
			return w.StreamSetAttribute(at, s, driver.CU_LAUNCH_ATTRIBUTE_PRIORITY, driver.LaunchAttributeValue{})
		}),
		onStream("cuStreamCopyAttributes to", func(w W, at A, s S) R {
			return w.StreamCopyAttributes(at, s, w.streams[nonBlocking])
		}),
		onStream("cuStreamCopyAttributes from", func(w W, at A, s S) R {
			return w.StreamCopyAttributes(at, w.streams[nonBlocking], s)
		}),
		onStream("cuStreamGetGreenCtx", func(w W, at A, s S) R { _, r := w.StreamGetGreenCtx(at, s); return r }),
		onStream("cuStreamWaitValue64", func(w W, at A, s S) R {
			return w.StreamWaitValue64(at, s, w.device+32, 0, driver.CU_STREAM_WAIT_VALUE_GEQ)
		}),
		onStream("cuStreamWriteValue64", func(w W, at A, s S) R { return w.StreamWriteValue64(at, s, w.device+40, 1, 0) }),
		onStream("cuStreamBatchMemOp", func(w W, at A, s S) R {
			return w.StreamBatchMemOp(at, s, []driver.StreamBatchMemOpParams{*w.writes}, 0)
		}),
		onStream("cuStreamBatchMemOp_v1", func(w W, at A, s S) R {
			return w.StreamBatchMemOpV1(at, s, []driver.StreamBatchMemOpParams{*w.writes}, 0)
		}),
		onStream("cuLaunchHostFunc", func(w W, at A, s S) R { return w.LaunchHostFunc(at, s, w.callback) }),
	)
}

// contextCalls are about settings of a context.
func contextCalls() []call {
	return with(0,
		alone("cuCtxGetApiVersion", func(w W, at A) R { _, r := w.CtxGetApiVersion(at, w.ctx); return r }),
		alone("cuCtxGetFlags", func(w W, at A) R { _, r := w.CtxGetFlags(at); return r }),
		alone("cuCtxGetCacheConfig", func(w W, at A) R { _, r := w.CtxGetCacheConfig(at); return r }),
		alone("cuCtxSetCacheConfig", func(w W, at A) R {
			return w.CtxSetCacheConfig(at, driver.CU_FUNC_CACHE_PREFER_NONE)
		}),
		alone("cuCtxGetSharedMemConfig", func(w W, at A) R { _, r := w.CtxGetSharedMemConfig(at); return r }),
		alone("cuCtxSetSharedMemConfig", func(w W, at A) R {
			return w.CtxSetSharedMemConfig(at, driver.CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE)
		}),
		alone("cuCtxGetDevResource", func(w W, at A) R {
			_, r := w.CtxGetDevResource(at, w.ctx, driver.CU_DEV_RESOURCE_TYPE_SM)
			return r
		}),
		alone("cuCtxResetPersistingL2Cache", func(w W, at A) R { return w.CtxResetPersistingL2Cache(at) }),
		alone("cuProfilerStart", func(w W, at A) R { return w.ProfilerStart(at) }),
		alone("cuProfilerStop", func(w W, at A) R { return w.ProfilerStop(at) }),
	)
}

// firstValueCalls are the interfaces of CUDA 8 to wait for and to write words.
func firstValueCalls() []call {
	return with(0,
		onStream("cuStreamWaitValue32_v1", func(w W, at A, s S) R {
			return w.StreamWaitValue32V1(at, s, w.device, 0, driver.CU_STREAM_WAIT_VALUE_GEQ)
		}),
		onStream("cuStreamWaitValue64_v1", func(w W, at A, s S) R {
			return w.StreamWaitValue64V1(at, s, w.device+32, 0, driver.CU_STREAM_WAIT_VALUE_GEQ)
		}),
		onStream("cuStreamWriteValue32_v1", func(w W, at A, s S) R {
			return w.StreamWriteValue32V1(at, s, w.device+4, 1, 0)
		}),
		onStream("cuStreamWriteValue64_v1", func(w W, at A, s S) R {
			return w.StreamWriteValue64V1(at, s, w.device+40, 1, 0)
		}),
	)
}

// dependencyCalls change what the next node of a capture depends on.
func dependencyCalls() []call {
	return with(0,
		onStream("cuStreamUpdateCaptureDependencies", func(w W, at A, s S) R {
			return w.StreamUpdateCaptureDependencies(at, s, nil, driver.CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
		}),
		onStream("cuStreamUpdateCaptureDependencies_v2", func(w W, at A, s S) R {
			return w.StreamUpdateCaptureDependenciesV2(at, s, nil, nil, driver.CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
		}),
	)
}
