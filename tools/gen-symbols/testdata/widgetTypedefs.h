/* The typedefs for widget.h. */
#ifndef WIDGETTYPEDEFS_H
#define WIDGETTYPEDEFS_H

#include "widget.h"

typedef CUresult (CUDAAPI *PFN_cuWidgetGetName_v6000)(CUresult error, const char **pStr);
typedef CUresult (CUDAAPI *PFN_cuWidgetCreate_v3020)(CUcontext *pctx, const CUwidgetDesc *desc, unsigned int Flags);
typedef CUresult (CUDAAPI *PFN_cuWidgetCopy_v7000_ptds)(CUdeviceptr_v2 dst, const void *src, size_t ByteCount);
typedef CUresult (CUDAAPI *PFN_cuWidgetCopy_v3020)(CUdeviceptr_v2 dst, const void *src, size_t ByteCount);
typedef CUresult (CUDAAPI *PFN_cuWidgetSpinWithFlags_v9020)(CUcontext ctx, unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuWidgetPush_v7000_ptsz)(CUcontext ctx, CUstream hStream);
typedef CUresult (CUDAAPI *PFN_cuWidgetPush_v2000)(CUcontext ctx, CUstream hStream);
typedef CUresult (CUDAAPI *PFN_cuWidgetElapsed_v9020)(float *pMilliseconds, CUevent hStart, CUevent hEnd);
typedef CUresult (CUDAAPI *PFN_cuWidgetElapsed_v2000)(float *pMilliseconds, CUevent hStart, CUevent hEnd);
typedef CUresult (CUDAAPI *PFN_cuWidgetOpen_v4010)(CUevent *phEvent, CUipcEventHandle_v1 handle, unsigned int Flags);
typedef CUresult (CUDAAPI *PFN_cuWidgetMove_v8000)(CUcontext ctx, CUmemLocation_v1 location, size_t count);
typedef CUresult (CUDAAPI *PFN_cuWidgetList_v8000)(CUcontext ctx, CUevent *events, size_t *numEvents);
typedef CUresult (CUDAAPI *PFN_cuWidgetSplit_v8000)(CUipcEventHandle_v1 *parts, unsigned int *numParts, const CUipcEventHandle_v1 *whole, CUipcEventHandle_v1 *rest);
typedef CUresult (CUDAAPI *PFN_cuWidgetLoad_v2010)(CUcontext *ctx, const void *image, unsigned int numOptions, CUwidget_flags *options, void **optionValues);
typedef CUresult (CUDAAPI *PFN_cuWidgetFind_v2000)(CUevent *pEvent, const char *name, CUwidgetPlace type);
typedef CUresult (CUDAAPI *PFN_cuWidgetEach_v9000)(CUcontext ctx, CUhostFn fn, void *userData);
typedef CUresult (CUDAAPI *PFN_cuWidgetExchangeMode_v9000)(CUwidgetPlace *mode);
typedef CUresult (CUDAAPI *PFN_cuWidgetLaunch_v4000)(unsigned int f, unsigned int x, unsigned int y, unsigned int z, CUstream hStream, void **kernelParams, void **extra);
typedef CUresult (CUDAAPI *PFN_cuWidgetPin_v4000)(void *p, size_t bytesize, void *next);
typedef CUresult (CUDAAPI *PFN_cuWidgetGetState_v5000)(int *state, CUcontext ctx);
typedef CUresult (CUDAAPI *PFN_cuWidgetGetState_v9000)(int *state, CUcontext ctx, CUipcEventHandle_v1 handle);

#if defined(__CUDA_API_VERSION_INTERNAL)
    typedef CUresult (CUDAAPI *PFN_cuWidgetCreate_v2000)(CUcontext *pctx, unsigned int Flags);
    typedef CUresult (CUDAAPI *PFN_cuWidgetCopy_v2000)(CUdeviceptr_v1 dst, const void *src, unsigned int ByteCount);
    typedef CUresult (CUDAAPI *PFN_cuWidgetTune_v2000)(CUcontext ctx, float low, float high);
typedef CUresult (CUDAAPI *PFN_cuWidgetEncode_v2000)(CUwidgetMap *map, cuuint32_t rank, const cuuint64_t *dims, const cuuint64_t *strides, const int *colors);
typedef CUresult (CUDAAPI *PFN_cuWidgetTurn_v2000)(CUwidgetMap *map, int by);
typedef CUresult (CUDAAPI *PFN_cuWidgetGetAttribute_v2000)(CUcontext ctx, int attr, void *value);
typedef CUresult (CUDAAPI *PFN_cuWidgetSetAttribute_v2000)(CUcontext ctx, int attr, const void *value, size_t *size);
typedef CUresult (CUDAAPI *PFN_cuWidgetGetPlan_v2000)(CUcontext ctx, CUwidgetPlan *plan);
typedef CUresult (CUDAAPI *PFN_cuWidgetMany_v2000)(CUcontext ctx, int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m, int n);
typedef CUresult (CUDAAPI *PFN_cuWidgetSpin_v2000)(CUcontext ctx);
#endif

#endif
