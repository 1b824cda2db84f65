// A library with a few functions of NVML, and others that tests call in place of any function.
#include <stdint.h>
#include <string.h>

static uint64_t seen[6];

// note keeps its arguments for look. The upper half of the result register is garbage.
uint64_t note(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
	uint64_t now[6] = {a, b, c, d, e, f};
	memcpy(seen, now, sizeof seen);
	return 0xdeadbeef00000000u;
}

uint64_t look(uint64_t *to) {
	memcpy(to, seen, sizeof seen);
	return 0;
}

int nvmlInit_v2(void) { return 9; }

const char *nvmlErrorString(int result) { return result == 9 ? "a text of the library" : 0; }

int nvmlDeviceGetPowerUsage(uintptr_t device, unsigned *power) {
	if (!power) return 2;
	*power = (unsigned)device * 1000;
	return 0;
}

struct temperature { unsigned version; int sensor, temperature; };

int nvmlDeviceGetTemperatureV(uintptr_t device, struct temperature *t) {
	if (t->version != (1u << 24 | sizeof *t)) return 25;
	t->temperature = (int)device + t->sensor;
	return 0;
}

int nvmlDeviceGetName(uintptr_t device, char *name, unsigned length) {
	if (length < sizeof "a GPU") return 7;
	strcpy(name, "a GPU");
	return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, uintptr_t *device) {
	*device = strlen(uuid);
	return 0;
}

int nvmlDeviceGetSupportedMemoryClocks(uintptr_t device, unsigned *count, unsigned *clocks) {
	unsigned room = *count;
	*count = 3;
	if (!clocks || room < 3) return 7;
	for (unsigned i = 0; i < 3; i++) clocks[i] = 100 * (i + 1);
	return 0;
}

int nvmlDeviceGetSupportedPerformanceStates(uintptr_t device, unsigned *states, unsigned bytes) {
	if (bytes != 16 * sizeof *states) return 2;
	for (unsigned i = 0; i < 16; i++) states[i] = 32;
	states[0] = 0;
	return 0;
}

struct field { unsigned id, scope; long long timestamp, latency; unsigned type; int result; unsigned long long value; };

int nvmlDeviceGetFieldValues(uintptr_t device, int count, struct field *values) {
	for (int i = 0; i < count; i++) values[i].value = values[i].id + 1, values[i].type = 3;
	return 0;
}
