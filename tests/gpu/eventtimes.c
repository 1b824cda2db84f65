// Asks whether a time between two events is right as soon as the driver tells one. Each row records two events in
// some way, measures the time at once, and again after all work is done. A program can only see the first time.
//
// It takes no CUDA headers:
//
//	gcc -O1 -o eventtimes tests/gpu/eventtimes.c -ldl
//	./eventtimes >eventtimes.tsv      # all rows, some seconds
//	./eventtimes cuCtxRecordEvent     # only rows with this in their names
//
// What is done before the time is measured changes from round to round: nothing; cuEventQuery of both events until they
// succeed; the same, and a wait of 20 microseconds; cuEventQuery as before, and cuEventSynchronize of both. The columns
// are: the row; how often it was made; for each of these ways, how often the time was told / how often it then differed
// from the later one by more than two microseconds, which is four times the events' resolution; the largest difference in
// milliseconds; the longest cuEventSynchronize in microseconds; and which result other than 0 and 600 a call had.
#define _GNU_SOURCE
#include "blocking.h"
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 100000 };

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry small() { ret; }\n";

static H ctx, s, t, module, small, start, stop, green, green_stream;

static int missing(void) { return -1; }

#define ok(call) check(call, #call)
static void check(int r, const char *call) {
	if (r) {
		printf("not measured: %.*s answers %d\n", (int)strcspn(call, "("), call, r);
		exit(3);
	}
}

static int launch(H on) { return cuLaunchKernel(small, 1, 1, 1, 1, 1, 1, 0, on, NULL, NULL); }

static int on_stream(H e) { return cuEventRecord(e, s); }
static int on_other(H e) { return cuEventRecord(e, t); }
static int on_context(H e) { return cuCtxRecordEvent(ctx, e); }
static int on_green(H e) { return cuGreenCtxRecordEvent(green, e); }
static int after_work(H e) {
	int r = launch(s);
	return r ? r : cuEventRecord(e, s);
}
static int context_after_work(H e) {
	int r = launch(s);
	return r ? r : cuCtxRecordEvent(ctx, e);
}
static int green_after_work(H e) {
	int r = launch(green_stream);
	return r ? r : cuGreenCtxRecordEvent(green, e);
}

static const struct row {
	const char *name;
	int (*first)(H), (*second)(H);
} rows[] = {
	{"cuEventRecord, cuEventRecord", on_stream, on_stream},
	{"cuEventRecord, cuEventRecord on another stream", on_stream, on_other},
	{"cuEventRecord, cuLaunchKernel, cuEventRecord", on_stream, after_work},
	{"cuCtxRecordEvent, cuCtxRecordEvent", on_context, on_context},
	{"cuEventRecord, cuCtxRecordEvent", on_stream, on_context},
	{"cuCtxRecordEvent, cuEventRecord", on_context, on_stream},
	{"cuEventRecord, cuLaunchKernel, cuCtxRecordEvent", on_stream, context_after_work},
	{"cuLaunchKernel, cuCtxRecordEvent, cuLaunchKernel, cuCtxRecordEvent", context_after_work, context_after_work},
	{"cuGreenCtxRecordEvent, cuGreenCtxRecordEvent", on_green, on_green},
	{"cuLaunchKernel, cuGreenCtxRecordEvent, cuLaunchKernel, cuGreenCtxRecordEvent", green_after_work,
	 green_after_work},
};

static void prepare_green(void) {
	static Resource all, some, rest;
	U n = 1;
	H description;
	if (green || cuDeviceGetDevResource(0, &all, RESOURCE_SM))
		return;
	ok(cuDevSmResourceSplitByCount(&some, &n, &all, &rest, 0, 8));
	ok(cuDevResourceGenerateDesc(&description, &some, 1));
	ok(cuGreenCtxCreate(&green, description, 0, GREEN_DEFAULT_STREAM));
	ok(cuGreenCtxStreamCreate(&green_stream, green, STREAM_NON_BLOCKING, 0));
}

