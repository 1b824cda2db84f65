// libnvidia-ml.so.1. It makes its calls through libcuda.so.1 in the same folder, which it loads at the first nvmlInit: so
// a process has one driver, and NVML shows what CUDA does.
#define _GNU_SOURCE
#include "libnvidia-ml.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// cusim_simulated says that this is not NVIDIA's library, which does not export it.
__attribute__((visibility("default"))) const int cusim_simulated = 1;

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12,
};

typedef int nvml_function(int first, uint32_t number, int since, uint64_t *words);

static _Atomic(nvml_function *) cusim_nvml; // of libcuda.so.1
static char driver_path[PATH_MAX];

// library_loaded is called when this library is loaded. It stores the path, as the working directory may change.
__attribute__((constructor)) static void library_loaded(void)
{
	static const char name[] = "libcuda.so.1";
	Dl_info info;
	char *path = dladdr((void *)nvml_call, &info) ? realpath(info.dli_fname, NULL) : NULL;
	if (!path)
		return;
	char *slash = strrchr(path, '/');
	if ((size_t)(slash + 1 - path) + sizeof name <= sizeof driver_path) {
		memcpy(driver_path, path, slash + 1 - path);
		strcpy(driver_path + (slash + 1 - path), name);
	}
	free(path);
}

int nvml_call(uint32_t number, int since, uint64_t *words)
{
	nvml_function *call = cusim_nvml;
	return call ? call(0, number, since, words) : NVML_ERROR_UNINITIALIZED;
}

int nvml_first_call(uint32_t number, int since, uint64_t *words)
{
	nvml_function *call = cusim_nvml;
	if (!call) {
		void *driver = dlopen(driver_path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
		call = driver ? (nvml_function *)dlsym(driver, "cusim_nvml") : NULL;
		if (!call) {
			fprintf(stderr, "cusim: the driver behind libnvidia-ml.so.1 cannot be loaded: %s\n", dlerror());
			return NVML_ERROR_LIBRARY_NOT_FOUND;
		}
		cusim_nvml = call; // other threads find the same
	}
	return call(1, number, since, words);
}

#pragma GCC visibility push(default)

const char *nvmlErrorString(int result)
{
	for (const struct nvml_text *t = nvml_texts; t->text; t++)
		if (t->code == result)
			return t->text;
	return "Unknown Error";
}

// An export table is an array of functions that nothing public describes, and which are numbered. Its first entry is its
// size in bytes. ENTRIES is more than nvidia-smi asks for.
enum { ENTRIES = 512 };

static int not_supported(void) { return NVML_ERROR_NOT_SUPPORTED; }

static const void *const export_table[ENTRIES] = {
	(void *)sizeof export_table,
	[1 ... ENTRIES - 1] = (void *)not_supported,
};

// nvmlInternalGetExportTable is what nvidia-smi does not begin without. It goes on without each of the functions.
int nvmlInternalGetExportTable(void *table, void *id)
{
	if (!table || !id)
		return NVML_ERROR_INVALID_ARGUMENT;
	*(const void *const **)table = export_table;
	return NVML_SUCCESS;
}
