// A program in C that is linked with libcuda.so.1 and libnvidia-ml.so.1: nvml SCENARIO [ARGUMENT]. It exits with 0, or
// says what is wrong.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                  \
	do {                                                                                  \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);       \
			_exit(1);                                                                     \
		}                                                                                 \
	} while (0)

#define WANT(result, call)                                                                \
	do {                                                                                  \
		int got = (call);                                                                 \
		if (got != (result)) {                                                            \
			fprintf(stderr, "%s:%d: %d, want %d: %s\n", __FILE__, __LINE__, got, (int)(result), #call); \
			_exit(1);                                                                     \
		}                                                                                 \
	} while (0)

#define OK(call) WANT(0, call)

enum {
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	INSUFFICIENT_SIZE = 7,
	FUNCTION_NOT_FOUND = 13,
	GPU_IS_LOST = 15,
	VERSION_MISMATCH = 25,
};

typedef struct device *device;

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct utilization { unsigned gpu, memory; };
struct process { unsigned pid; unsigned long long used; unsigned gpu, compute; };

int nvmlInit_v2(void), nvmlInitWithFlags(unsigned), nvmlShutdown(void);
const char *nvmlErrorString(int);
int nvmlInternalGetExportTable(const void ***, const void *);
int nvmlSystemGetDriverVersion(char *, unsigned), nvmlSystemGetCudaDriverVersion_v2(int *);
int nvmlDeviceGetCount_v2(unsigned *), nvmlDeviceGetHandleByIndex_v2(unsigned, device *);
int nvmlDeviceGetHandleByUUID(const char *, device *), nvmlDeviceGetIndex(device, unsigned *);
int nvmlDeviceGetName(device, char *, unsigned), nvmlDeviceGetUUID(device, char *, unsigned);
int nvmlDeviceGetMemoryInfo(device, struct memory *), nvmlDeviceGetMemoryInfo_v2(device, struct memory_v2 *);
int nvmlDeviceGetUtilizationRates(device, struct utilization *);
int nvmlDeviceGetComputeRunningProcesses_v3(device, unsigned *, struct process *);
int nvmlDeviceGetGpuFabricInfoV(device, void *);
int nvmlDeviceGetMigMode(device, unsigned *, unsigned *);

int cuInit(unsigned), cuDeviceGetUuid(unsigned char *, int), cuDriverGetVersion(int *);
int cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuDevicePrimaryCtxRelease_v2(int);
int cuMemAlloc_v2(uintptr_t *, size_t), cuMemFree_v2(uintptr_t);

static device gpu(unsigned index)
{
	device d = NULL;
	OK(nvmlDeviceGetHandleByIndex_v2(index, &d));
	CHECK(d);
	return d;
}

// alone uses NVML without CUDA, with two devices.
static void alone(void)
{
	unsigned n = 0, index = 7, current = 7, pending = 7;
	char text[96], uuid[96];
	struct memory m;
	struct utilization u;
	const void **table = NULL;
	device d, same;
	WANT(UNINITIALIZED, nvmlDeviceGetCount_v2(&n));
	WANT(UNINITIALIZED, nvmlShutdown());
	CHECK(strstr(nvmlErrorString(UNINITIALIZED), "initialized"));
	CHECK(*nvmlErrorString(123456));
	OK(nvmlInternalGetExportTable(&table, ""));
	CHECK((uintptr_t)table[0] >= 16 && ((int (*)(void))table[1])() == NOT_SUPPORTED);
	OK(nvmlInit_v2());
	OK(nvmlInitWithFlags(0));
	OK(nvmlShutdown());
	OK(nvmlDeviceGetCount_v2(&n));
	CHECK(n == 2);
	d = gpu(1);
	WANT(INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex_v2(2, &same));
	OK(nvmlDeviceGetIndex(d, &index));
	CHECK(index == 1);
	memset(text, 'x', sizeof text);
	OK(nvmlDeviceGetName(d, text, sizeof text));
	CHECK(strstr(text, "H200"));
	WANT(INSUFFICIENT_SIZE, nvmlDeviceGetName(d, text, 3));
	memset(uuid, 'x', sizeof uuid);
	OK(nvmlDeviceGetUUID(d, uuid, sizeof uuid));
	CHECK(strlen(uuid) == 40);
	OK(nvmlDeviceGetHandleByUUID(uuid, &same));
	CHECK(same == d);
	WANT(INVALID_ARGUMENT, nvmlDeviceGetHandleByUUID(NULL, &same));
	OK(nvmlDeviceGetMigMode(d, &current, &pending));
	CHECK(current == 0 && pending == 0);
	OK(nvmlDeviceGetMemoryInfo(d, &m));
	CHECK(m.total > 140ull << 30 && m.free + m.used <= m.total);
	memset(&u, 0xff, sizeof u);
	OK(nvmlDeviceGetUtilizationRates(d, &u));
	CHECK(u.gpu == 0 && u.memory <= 100);
	OK(nvmlSystemGetDriverVersion(text, sizeof text));
	CHECK(atoi(text) >= 535);
	OK(nvmlShutdown());
	WANT(UNINITIALIZED, nvmlDeviceGetName(d, text, sizeof text));
}

// versions passes structs of versions that there are, and that there are not. Nothing may be written behind them.
static void versions(void)
{
	struct { struct memory_v2 m; unsigned behind; } s;
	OK(nvmlInit_v2());
	device d = gpu(0);
	memset(&s, 0xab, sizeof s);
	s.m.version = 2u << 24 | sizeof s.m;
	OK(nvmlDeviceGetMemoryInfo_v2(d, &s.m));
	CHECK(s.m.total > 140ull << 30 && s.m.version == (2u << 24 | sizeof s.m) && s.behind == 0xabababab);
	memset(&s, 0xab, sizeof s);
	s.m.version = 2u << 24 | 8;
	CHECK(nvmlDeviceGetMemoryInfo_v2(d, &s.m) != 0);
	CHECK(s.m.total == 0xababababababababull && s.m.used == 0xababababababababull);
	// The newest version has one member more.
	unsigned char fabric[48];
	static const unsigned fabric_versions[] = {2u << 24 | 36, 3u << 24 | 40, 3u << 24 | 36, 4u << 24 | 44};
	for (int i = 0; i < 4; i++) {
		unsigned size = fabric_versions[i] & 0xffffff;
		memset(fabric, 0xab, sizeof fabric);
		memcpy(fabric, &fabric_versions[i], 4);
		WANT(i < 2 ? 0 : VERSION_MISMATCH, nvmlDeviceGetGpuFabricInfoV(d, fabric));
		CHECK(fabric[size] == 0xab && (fabric[4] == 0 || i >= 2));
	}
}

// both uses CUDA and NVML, which must have the same devices.
static void both(int cuda_first)
{
	enum { GIB = 1 << 30 };
	int version = 0, same = 1;
	unsigned n = 4;
	unsigned char id[16];
	char uuid[96], want[96], *p = want;
	struct memory before, after;
	struct process list[4];
	void *ctx;
	uintptr_t mem;
	if (cuda_first)
		OK(cuInit(0));
	OK(nvmlInit_v2());
	device d = gpu(0);
	OK(nvmlDeviceGetMemoryInfo(d, &before));
	OK(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, list));
	CHECK(n == 0);
	if (!cuda_first)
		OK(cuInit(0));
	OK(nvmlSystemGetCudaDriverVersion_v2(&version));
	OK(cuDriverGetVersion(&same));
	CHECK(version == same);
	OK(cuDeviceGetUuid(id, 0));
	p += sprintf(p, "GPU-");
	for (int i = 0; i < 16; i++)
		p += sprintf(p, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
	OK(nvmlDeviceGetUUID(d, uuid, sizeof uuid));
	CHECK(!strcmp(uuid, want));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemAlloc_v2(&mem, GIB));
	OK(nvmlDeviceGetMemoryInfo(d, &after));
	CHECK(after.used >= before.used + GIB && after.free <= before.free - GIB);
	n = 0;
	WANT(INSUFFICIENT_SIZE, nvmlDeviceGetComputeRunningProcesses_v3(d, &n, NULL));
	n = 4;
	memset(list, 0xab, sizeof list);
	OK(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, list));
	CHECK(n == 1 && list[0].pid == (unsigned)getpid() && list[0].used >= GIB);
	OK(cuMemFree_v2(mem));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(nvmlShutdown());
}

