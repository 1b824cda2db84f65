// What the two halves of the layer in C have in common: zlibcuda.c, which is
// generated, and libcuda.c, which is not.
#include "zlibcuda.h"

// A symbol is one interface of a function that cuGetProcAddress knows.
struct cusim_symbol {
	const char *name;
	unsigned int version; // of CUDA, that brought it
	int own;              // its NULL stream is the thread's own
	void *function;
};

// A result is what the driver says about a CUresult.
struct cusim_result {
	int code;
	const char *name, *text;
};

// Both end with an entry without a name.
extern const struct cusim_symbol cusim_symbols[];
extern const struct cusim_result cusim_results[];

// cusim_initialized reports whether cuInit has succeeded.
int cusim_initialized(void);

// cusim_call makes a call of the driver by its number, for a function that exists
// since a version of CUDA.
int cusim_call(uint32_t number, int since, uint64_t *words);

// cusim_begin begins a call of a function that is made of others: it returns what the
// call has to return because of a fault that is set for its name, without a version, or
// before cuInit, if that is not success.
int cusim_begin(const char *function);

// cusim_refuse returns what a function returns that does not ask the driver: before
// cuInit, that; else the result.
int cusim_refuse(int result);

// cusim_own returns the stream that a stream means to a function whose NULL stream
// is the thread's own.
static inline uintptr_t cusim_own(void *stream)
{
	const uintptr_t own = 2; // CU_STREAM_PER_THREAD
	return stream ? (uintptr_t)stream : own;
}
