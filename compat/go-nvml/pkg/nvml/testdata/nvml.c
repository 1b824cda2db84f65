// A library with a few functions of NVML. With -DOLD it has only their first versions.
#include <stddef.h>
#include <string.h>

static int users;

#ifdef OLD
#define INIT nvmlInit
#define COUNT nvmlDeviceGetCount
#define HANDLE nvmlDeviceGetHandleByIndex
#define PROCESSES nvmlDeviceGetComputeRunningProcesses
struct process { unsigned pid; unsigned long long memory; };
#else
#define INIT nvmlInit_v2
#define COUNT nvmlDeviceGetCount_v2
#define HANDLE nvmlDeviceGetHandleByIndex_v2
#define PROCESSES nvmlDeviceGetComputeRunningProcesses_v3
struct process { unsigned pid; unsigned long long memory; unsigned gpu, compute; };
#endif

int INIT(void) { users++; return 0; }
int nvmlShutdown(void) { return users-- > 0 ? 0 : 1; }
const char *nvmlErrorString(int r) { return r == 2 ? "Invalid Argument" : "Other"; }
int COUNT(unsigned *n) { *n = sizeof(struct process) == 16 ? 1 : 2; return 0; }

int HANDLE(unsigned i, void **device) {
	if (i > 1)
		return 2;
	*device = (char *)NULL + 0x1000 + i;
	return 0;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
	if (length < 6)
		return 7;
	strcpy(name, "GPU 0");
	name[4] += (char)((size_t)device & 1);
	return 0;
}

int PROCESSES(void *device, unsigned *n, struct process *list) {
	if (*n < 3) {
		*n = 3;
		return 7;
	}
	memset(list, 0, 3 * sizeof *list);
	for (int i = 0; i < 3; i++)
		list[i].pid = i + 1, list[i].memory = 100 * (i + 1);
	*n = 3;
	return 0;
}

// Newer than package raw.
int nvmlDeviceSetAdaptiveTgpMode_v1(void *device, int mode) { return mode == 1 ? 0 : 2; }

int nvmlDeviceGetMemoryLimits_v1(void *device, struct { const char *name; unsigned long long soft, hard, used; } *p) {
	if (strcmp(p->name, "space"))
		return 2;
	p->soft = 1, p->hard = 2, p->used = 3;
	return 0;
}
