// An NVML whose functions write what they are called with to the file that NVML_LOG names, and set what their arguments
// lead to, to numbers that depend on the function.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *out;

// An argument is described by a letter and a size: w a number, q one of 64 bits or a handle, s a string, b a buffer, c
// the address of a count, p that of values, o that of one value, v that of a struct that begins with its version, n that
// of a struct with addresses.
struct argument {
	char kind;
	int size;
};

static unsigned hash(const char *s) {
	unsigned h = 5;
	while (*s)
		h = h * 33 + (unsigned char)*s++;
	return h;
}

// count sets a count to 3, and returns how many values there is room for.
static int count(unsigned *c, int *result) {
	unsigned room = *c;
	fprintf(out, " #%u", room);
	if (room >= 100) // bytes of a struct
		return 1;
	*c = 3;
	if (room > 0 && room < 3)
		*result = 7;
	return room < 3 ? 0 : 3;
}

// set writes a hash of a value, and sets n of them. The version of a struct says how long it is.
static void set(struct argument a, unsigned char *p, int n, unsigned h) {
	int size = a.size, versioned = a.kind == 'v';
	unsigned sum = 7;
	if (versioned) {
		int version = *(unsigned *)p & 0xffffff;
		if (version >= 8 && version < size)
			size = version;
	}
	for (int i = 0; i < size; i++)
		sum = sum * 31 + p[i];
	fprintf(out, " %d:%x", size, sum);
	for (int j = 0; j < n; j++, p += size)
		for (int i = versioned ? 4 : 0; i < size; i++)
			p[i] = (h + 7 * i + j) % (size == 4 ? i == 0 ? 5 : 1 : 100); // also for an enum
}

static int call(const char *name, const struct argument *list, const unsigned long *words) {
	int result = 0, n = 1, counted = 0;
	unsigned h = hash(name);
	if (!out)
		out = fopen(getenv("NVML_LOG"), "w");
	fprintf(out, "%s", name);
	for (int i = 0; list[i].kind; i++)
		if (list[i].kind == 'c' && words[i])
			n = count((unsigned *)words[i], &result), counted = 1;
	for (int i = 0; list[i].kind; i++) {
		struct argument a = list[i];
		char *p = (char *)words[i];
		if (a.kind == 'w')
			fprintf(out, " %u", (unsigned)words[i]);
		else if (a.kind == 'q')
			fprintf(out, " %lx", words[i]);
		else if (a.kind == 'c')
			;
		else if (!p)
			fprintf(out, " NULL");
		else if (a.kind == 's')
			fprintf(out, " '%s'", p);
		else if (a.kind == 'b')
			snprintf(p, a.size ? a.size : words[i + 1], "%u", h);
		else if (a.kind != 'n' && a.size && !(counted && n == 0))
			set(a, (unsigned char *)p, a.kind == 'o' ? 1 : n, h + i);
	}
	fprintf(out, " = %d\n", result);
	fflush(out);
	return result;
}

const char *nvmlErrorString(int r) {
	static char text[40];
	snprintf(text, sizeof text, "error %d", r);
	return text;
}

#define FUNCTION(name, ...) \
	int name(unsigned long a, unsigned long b, unsigned long c, unsigned long d, unsigned long e, unsigned long f) { \
		static const struct argument list[] = {__VA_ARGS__ {0, 0}}; \
		unsigned long words[] = {a, b, c, d, e, f}; \
		return call(#name, list, words); \
	}

#include "functions.h"

// What is newer than the facts that the functions are generated from.
FUNCTION(nvmlDeviceGetAdaptiveTgpModeInfo_v1, {'q', 0}, {'p', 20}, )
FUNCTION(nvmlDeviceGetBankRemapperStatus_v1, {'q', 0}, {'p', 20}, )
FUNCTION(nvmlDeviceGetGpuFabricInfo_v4, {'q', 0}, {'p', 16}, )
FUNCTION(nvmlDeviceGetMemoryLimits_v1, {'q', 0}, {'n', 0}, )
FUNCTION(nvmlDeviceGetNvLinkTelemetrySamples_v1, {'q', 0}, {'p', 4}, )
FUNCTION(nvmlDevicePerfMetricsGetSamples_v1, {'q', 0}, {'p', 64}, )
FUNCTION(nvmlDeviceSetAdaptiveTgpMode_v1, {'q', 0}, {'w', 0}, )
FUNCTION(nvmlDeviceSetMemoryLimits_v1, {'q', 0}, {'n', 0}, )
FUNCTION(nvmlDeviceSetNvlinkBwModeAsync_v1, {'q', 0}, {'p', 4}, )
FUNCTION(nvmlEventSetGetContextCount_v1, {'q', 0}, {'p', 4}, )
FUNCTION(nvmlEventSetGetContextData_v1, {'q', 0}, {'n', 0}, )
FUNCTION(nvmlEventSetGetContextInfo_v1, {'q', 0}, {'p', 4}, )
FUNCTION(nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1, {'q', 0}, {'p', 8}, )
FUNCTION(nvmlEventSetRegisterGpuOperationalEvents_v1, {'q', 0}, {'p', 96}, )
FUNCTION(nvmlEventSetWait_v3, {'q', 0}, {'p', 100}, )
