/* An invented header in the manner of the real one: widgets instead of GPUs. */
#ifndef WIDGET_H
#define WIDGET_H

#include <stdint.h>
typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

#if defined(_MSC_VER)
#define WIDGET_DEPRECATED __declspec(deprecated)
#elif defined(__GNUC__)
#define WIDGET_DEPRECATED __attribute__((deprecated))
#else
#error "unknown compiler"
#endif

#ifdef _WIN32
#define CUDAAPI __stdcall
#else
#define CUDAAPI
#endif

#if defined(__CUDA_API_VERSION_INTERNAL) || defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
    #define __CUDA_API_PER_THREAD_DEFAULT_STREAM
    #define __CUDA_API_PTDS(api) api ## _ptds
    #define __CUDA_API_PTSZ(api) api ## _ptsz
#else
    #define __CUDA_API_PTDS(api) api
    #define __CUDA_API_PTSZ(api) api
#endif

#define cuWidgetCreate      cuWidgetCreate_v2
#define cuWidgetCopy        __CUDA_API_PTDS(cuWidgetCopy_v2)
#define cuWidgetSpin        cuWidgetSpinWithFlags
#define cuWidgetElapsed     cuWidgetElapsed_v2
#if defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
    #define cuWidgetPush    __CUDA_API_PTSZ(cuWidgetPush)
#endif

#define CUDA_VERSION 9020

#define CU_WIDGET_DEFAULT_STREAM ((CUstream)0x1)
#define CU_WIDGET_HANDLE_SIZE    64
#define CU_WIDGET_ALL \
    (CU_WIDGET_RED | CU_WIDGET_GREEN)   // continued on a second line
#define CU_WIDGET_NO_NUMBER      "text"

#if defined(__LP64__) && !defined(_WIN64)
typedef unsigned long long CUdeviceptr_v2;
#else
typedef unsigned int CUdeviceptr_v2;
#endif
typedef CUdeviceptr_v2 CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

typedef struct CUipcEventHandle_st {
    char reserved[CU_WIDGET_HANDLE_SIZE];
} CUipcEventHandle_v1;
typedef CUipcEventHandle_v1 CUipcEventHandle;

/* An enum that package cu has constants for; one value has an older name. */
typedef enum CUlimit_enum { CU_LIMIT_SHELF_SIZE = 0, CU_LIMIT_BOARD_SIZE = 0, CU_LIMIT_GPU_ID = 0x10, CU_LIMIT_MAX } CUlimit;

typedef enum CUwidgetPlace_enum { CU_WIDGET_PLACE_SHELF = 1, CU_WIDGET_PLACE_BENCH } CUwidgetPlace;

typedef struct CUmemLocation_st {
    CUwidgetPlace type;
    int id;
} CUmemLocation_v1;
typedef CUmemLocation_v1 CUmemLocation;

typedef struct CUwidgetDesc_st {
    char name[64 - sizeof(CUmemLocation)];
    union {
        CUmemLocation place;
        unsigned char bytes[4 * 2];
    };
    void (*done)(void *, int);
} CUwidgetDesc;

typedef enum CUwidget_flags_enum {
    CU_WIDGET_PLAIN = 0x0,
    CU_WIDGET_RED   = 1 << 0,
    CU_WIDGET_GREEN = 1u << 1,
    CU_WIDGET_BLUE,                 /* three: one more than green */
    CU_WIDGET_MIXED = CU_WIDGET_RED + (CU_WIDGET_BLUE * 4) % 8,
    CU_WIDGET_NONE  = -1,
#if defined(__CUDA_API_VERSION_INTERNAL) && !defined(__CUDA_API_VERSION_INTERNAL_ODR)
    CU_WIDGET_MAX
#endif
} CUwidget_flags;

typedef enum cudaError_enum {
    /** All is well. */
    CUDA_SUCCESS = 0,
    /** The argument is wrong. */
    CUDA_ERROR_INVALID_VALUE = 1,
    /**
     * A widget broke. This leaves the process in an
     * inconsistent state, so get new ones.
     */
    CUDA_ERROR_WIDGET_BROKEN = 700,
    /** A widget asserted. */
    CUDA_ERROR_PTX_ASSERT = 710
} CUresult;

typedef void (*CUhostFn)(void *userData);

typedef struct CUwidgetMap_st {
#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
    _Alignas(64)
#endif
    cuuint64_t opaque[16];
} CUwidgetMap;

typedef struct CUwidgetPlan_st {
    CUevent *events;
    void **places;
    const char *name;
    int from_shelf;
    struct { int id; } shelf;
    float weights[2][3];
} CUwidgetPlan;

