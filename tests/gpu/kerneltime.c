// Asks how long a kernel runs, by the GPU's own clock: from the kernel's first to its last instruction. The tests of
// package cubench compare their results with it.
//
// It takes no CUDA headers:
//
//	gcc -O1 -o kerneltime tests/gpu/kerneltime.c -ldl
//	./kerneltime 10000 1000000
//
// For each argument the kernel spins for so many nanoseconds. A line of the output has the argument, and the median
// of what 501 launches measured, in nanoseconds.
#include "blocking.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAUNCHES = 501 };

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry spin(.param .u64 ns, .param .u64 span) {\n"
			  ".reg .u64 %limit, %begin, %now, %at;\n"
			  ".reg .pred %more;\n"
			  "ld.param.u64 %limit, [ns];\n"
			  "ld.param.u64 %at, [span];\n"
			  "mov.u64 %begin, %globaltimer;\n"
			  "again:\n"
			  "mov.u64 %now, %globaltimer;\n"
			  "sub.u64 %now, %now, %begin;\n"
			  "setp.lt.u64 %more, %now, %limit;\n"
			  "@%more bra again;\n"
			  "st.global.u64 [%at], %now;\n"
			  "ret; }\n";

static int missing(void) { return -1; }

#define ok(call) check(call, #call)
static void check(int r, const char *call) {
	if (r) {
		fprintf(stderr, "kerneltime: %.*s returns %d\n", (int)strcspn(call, "("), call, r);
		exit(1);
	}
}

static int by_value(const void *a, const void *b) {
	unsigned long long x = *(const unsigned long long *)a, y = *(const unsigned long long *)b;
	return (x > y) - (x < y);
}

int main(int argc, char **argv) {
	H ctx, stream, module, spin;
	D span;
	unsigned long long spans[LAUNCHES];
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib) {
		fprintf(stderr, "kerneltime: %s\n", dlerror());
		return 1;
	}
#define LOOK_UP(name, export, params)                                                                                  \
	if (!(*(void **)&name = dlsym(lib, export)))                                                                   \
		*(void **)&name = (void *)missing;
	FUNCTIONS(LOOK_UP)
	ok(cuInit(0));
	ok(cuDevicePrimaryCtxRetain(&ctx, 0));
	ok(cuCtxSetCurrent(ctx));
	ok(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
	ok(cuModuleLoadData(&module, ptx));
	ok(cuModuleGetFunction(&spin, module, "spin"));
	ok(cuMemAlloc(&span, sizeof spans));
	for (int k = 1; k < argc; k++) {
		unsigned long long ns = strtoull(argv[k], NULL, 10);
		for (int i = 0; i < LAUNCHES; i++) {
			D at = span + i * sizeof *spans;
			void *params[] = {&ns, &at};
			ok(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
		}
		ok(cuStreamSynchronize(stream));
		ok(cuMemcpyDtoH(spans, span, sizeof spans));
		qsort(spans, LAUNCHES, sizeof *spans, by_value);
		printf("%llu\t%llu\n", ns, spans[LAUNCHES / 2]);
	}
	return 0;
}
