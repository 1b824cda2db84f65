// What the two halves of the layer in C have in common: zlibcuda.c, which is
// generated, and libcuda.c, which is not.
#include "zlibcuda.h"

// A symbol is one interface of a function that cuGetProcAddress returns.
struct cusim_symbol {
	const char *name;
	unsigned int version; // the CUDA version that introduced it
	int own;              // its NULL stream is the per-thread default stream
	void *function;
};

// A result contains the name and the text of a CUresult.
struct cusim_result {
	int code;
	const char *name, *text;
};

// Both arrays end with an entry without a name.
extern const struct cusim_symbol cusim_symbols[];
extern const struct cusim_result cusim_results[];

// cusim_initialized reports whether cuInit has succeeded.
int cusim_initialized(void);

// cusim_call makes a call of the driver by its number, for a function that exists, with whatever
// interface, since the given version of CUDA.
#define cusim_call(number, since, words) cusim_call_in(__func__, number, since, words)
int cusim_call_in(const char *function, uint32_t number, int since, uint64_t *words);

// cusim_call_first is cusim_call for a function that needs no cuInit: it starts the driver.
#define cusim_call_first(number, since, words) cusim_call_first_in(__func__, number, since, words)
int cusim_call_first_in(const char *function, uint32_t number, int since, uint64_t *words);

// cusim_begin begins a call of a function that is implemented with other functions. It returns the
// result of a fault for its name without a version, the error before cuInit, or success.
int cusim_begin(const char *function);

// cusim_refuse returns the result of a function that does not call the driver: the error before
// cuInit, or else the given result.
#define cusim_refuse(result) cusim_refuse_in(__func__, result)
int cusim_refuse_in(const char *function, int result);

// cusim_bits returns the bits of a floating-point argument.
static inline uint32_t cusim_bits(float value)
{
	union { float value; uint32_t bits; } u = {value};
	return u.bits;
}

// cusim_own returns the meaning of a stream argument in a function whose NULL stream is the
// per-thread default stream.
static inline uintptr_t cusim_own(void *stream)
{
	const uintptr_t own = 2; // CU_STREAM_PER_THREAD
	return stream ? (uintptr_t)stream : own;
}
