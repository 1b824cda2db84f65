// The C side of the measurements: what the same driver calls cost when a C
// program makes them in a loop. Each function returns nanoseconds per call,
// times 1000, so that an integer register carries it.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
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
typedef int (*fn_set_node)(void *exec, void *node, const void *params);
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

// baseline_kernel_nodes replaces the parameters of 32 kernel nodes of an executable graph in turn, n
// times in all.
uint64_t baseline_kernel_nodes(fn_set_node set, void *exec, void **nodes, void *function, void **params, uint64_t n) {
	struct {
		void *function;
		unsigned grid[3], block[3], shared;
		void **params, **extra;
		void *kernel, *ctx;
	} p = {function, {1, 1, 1}, {1, 1, 1}, 0, params, 0, 0, 0};
	uint64_t t = now();
	for (uint64_t i = 0; i < n; i++)
		if (set(exec, nodes[i % 32], &p))
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

// barrier lets threads begin at the same time. They spin, because a thread that sleeps takes a while
// to wake up.
struct barrier {
	atomic_uint here, passed;
	unsigned threads;
};

static void meet(struct barrier *b) {
	unsigned passed = atomic_load(&b->passed);
	if (atomic_fetch_add(&b->here, 1) + 1 == b->threads) {
		atomic_store(&b->here, 0);
		atomic_fetch_add(&b->passed, 1);
		return;
	}
	for (unsigned looks = 1; atomic_load(&b->passed) == passed; looks++)
		if (looks % 1024 == 0)
			sched_yield(); // there may be fewer processors than threads
}

enum { most_threads = 64 };

// team is what threads have in common that make the same calls.
struct team {
	void *f;          // called with a handle and, unless it is null, a stream
	fn1 then;         // called with the handle after each call, unless it is null
	fn1 sync;         // called with the stream after each part, not timed, unless it is null
	void **params;    // if it is set, f is cuLaunchKernel, and handles are functions
	uint64_t parts, calls;
	struct barrier barrier;
	struct worker {
		struct team *team;
		void *handle, *stream;
		uint64_t began, ended;
		int failed;
	} workers[most_threads];
	uint64_t took; // by all parts
};

static int call_all(struct worker *w) {
	struct team *t = w->team;
	int r = 0;
	for (uint64_t i = 0; i < t->calls; i++) {
		if (t->params)
			r |= ((fn_launch)t->f)(w->handle, 1, 1, 1, 1, 1, 1, 0, w->stream, t->params, 0);
		else if (w->stream)
			r |= ((fn2)t->f)(w->handle, w->stream);
		else
			r |= ((fn1)t->f)(w->handle);
		if (t->then)
			r |= t->then(w->handle);
	}
	return r;
}

static void *work(void *p) {
	struct worker *w = p;
	struct team *t = w->team;
	for (uint64_t part = 0; part < t->parts; part++) {
		meet(&t->barrier);
		w->began = now();
		int r = call_all(w);
		w->ended = now();
		w->failed |= w->stream && r; // a query may say that something is pending
		meet(&t->barrier);
		if (w == t->workers) {
			uint64_t first = w->began, last = w->ended;
			for (unsigned i = 1; i < t->barrier.threads; i++) {
				first = t->workers[i].began < first ? t->workers[i].began : first;
				last = t->workers[i].ended > last ? t->workers[i].ended : last;
			}
			t->took += last - first;
		}
		if (t->sync && w->stream)
			w->failed |= t->sync(w->stream);
	}
	return 0;
}

// baseline_threads lets threads make the same calls: see team. Each has a handle and, unless streams is
// null, a stream of its own. It returns the wall time per call of all threads together, without what
// happens between parts, or 0 if a call fails.
uint64_t baseline_threads(void *f, fn1 then, fn1 sync, void **handles, void **streams, void **params,
	uint64_t threads, uint64_t parts, uint64_t calls) {
	pthread_t id[most_threads];
	struct team t = {.f = f, .then = then, .sync = sync, .params = params, .parts = parts, .calls = calls};
	int failed = 0;
	if (threads > most_threads)
		return 0;
	t.barrier.threads = (unsigned)threads;
	for (uint64_t i = 0; i < threads; i++) {
		t.workers[i].team = &t;
		t.workers[i].handle = handles[i];
		t.workers[i].stream = streams ? streams[i] : 0;
		pthread_create(&id[i], 0, work, &t.workers[i]);
	}
	for (uint64_t i = 0; i < threads; i++) {
		pthread_join(id[i], 0);
		failed |= t.workers[i].failed;
	}
	return failed ? 0 : t.took * 1000 / (threads * parts * calls);
}

// waiter is a thread that waits for an event, and notes when it has found it complete.
struct waiter {
	fn1 f;
	void *event;
	atomic_uint *waiting; // how many threads wait
	uint64_t *seen;
	int failed;
};

static void *wait_for(void *p) {
	enum { not_ready = 600 };
	struct waiter *w = p;
	int r;
	atomic_fetch_add(w->waiting, 1);
	do
		r = w->f(w->event);
	while (r == not_ready);
	*w->seen = now();
	w->failed = r;
	return 0;
}

// baseline_wait_all lets a thread wait for each of n events, with cuEventSynchronize or with
// cuEventQuery in a loop, and returns when all have found theirs complete. seen gets the times at
// which they have, by the clock of baseline_now. It returns 1, or 0 if a call fails.
uint64_t baseline_wait_all(fn1 f, void **events, uint64_t n, uint32_t *waiting, uint64_t *seen) {
	pthread_t id[most_threads];
	struct waiter w[most_threads];
	int failed = 0;
	if (n > most_threads)
		return 0;
	for (uint64_t i = 0; i < n; i++) {
		w[i] = (struct waiter){f, events[i], (atomic_uint *)waiting, &seen[i], 0};
		pthread_create(&id[i], 0, wait_for, &w[i]);
	}
	for (uint64_t i = 0; i < n; i++) {
		pthread_join(id[i], 0);
		failed |= w[i].failed;
	}
	return !failed;
}

// baseline_now returns the time in nanoseconds.
uint64_t baseline_now(void) { return now(); }