static void cuda_first(void) { both(1); }
static void nvml_first(void) { both(0); }

// forked uses NVML before fork, and then in the child, where it must say that it cannot.
static void forked(void)
{
	unsigned n;
	int status;
	OK(nvmlInit_v2());
	pid_t child = fork();
	if (!child) {
		CHECK(nvmlDeviceGetCount_v2(&n) == UNINITIALIZED && nvmlInit_v2() != 0);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	OK(nvmlDeviceGetCount_v2(&n));
}

// shared has a child that uses CUDA, and sees it by NVML: the processes share a machine.
static void shared(void)
{
	enum { GIB = 1 << 30 };
	int ready[2], done[2], status;
	char byte = 0;
	CHECK(!pipe(ready) && !pipe(done));
	pid_t child = fork();
	if (!child) {
		void *ctx;
		uintptr_t mem;
		OK(cuInit(0));
		OK(cuDevicePrimaryCtxRetain(&ctx, 0));
		OK(cuCtxSetCurrent(ctx));
		OK(cuMemAlloc_v2(&mem, GIB));
		CHECK(write(ready[1], &byte, 1) == 1 && read(done[0], &byte, 1) == 1);
		_exit(0);
	}
	unsigned n = 4;
	struct process list[4];
	struct memory m;
	CHECK(read(ready[0], &byte, 1) == 1);
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetComputeRunningProcesses_v3(gpu(0), &n, list));
	CHECK(n == 1 && list[0].pid == (unsigned)child && list[0].used >= GIB);
	OK(nvmlDeviceGetMemoryInfo(gpu(0), &m));
	CHECK(m.used >= GIB);
	CHECK(write(done[1], &byte, 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
	n = 4;
	OK(nvmlDeviceGetComputeRunningProcesses_v3(gpu(0), &n, list));
	CHECK(n == 0);
}

// lost has a GPU that is lost.
static void lost(void)
{
	char text[96];
	device d;
	OK(nvmlInit_v2());
	OK(nvmlDeviceGetName(gpu(1), text, sizeof text));
	int r = nvmlDeviceGetHandleByIndex_v2(0, &d);
	CHECK((r ? r : nvmlDeviceGetName(d, text, sizeof text)) == GPU_IS_LOST);
}

// faulty has a function that fails from the third call on.
static void faulty(void)
{
	char text[96];
	OK(nvmlInit_v2());
	device d = gpu(0);
	OK(nvmlDeviceGetName(d, text, sizeof text));
	OK(nvmlDeviceGetName(d, text, sizeof text));
	WANT(GPU_IS_LOST, nvmlDeviceGetName(d, text, sizeof text));
	WANT(GPU_IS_LOST, nvmlDeviceGetName(d, text, sizeof text));
	OK(nvmlDeviceGetUUID(d, text, sizeof text));
}

static void *use(void *unused)
{
	(void)unused;
	for (int i = 0; i < 200; i++) {
		char text[96];
		OK(nvmlInit_v2());
		OK(nvmlDeviceGetName(gpu(0), text, sizeof text));
		OK(nvmlShutdown());
	}
	return NULL;
}

static void threads(void)
{
	enum { THREADS = 8 };
	pthread_t thread[THREADS];
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, use, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL));
}