#ifdef __cplusplus
extern "C" {
#endif

CUresult CUDAAPI cuWidgetGetName(CUresult error, const char **pStr);
CUresult CUDAAPI cuWidgetCreate(CUcontext *pctx, const CUwidgetDesc *desc, unsigned int Flags);
CUresult CUDAAPI cuWidgetCopy(CUdeviceptr dst, const void *src,
                              size_t ByteCount);
CUresult CUDAAPI cuWidgetSpin(CUcontext ctx, unsigned long long flags);
CUresult CUDAAPI cuWidgetPush(CUcontext ctx, CUstream hStream);
CUresult CUDAAPI cuWidgetElapsed(float *pMilliseconds, CUevent hStart, CUevent hEnd);
CUresult CUDAAPI cuWidgetOpen(CUevent *phEvent, CUipcEventHandle handle, unsigned int Flags);
CUresult CUDAAPI cuWidgetMove(CUcontext ctx, CUmemLocation location, size_t count);
CUresult CUDAAPI cuWidgetList(CUcontext ctx, CUevent *events, size_t *numEvents);
CUresult CUDAAPI cuWidgetSplit(CUipcEventHandle *parts, unsigned int *numParts, const CUipcEventHandle *whole, CUipcEventHandle *rest);
CUresult CUDAAPI cuWidgetLoad(CUcontext *ctx, const void *image, unsigned int numOptions, CUwidget_flags *options, void **optionValues);
CUresult CUDAAPI cuWidgetFind(CUevent *pEvent, const char *name, CUwidgetPlace type);
CUresult CUDAAPI cuWidgetEach(CUcontext ctx, CUhostFn fn, void *userData);
CUresult CUDAAPI cuWidgetExchangeMode(CUwidgetPlace *mode);
CUresult CUDAAPI cuWidgetLaunch(unsigned int f, unsigned int x, unsigned int y, unsigned int z, CUstream hStream, void **kernelParams, void **extra);
CUresult CUDAAPI cuWidgetTune(CUcontext ctx, float low, float high);
CUresult CUDAAPI cuWidgetEncode(CUwidgetMap *map, cuuint32_t rank, const cuuint64_t *dims, const cuuint64_t *strides, const int *colors);
CUresult CUDAAPI cuWidgetTurn(CUwidgetMap *map, int by);
CUresult CUDAAPI cuWidgetGetAttribute(CUcontext ctx, int attr, void *value);
CUresult CUDAAPI cuWidgetSetAttribute(CUcontext ctx, int attr, const void *value, size_t *size);
CUresult CUDAAPI cuWidgetGetPlan(CUcontext ctx, CUwidgetPlan *plan);
CUresult CUDAAPI cuWidgetMany(CUcontext ctx, int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m, int n);
CUresult CUDAAPI cuWidgetPin(void *p, size_t bytesize, void *next);
WIDGET_DEPRECATED CUresult CUDAAPI cuWidgetGetState(int state[], CUcontext ctx);
CUresult CUDAAPI cuWidgetGetState_v2(int *state, CUcontext ctx, CUipcEventHandle handle);

#if defined(__CUDA_API_VERSION_INTERNAL)
    #undef cuWidgetCreate
    #undef cuWidgetCopy
    #undef cuWidgetSpin
    #undef cuWidgetElapsed
    #undef cuWidgetPush
    typedef unsigned int CUdeviceptr_v1;

    CUresult CUDAAPI cuWidgetCreate(CUcontext *pctx, unsigned int Flags);
    CUresult CUDAAPI cuWidgetCopy(CUdeviceptr_v1 dst, const void *src, unsigned int ByteCount);
    CUresult CUDAAPI cuWidgetCopy_v2(CUdeviceptr dst, const void *src, size_t ByteCount);
    CUresult CUDAAPI cuWidgetSpin(CUcontext ctx);
    CUresult CUDAAPI cuWidgetPush(CUcontext ctx, CUstream hStream);
    CUresult CUDAAPI cuWidgetElapsed(float *pMilliseconds, CUevent hStart, CUevent hEnd);
#elif defined(__CUDA_API_PER_THREAD_DEFAULT_STREAM)
static inline CUresult cuWidgetSpin_ptsz(CUcontext ctx, unsigned long long flags) {
    if (flags == 0) { flags |= CU_WIDGET_RED; }
    return cuWidgetSpinWithFlags(ctx, flags);
}
#define cuWidgetSpinWithFlags cuWidgetSpin_ptsz
#endif

#ifdef __cplusplus
}
#endif

#endif /* WIDGET_H */
