// An NVML for tests. The environment variable FAKENVML has words that say what is wrong.
//
// Build: cc -shared -fPIC -o libfakenvml.so fakenvml.c; with -DOLD it lacks nvmlEventSetWait_v2.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID, UNSUPPORTED, SMALL = 7, NOT_LOADED = 9, TIMEOUT = 10, LOST = 15, MISMATCH = 18,
	UNKNOWN = 999 };

typedef struct device { int index; } *device;
static struct device devices[2] = {{0}, {1}};
static int initialised, sets, registered, events;

static bool is(const char *word) {
	const char *v = getenv("FAKENVML");
	return v && strstr(v, word);
}

// refusal returns what every function of a device returns first.
static int refusal(device d) {
	if (!initialised) return UNINITIALIZED;
	if (d != &devices[0] && d != &devices[1]) return INVALID;
	return is("lost") && d->index == 1 ? LOST : OK;
}
#define CHECK(d) { int r = refusal(d); if (r) return r; }

static int text(const char *s, char *to, unsigned n) {
	if (strlen(s) >= n) return SMALL;
	strcpy(to, s);
	return OK;
}

int nvmlInit_v2(void) {
	if (is("notloaded")) return NOT_LOADED;
	if (is("mismatch")) return MISMATCH;
	return initialised++, OK;
}
int nvmlShutdown(void) { return initialised && !sets ? initialised--, OK : UNINITIALIZED; }
const char *nvmlErrorString(int status) {
	switch (status) {
	case NOT_LOADED: return "Driver Not Loaded";
	case LOST: return "GPU is lost";
	case MISMATCH: return "Driver/library version mismatch";
	}
	return "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *to, unsigned n) { return initialised ? text("580.95.05", to, n) : UNINITIALIZED; }
int nvmlDeviceGetCount_v2(unsigned *n) { return initialised ? *n = is("none") ? 0 : 2, OK : UNINITIALIZED; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device *d) {
	if (!initialised) return UNINITIALIZED;
	if (i > 1) return INVALID;
	*d = &devices[i];
	return OK;
}
int nvmlDeviceGetName(device d, char *to, unsigned n) { CHECK(d) return text("NVIDIA H100", to, n); }
int nvmlDeviceGetUUID(device d, char *to, unsigned n) {
	char s[] = "GPU-0";
	CHECK(d)
	s[4] += d->index;
	return text(s, to, n);
}
int nvmlDeviceGetTemperature(device d, int sensor,
	unsigned *v) { CHECK(d) return sensor ? INVALID : (*v = 41 + d->index, OK); }
int nvmlDeviceGetPowerUsage(device d, unsigned *v) { CHECK(d) return is("plain") ? UNSUPPORTED : (*v = 71500, OK); }
int nvmlDeviceGetMemoryInfo(device d, uint64_t v[3]) { CHECK(d) return v[0] = 80ull << 30, v[1] = 78ull << 30,
	v[2] = 2ull << 30, OK; }
int nvmlDeviceGetUtilizationRates(device d, unsigned v[2]) { CHECK(d) return v[0] = 12, v[1] = 3, OK; }
int nvmlDeviceGetTotalEccErrors(device d, int uncorrected, int aggregate, unsigned long long *v) {
	CHECK(d)
	if (aggregate) return INVALID;
	if (is("plain")) return UNSUPPORTED;
	return *v = uncorrected ? is("ecc") : 5, OK;
}

int nvmlEventSetCreate(void **set) { return initialised ? *set = &sets, sets++, OK : UNINITIALIZED; }
int nvmlEventSetFree(void *set) { return set == &sets ? sets--, OK : INVALID; }
int nvmlDeviceRegisterEvents(device d, unsigned long long types, void *set) {
	CHECK(d)
	if (set != &sets || types & ~10ull) return INVALID;
	if (is("plain") && types & 2) return UNSUPPORTED;
	return registered++, OK;
}
#ifndef OLD
struct event { device d; unsigned long long type, data; unsigned gpu, compute; };
int nvmlEventSetWait_v2(void *set, struct event *e, unsigned ms) {
	if (set != &sets || !registered) return INVALID;
	if (is("broken")) return UNKNOWN;
	if (is("xid") && events++ < 2) {
		e->d = &devices[events - 1], e->type = events == 1 ? 8 : 2, e->data = events == 1 ? 79 : 0,
			e->gpu = e->compute = ~0u;
		return OK;
	}
	usleep(ms * 1000);
	return TIMEOUT;
}
#endif
