// Functions that are implemented with other functions. They call cusim_begin first if no other
// function has the same name without a version. Faults of the other functions affect them as well.
#include "libcuda.h"

#include <stddef.h>

int cuDeviceComputeCapability(void *major, void *minor, int dev)
{
	enum { MAJOR = 75, MINOR = 76 }; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…
	int result = cusim_begin("cuDeviceComputeCapability");
	if (!result)
		result = major && minor ? cuDeviceGetAttribute(major, MAJOR, dev) : CUDA_ERROR_INVALID_VALUE;
	return result ? result : cuDeviceGetAttribute(minor, MINOR, dev);
}

// in_context calls f with a context made current, NULL being the current one.
static int in_context(void *ctx, int (*f)(void *), void *arg)
{
	if (!ctx)
		return f(arg);
	int result = cuCtxPushCurrent_v2(ctx);
	if (result)
		return result;
	result = f(arg);
	int popped = cuCtxPopCurrent_v2(NULL);
	return result ? result : popped;
}

static int synchronize(void *unused)
{
	(void)unused;
	return cuCtxSynchronize();
}

int cuCtxGetDevice_v2(void *device, void *ctx) { return in_context(ctx, cuCtxGetDevice, device); }

int cuCtxSynchronize_v2(void *ctx) { return in_context(ctx, synchronize, NULL); }

int cuGraphInstantiate_v2(void *phGraphExec, void *hGraph, void *phErrorNode, void *logBuffer, size_t bufferSize)
{
	int result = cusim_begin("cuGraphInstantiate");
	if (result)
		return result;
	if (phErrorNode)
		*(void **)phErrorNode = NULL;
	if (logBuffer && bufferSize)
		*(char *)logBuffer = 0;
	return cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

int cuOccupancyMaxPotentialBlockSizeWithFlags(void *minGridSize, void *blockSize, void *func, void *blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)
{
	const unsigned int known = 1;
	int result = cusim_begin("cuOccupancyMaxPotentialBlockSizeWithFlags");
	if (result)
		return result;
	if (flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	return cuOccupancyMaxPotentialBlockSize(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit);
}

int cuStreamBeginCapture(void *hStream) { return cuStreamBeginCapture_v2(hStream, 0); }

int cuStreamBeginCapture_ptsz(void *hStream) { return cuStreamBeginCapture_v2_ptsz(hStream, 0); }

int cuStreamGetCaptureInfo(void *hStream, void *captureStatus_out, void *id_out)
{
	return cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, NULL, NULL, NULL);
}

int cuStreamGetCaptureInfo_ptsz(void *hStream, void *captureStatus_out, void *id_out)
{
	return cuStreamGetCaptureInfo_v2_ptsz(hStream, captureStatus_out, id_out, NULL, NULL, NULL);
}

// No stream of this library belongs to a green context.
static int no_green(int result, void *pGreenCtx)
{
	if (!result && pGreenCtx)
		*(void **)pGreenCtx = NULL;
	return result;
}

int cuStreamGetCtx_v2(void *hStream, void *pCtx, void *pGreenCtx)
{
	void *ctx; // pCtx may be NULL
	return no_green(cuStreamGetCtx(hStream, pCtx ? pCtx : &ctx), pGreenCtx);
}

int cuStreamGetCtx_v2_ptsz(void *hStream, void *pCtx, void *pGreenCtx)
{
	void *ctx;
	return no_green(cuStreamGetCtx_ptsz(hStream, pCtx ? pCtx : &ctx), pGreenCtx);
}
