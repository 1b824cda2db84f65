// Functions of CUDA before version 4. Launches: a function keeps the size of its blocks, their shared memory, and its
// arguments, and cuLaunchKernel gets them. Contexts: they count who uses them.
#include "libcuda.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// A setup is what a function keeps.
struct setup {
	void *function;
	unsigned int block[3], shared, size;
	char args[4096];
	struct setup *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct setup *setups;

// open_setup locks the setup of a function, and makes it first if there is none. The result is that of cusim_begin.
static int open_setup(int result, void *function, struct setup **s)
{
	const int registers = 4; // CU_FUNC_ATTRIBUTE_NUM_REGS
	int value;
	if (!result)
		result = cuFuncGetAttribute(&value, registers, function);
	if (result)
		return result;
	pthread_mutex_lock(&lock);
	for (*s = setups; *s && (*s)->function != function; *s = (*s)->next)
		;
	if (*s)
		return CUDA_SUCCESS;
	if (!(*s = calloc(1, sizeof **s))) {
		pthread_mutex_unlock(&lock);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	(*s)->function = function;
	(*s)->next = setups;
	setups = *s;
	return CUDA_SUCCESS;
}

// close_setup unlocks the setup, and returns the result of what was done with it.
static int close_setup(int valid)
{
	pthread_mutex_unlock(&lock);
	return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int cuFuncSetBlockShape(void *hfunc, int x, int y, int z)
{
	struct setup *s;
	int result = open_setup(cusim_begin("cuFuncSetBlockShape"), hfunc, &s);
	if (result)
		return result;
	int valid = x > 0 && y > 0 && z > 0;
	if (valid)
		s->block[0] = x, s->block[1] = y, s->block[2] = z;
	return close_setup(valid);
}

int cuFuncSetSharedSize(void *hfunc, unsigned int bytes)
{
	struct setup *s;
	int result = open_setup(cusim_begin("cuFuncSetSharedSize"), hfunc, &s);
	if (result)
		return result;
	int valid = bytes <= 227 << 10;
	if (valid)
		s->shared = bytes;
	return close_setup(valid);
}

int cuParamSetSize(void *hfunc, unsigned int numbytes)
{
	struct setup *s;
	int result = open_setup(cusim_begin("cuParamSetSize"), hfunc, &s);
	if (result)
		return result;
	int valid = numbytes <= sizeof s->args;
	if (valid)
		s->size = numbytes;
	return close_setup(valid);
}

static int set_param(int result, void *function, int offset, const void *p, unsigned int n)
{
	struct setup *s;
	result = open_setup(result, function, &s);
	if (result)
		return result;
	int valid = p && offset >= 0 && n <= sizeof s->args && (unsigned int)offset <= sizeof s->args - n;
	if (valid)
		memcpy(s->args + offset, p, n);
	return close_setup(valid);
}

int cuParamSeti(void *hfunc, int offset, unsigned int value)
{
	return set_param(cusim_begin("cuParamSeti"), hfunc, offset, &value, sizeof value);
}

int cuParamSetf(void *hfunc, int offset, float value)
{
	return set_param(cusim_begin("cuParamSetf"), hfunc, offset, &value, sizeof value);
}

int cuParamSetv(void *hfunc, int offset, void *ptr, unsigned int numbytes)
{
	return set_param(cusim_begin("cuParamSetv"), hfunc, offset, ptr, numbytes);
}

static int launch(int result, void *function, int width, int height, void *stream)
{
	struct setup *s;
	result = open_setup(result, function, &s);
	if (result)
		return result;
	struct setup copy = *s;
	close_setup(1);
	size_t size = copy.size;
	void *extra[] = {(void *)1, copy.args, (void *)2, &size, NULL}; // CU_LAUNCH_PARAM_BUFFER_…
	return cuLaunchKernel(function, width, height, 1, copy.block[0], copy.block[1], copy.block[2], copy.shared, stream,
		NULL, size ? extra : NULL);
}

int cuLaunch(void *f) { return launch(cusim_begin("cuLaunch"), f, 1, 1, NULL); }

int cuLaunchGrid(void *f, int grid_width, int grid_height)
{
	return launch(cusim_begin("cuLaunchGrid"), f, grid_width, grid_height, NULL);
}

int cuLaunchGridAsync(void *f, int grid_width, int grid_height, void *hStream)
{
	return launch(cusim_begin("cuLaunchGridAsync"), f, grid_width, grid_height, hStream);
}

// A user is one more use of a context than that of its creator.
struct user {
	void *ctx;
	struct user *next;
};

static struct user *users;

int cuCtxAttach(void *pctx, unsigned int flags)
{
	void *ctx = NULL;
	int result = cusim_begin("cuCtxAttach");
	if (!result)
		result = cuCtxGetCurrent(&ctx);
	if (result)
		return result;
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	struct user *u = malloc(sizeof *u);
	if (!u)
		return CUDA_ERROR_OUT_OF_MEMORY;
	u->ctx = *(void **)pctx = ctx;
	pthread_mutex_lock(&lock);
	u->next = users;
	users = u;
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

int cuCtxDetach(void *ctx)
{
	void *current = NULL;
	int result = cusim_begin("cuCtxDetach");
	if (!result)
		result = cuCtxGetCurrent(&current);
	if (result)
		return result;
	if (!ctx || ctx != current)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = cuCtxGetStreamPriorityRange(NULL, NULL); // whether the context still exists
	if (result)
		return result;
	pthread_mutex_lock(&lock);
	struct user **at = &users, *u;
	while (*at && (*at)->ctx != ctx)
		at = &(*at)->next;
	if ((u = *at))
		*at = u->next;
	pthread_mutex_unlock(&lock);
	if (!u) {
		result = cuCtxDestroy_v2(ctx);
		return result == CUDA_ERROR_INVALID_CONTEXT ? CUDA_SUCCESS : result; // a primary context stays
	}
	free(u);
	return CUDA_SUCCESS;
}
