// A program in C that allocates nearly all memory of a device, writes to a few places, and then as much as it can:
// sparse LIBRARY. It exits with 0, or says what is wrong.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long address;

static void *library;

static void *symbol(const char *name)
{
	void *p = dlsym(library, name);
	if (!p) {
		fprintf(stderr, "no %s\n", name);
		_exit(1);
	}
	return p;
}

#define CALL(name, types, ...) (((int(*) types)symbol(#name))(__VA_ARGS__))
#define WANT(result, call)                                                                          \
	do {                                                                                            \
		int got = (call);                                                                           \
		if (got != (result)) {                                                                      \
			fprintf(stderr, "line %d: %d, want %d: %s\n", __LINE__, got, (int)(result), #call);     \
			_exit(1);                                                                               \
		}                                                                                           \
	} while (0)
#define OK(call) WANT(0, call)

#define ALLOC(p, n) CALL(cuMemAlloc_v2, (address *, size_t), p, n)
#define TO(p, s, n) CALL(cuMemcpyHtoD_v2, (address, const void *, size_t), p, s, n)
#define FROM(d, p, n) CALL(cuMemcpyDtoH_v2, (void *, address, size_t), d, p, n)
#define SET(p, v, n) CALL(cuMemsetD8_v2, (address, unsigned char, size_t), p, v, n)

int main(int argc, char **argv)
{
	enum { part = 64 << 20 };
	void *ctx, *host = NULL;
	size_t free, total;
	address p, m;
	char text[8] = "";

	alarm(100);
	library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!library) {
		fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "usage: sparse LIBRARY");
		return 1;
	}
	OK(CALL(cuInit, (unsigned), 0));
	OK(CALL(cuDevicePrimaryCtxRetain, (void **, int), &ctx, 0));
	OK(CALL(cuCtxSetCurrent, (void *), ctx));
	OK(CALL(cuMemGetInfo_v2, (size_t *, size_t *), &free, &total));
	size_t size = free / 10 * 9;
	OK(ALLOC(&p, size));
	OK(TO(p, "abcd", 4));
	OK(TO(p + size - 4, "efgh", 4));
	OK(SET(p + size / 2, 'x', 2));
	OK(FROM(text, p + size / 2 - 1, 4));
	if (memcmp(text, "\0xx", 4)) {
		fprintf(stderr, "the middle differs\n");
		return 1;
	}
	WANT(2, SET(p, 1, size)); // more than any machine of a test has
	int managed = CALL(cuMemAllocManaged, (address *, size_t, unsigned), &m, total / 2, 1);
	if (getenv("LIMITED")) { // managed memory needs addresses of the process
		WANT(2, managed);
		size_t n = 0;
		int result;
		while ((result = SET(p + 1024 + n, 2, part)) == 0 && n < (size_t)8 << 30)
			n += part;
		WANT(2, result);
		while ((result = CALL(cuMemAllocHost_v2, (void **, size_t), &host, part)) == 0 && n < (size_t)8 << 30)
			n += part;
		WANT(2, result);
	} else {
		OK(managed);
		((volatile char *)m)[total / 2 - 1] = 'y'; // a page that the host writes
		OK(FROM(text, m + total / 2 - 2, 2));
		if (text[0] || text[1] != 'y') {
			fprintf(stderr, "the managed memory differs\n");
			return 1;
		}
		OK(CALL(cuMemFree_v2, (address), m));
	}
	OK(FROM(text, p, 4));
	OK(FROM(text + 4, p + size - 4, 4));
	if (memcmp(text, "abcdefgh", 8)) {
		fprintf(stderr, "the memory has %.8s\n", text);
		return 1;
	}
	OK(CALL(cuMemFree_v2, (address), p));
	return 0;
}