static int elapsed(float *ms, H a, H b) {
	int r = cuEventElapsedTime_v2(ms, a, b);
	return r == -1 ? cuEventElapsedTime(ms, a, b) : r;
}

enum { AT_ONCE, QUERIED, LATER, SYNCHRONIZED, WAYS };

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static int near(float a, float b) { return a - b <= 2e-3f && b - a <= 2e-3f; }

static double longest; // cuEventSynchronize, in microseconds

static void query(void) {
	while (cuEventQuery(start) || cuEventQuery(stop))
		;
}

static void synchronize(H e) {
	double begun = now(), took;
	ok(cuEventSynchronize(e));
	took = now() - begun;
	longest = took > longest ? took : longest;
}

// prepare waits for the events in one of the ways.
static void prepare(int way) {
	if (way == AT_ONCE)
		return;
	query();
	if (way == LATER)
		for (double begun = now(); now() - begun < 20;)
			;
	if (way == SYNCHRONIZED) {
		synchronize(start);
		synchronize(stop);
	}
}

static void run(const struct row *r) {
	int ready[WAYS] = {0}, wrong[WAYS] = {0}, other = 0;
	float most = 0;
	longest = 0;
	for (int i = 0; i < TIMES; i++) {
		float soon = 0, late = 0;
		int way = i % WAYS;
		int first = r->first(start), second = first ? 0 : r->second(stop);
		if (first || second) {
			printf("not measured: a call answers %d\n", first ? first : second);
			return;
		}
		prepare(way);
		int res = elapsed(&soon, start, stop);
		ok(cuCtxSynchronize());
		if (green_stream)
			ok(cuStreamSynchronize(green_stream));
		ok(elapsed(&late, start, stop));
		if (res) {
			other = res == NOT_READY ? other : res;
			continue;
		}
		ready[way]++;
		wrong[way] += !near(soon, late);
		float by = soon > late ? soon - late : late - soon;
		most = by > most ? by : most;
		if (i % 61 < WAYS)
			usleep(100); // a stale time differs from the right one
	}
	printf("%d", TIMES);
	for (int way = 0; way < WAYS; way++)
		printf("\t%d / %d", ready[way], wrong[way]);
	printf("\t%.6f\t%.1f\t%d\n", most, longest, other);
}

int main(int argc, char **argv) {
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib)
		return printf("not measured: %s\n", dlerror()), 3;
#define LOOK_UP(name, export, parameters)                                                                              \
	if (!(*(void **)&name = dlsym(lib, export)))                                                                   \
		*(void **)&name = (void *)(uintptr_t)missing;
	FUNCTIONS(LOOK_UP)
	ok(cuInit(0));
	ok(cuDevicePrimaryCtxRetain(&ctx, 0));
	ok(cuCtxSetCurrent(ctx));
	ok(cuModuleLoadData(&module, ptx));
	ok(cuModuleGetFunction(&small, module, "small"));
	ok(cuStreamCreate(&s, STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&t, STREAM_NON_BLOCKING));
	ok(cuEventCreate(&start, EVENT_TIMED));
	ok(cuEventCreate(&stop, EVENT_TIMED));
	printf("# Whether a time between two events is right as soon as the driver tells one.\n"
	       "# Made by tests/gpu/eventtimes.c.\n"
	       "# records\ttimes\tat once\tqueried\t20 us later\tsynchronized\tmost, ms\tlongest, us\tother result\n");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int wanted = argc < 2;
		for (int k = 1; k < argc; k++)
			wanted |= strstr(rows[i].name, argv[k]) != NULL;
		if (!wanted)
			continue;
		printf("%s\t", rows[i].name);
		if (strstr(rows[i].name, "Green")) {
			prepare_green();
			if (!green) {
				printf("not measured: no green contexts\n");
				continue;
			}
		}
		run(&rows[i]);
		fflush(stdout);
	}
	return 0;
}
