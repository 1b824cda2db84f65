// The C side of the measurements: what the same driver calls cost when a C
// program makes them in a loop. Each function returns nanoseconds per call,
// times 1000, so that an integer register carries it.
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t per_call(uint64_t since, uint64_t n) { return (now() - since) * 1000 / n; }

typedef int (*fn1)(void *);
typedef int (*fn2)(void *, void *);
typedef int (*fn_elapsed)(float *, void *, void *);
typedef int (*fn_create)(void **, unsigned);
typedef int (*fn_wait)(void *stream, void *event, unsigned flags);
typedef int (*fn_launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared, void *stream,
	void **params, void **extra);
typedef int (*fn_copy)(uint64_t to, const void *from, size_t size, void *stream);
typedef int (*fn_alloc)(uint64_t *, size_t);
typedef int (*fn_free)(uint64_t);
typedef int (*fn_memset)(uint64_t to, unsigned char value, size_t size, void *stream);

uint64_t baseline_loop1(fn1 f, void *a, uint64_t n) {
	volatile int r;
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++)
		r = f(a);
	(void)r;
	return per_call(t, n);
}

uint64_t baseline_loop2(fn2 f, void *a, void *b, uint64_t n) {
	volatile int r;
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++)
		r = f(a, b);
	(void)r;
	return per_call(t, n);
}

uint64_t baseline_elapsed(fn_elapsed f, void *a, void *b, uint64_t n) {
	volatile float sum = 0;
	float ms = 0;
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++) {
		f(&ms, a, b);
		sum += ms;
	}
	return per_call(t, n);
}

uint64_t baseline_create_destroy(fn_create create, fn1 destroy, uint64_t flags, uint64_t n) {
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++) {
		void *e = 0;
		if (create(&e, (unsigned)flags))
			return 0;
		destroy(e);
	}
	return per_call(t, n);
}

uint64_t baseline_create_record_destroy(fn_create create, fn2 record, fn1 destroy, uint64_t flags, void *stream, uint64_t n) {
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++) {
		void *e = 0;
		if (create(&e, (unsigned)flags) || record(e, stream) || destroy(e))
			return 0;
	}
	return per_call(t, n);
}

uint64_t baseline_wait(fn_wait wait, void *stream, void *event, uint64_t n) {
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++)
		if (wait(stream, event, 0))
			return 0;
	return per_call(t, n);
}

// baseline_record_wait lets a stream wait for another, n times.
uint64_t baseline_record_wait(fn2 record, fn_wait wait, void *event, void *other, void *stream, uint64_t n) {
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++)
		if (record(event, other) || wait(stream, event, 0))
			return 0;
	return per_call(t, n);
}

// baseline_launch launches one thread of a kernel with these parameters, n times.
uint64_t baseline_launch(fn_launch launch, void *function, void *stream, void **params, uint64_t n) {
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++)
		if (launch(function, 1, 1, 1, 1, 1, 1, 0, stream, params, 0))
			return 0;
	return per_call(t, n);
}

// baseline_alloc_free allocates and frees memory, n times.
uint64_t baseline_alloc_free(fn_alloc alloc, fn_free release, uint64_t size, uint64_t n) {
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++) {
		uint64_t p = 0;
		if (alloc(&p, size) || release(p))
			return 0;
	}
	return per_call(t, n);
}

uint64_t baseline_memset(fn_memset set, uint64_t to, uint64_t size, void *stream, uint64_t n) {
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++)
		if (set(to, 1, size, stream))
			return 0;
	return per_call(t, n);
}

uint64_t baseline_copy(fn_copy copy, uint64_t to, const void *from, uint64_t size, void *stream, uint64_t n) {
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++)
		if (copy(to, from, size, stream))
			return 0;
	return per_call(t, n);
}

// baseline_array calls f once for each of n handles, rounds times.
uint64_t baseline_array(fn1 f, void **handles, uint64_t n, uint64_t rounds) {
	volatile int r;
	uint64_t t = now();
	for (uint64_t k = 0; k < rounds; k++)
		for (uint64_t i = 0; i < n; i++)
			r = f(handles[i]);
	(void)r;
	return per_call(t, n * rounds);
}

// worker is a thread that calls f with its handle and, unless it is null, its stream, or launches a
// function on its stream.
struct worker {
	void *f, *handle, *stream;
	void **params;
	uint64_t n;
	pthread_barrier_t *start;
	uint64_t began, ended, failed;
};

static void *work(void *p) {
	struct worker *w = p;
	volatile int r = 0;
	pthread_barrier_wait(w->start);
	w->began = now();
	if (w->params)
		for (uint64_t i = 0; i < w->n; i++)
			r |= ((fn_launch)w->f)(w->handle, 1, 1, 1, 1, 1, 1, 0, w->stream, w->params, 0);
	else if (w->stream)
		for (uint64_t i = 0; i < w->n; i++)
			r |= ((fn2)w->f)(w->handle, w->stream);
	else
		for (uint64_t i = 0; i < w->n; i++)
			r = ((fn1)w->f)(w->handle);
	w->ended = now();
	w->failed = w->stream && r;
	return 0;
}

// baseline_threads lets threads threads, of at most 64, call f n times, each with a handle, and, unless
// streams is null, a stream of its own. With params f is cuLaunchKernel, and the handles are the
// function. It returns the wall time per call of all threads together, or 0 if a call fails.
uint64_t baseline_threads(void *f, void **handles, void **streams, void **params, uint64_t threads, uint64_t n) {
	pthread_t id[64];
	struct worker w[64];
	pthread_barrier_t start;
	if (threads > 64)
		return 0;
	pthread_barrier_init(&start, 0, (unsigned)threads);
	for (uint64_t i = 0; i < threads; i++) {
		w[i] = (struct worker){f, handles[i], streams ? streams[i] : 0, params, n, &start, 0, 0, 0};
		pthread_create(&id[i], 0, work, &w[i]);
	}
	uint64_t first = ~0ull, last = 0, failed = 0;
	for (uint64_t i = 0; i < threads; i++) {
		pthread_join(id[i], 0);
		failed |= w[i].failed;
		if (w[i].began < first)
			first = w[i].began;
		if (w[i].ended > last)
			last = w[i].ended;
	}
	pthread_barrier_destroy(&start);
	return failed ? 0 : (last - first) * 1000 / (threads * n);
}
