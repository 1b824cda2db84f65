// What the two halves of libnvidia-ml.so.1 have in common: znvml.c, which is generated, and libnvidia-ml.c, which is
// not.
#include <stddef.h>
#include <stdint.h>

// A text says what an nvmlReturn_t means.
struct nvml_text {
	int code;
	const char *text;
};

// It ends with an entry without a text.
extern const struct nvml_text nvml_texts[];

// nvml_call makes a call by its number, for a function that exists since the given version of CUDA.
int nvml_call(uint32_t number, int since, uint64_t *words);

// nvml_first_call is nvml_call for a function that initializes NVML.
int nvml_first_call(uint32_t number, int since, uint64_t *words);