// takes_device reports whether the first argument of a function is a device.
static int takes_device(const char *name)
{
	static const char *const others[] = {"DeviceGetCount", "DeviceGetHandleBy", "DeviceDiscover", "DeviceModify",
		"DeviceQuery", "DeviceRemove"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (!strncmp(name + strlen("nvml"), others[i], strlen(others[i])))
			return 0;
	return !strncmp(name, "nvmlDevice", strlen("nvmlDevice"));
}

// nulls calls each function on standard input with arguments that are all 0, and with a device and zeros.
static void nulls(void)
{
	typedef int function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
	char name[128];
	int found = 0;
	OK(nvmlInit_v2());
	uintptr_t d = (uintptr_t)gpu(0);
	while (scanf("%127s", name) == 1) {
		function *f = (function *)dlsym(RTLD_DEFAULT, name);
		CHECK(f);
		found++;
		if (!strcmp(name, "nvmlErrorString") || !strncmp(name, "nvmlInit", 8) || !strcmp(name, "nvmlShutdown"))
			continue;
		int r = f(0, 0, 0, 0, 0, 0);
		CHECK(r >= 0 && r != UNINITIALIZED);
		if (takes_device(name)) {
			r = f(d, 0, 0, 0, 0, 0);
			CHECK(r >= 0 && r != UNINITIALIZED);
		}
	}
	CHECK(found > 300);
}

// older has a driver without functions of newer ones.
static void older(void)
{
	int version;
	OK(nvmlInit_v2());
	OK(nvmlSystemGetCudaDriverVersion_v2(&version));
	CHECK(version == 12020);
	int (*newer)(device, void *) = (int (*)(device, void *))dlsym(RTLD_DEFAULT, "nvmlDeviceGetPciInfoExt");
	CHECK(newer);
	WANT(FUNCTION_NOT_FOUND, newer(gpu(0), NULL));
}

// refused has environment variables that the driver does not understand.
static void refused(void) { CHECK(nvmlInit_v2() == 999 && cuInit(0) == 999); }

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } scenarios[] = {
		{"alone", alone}, {"versions", versions}, {"cuda-first", cuda_first}, {"nvml-first", nvml_first},
		{"forked", forked}, {"threads", threads}, {"nulls", nulls}, {"older", older},
		{"shared", shared}, {"lost", lost}, {"faulty", faulty}, {"refused", refused},
	};
	for (size_t i = 0; argc > 1 && i < sizeof scenarios / sizeof *scenarios; i++)
		if (!strcmp(argv[1], scenarios[i].name)) {
			scenarios[i].run();
			return 0;
		}
	fprintf(stderr, "usage: nvml SCENARIO\n");
	return 2;
}
