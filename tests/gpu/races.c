// Asks whether the driver crashes, hangs or fails where threads make two kinds of calls in one context at a time.
// The first kind (A) is checked against captures, or records events and waits; the second (B) begins and ends
// captures, or creates and destroys objects. Driver 580 crashes if a call of A is checked against a capture that
// begins or ends at that moment: docs/design/captures.md says which, and races.tsv has what an H100 did.
//
// It takes no CUDA headers:
//
//	gcc -O1 -g -o races tests/gpu/races.c -ldl -lpthread
//	./races >races.tsv                                     # all pairs, about a minute and a half
//	./races -for 60 'cuCtxWaitEvent beside cuStream'       # only pairs with this in their names, 60 s each
//	./races -contexts devices                              # in a context on each of two devices
//	./races -list
//
// -exclusive begin,end,join keeps A off while captures begin, end, or are joined by another stream, and -relaxed gives
// the threads of A the relaxed capture mode: so one finds out what a crash takes.
//
// -contexts is one (the primary context of device 0), created (one that cuCtxCreate made), two (these two), apart
// (A in the first of them, B in the second) or devices (the primary contexts of two devices). -but NAME leaves out
// the calls with this in their names, also of "all of these": so one finds out which of them it takes. Each pair
// has -threads threads of each kind in each context (-threads 1,2: one of A and two of B), and a process of its own,
// of which -jobs run side by side.
// The row of a pair that crashes says with which signal, at which address, in which call, where in which library,
// and in which calls the other threads were; standard error has the call stack. The exit status is 1 if a pair did
// not end well.
#define _GNU_SOURCE
#include "blocking.h"
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST_THREADS = 100, MOST_PLACES = 2, SETUP_MS = 30000, HANG_MS = 10000 };

// A kind of calls that a thread makes over and over.
struct op {
	const char *name;
	void (*turn)(void);
	int green; // it needs a green context
};

// A thread, in memory that the parent reads. Strings are valid there, too, as it is forked and does not call exec.
struct thread {
	const struct op *op; // NULL for the thread that prepares
	struct place *place;
	char name[8];
	_Atomic(const char *) in; // the call that is under way, or NULL
	atomic_long calls, failures;
	_Atomic(const char *) failed; // the first call that failed
	atomic_int code, ready, done;
	unsigned long turns;
	H stream, blocking, green_stream, elsewhere, event, fork, join, join_elsewhere, graph, branches, exec; // its own
	int least, greatest; // priorities
	_Atomic U *word;     // that streams wait for, and its address on the device
	D word_at;
	U word_next;
	struct thread *helper; // has streams of its own, for a thread that is started beside it
};

// A process, as its parent sees it.
struct state {
	struct thread threads[MOST_THREADS];
	int num_threads;
	char pair[200];
	atomic_int running, stop, finished;
	_Atomic double began, seconds;
	char skipped[200], no_green[200]; // why there is no measurement, and none with green contexts
	// Of a crash.
	atomic_int signal;
	void *address;
	unsigned long ip; // in library, from its begin
	char library[60];
	struct thread *who; // NULL for a thread of the driver
	const char *in[MOST_THREADS];
};
static struct state *state;
static __thread struct thread *me;

// A context, and what its threads share.
static struct place {
	int dev;
	H ctx, other, green, description, green_event, common, small, graph, branches, shared, green_stream;
	D bytes;
} places[MOST_PLACES];
static int num_places;

static double seconds = 2;
static int threads_a = 2, threads_b = 2, side_by_side = 4;
static const char *contexts = "one", *but[20]; // what is left out
static int num_but, exclusive, relaxed;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// skip ends a process without a measurement.
static void skip(const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(state->skipped, sizeof state->skipped, format, args);
	va_end(args);
	_exit(0);
}

static int missing(void) { return -1; }

static int name_length(const char *call) { return (int)strcspn(call, "("); }

// DO makes a call that others see, and ok one that the process needs in order to begin.
#define DO(call) (begin(#call), end(call))
#define ok(call) check(DO(call), #call)
static void begin(const char *call) { me->in = call; }
static int end(int r) {
	int of_a_capture = r >= 900 && r <= 908; // which others have invalidated, or which forbids the call
	if (r != 0 && r != NOT_READY && !of_a_capture && me->failures++ == 0) {
		me->code = r;
		me->failed = atomic_load(&me->in);
	}
	me->in = NULL;
	me->calls++;
	return r;
}
static void check(int r, const char *call) {
	if (r == -1)
		skip("%.*s is missing", name_length(call), call);
	if (r != 0)
		skip("%.*s answers %d", name_length(call), call, r);
}

// With -exclusive, a lock for A to share, and for who begins, ends or joins a capture alone.
enum { BEGIN = 1, END = 2, JOIN = 4 };
static pthread_rwlock_t exclusion = PTHREAD_RWLOCK_INITIALIZER;
static void enter_capture(int part) {
	if (exclusive & part)
		pthread_rwlock_wrlock(&exclusion);
}
static void leave_capture(int part) {
	if (exclusive & part)
		pthread_rwlock_unlock(&exclusion);
}

#include "races_calls.h"

static int left_out(const struct op *op) {
	for (int i = 0; i < num_but; i++)
		if (strstr(op->name, but[i]))
			return 1;
	return 0;
}

enum { AS = sizeof as / sizeof *as, BS = sizeof bs / sizeof *bs, PAIRS = (AS + 1) * (BS + 1) };

// The call stack of a crash, in terms of libraries, whose addresses are looked up beforehand.
static struct {
	unsigned long begin, end;
	char name[60];
} libraries[200];
static int num_libraries;

static int add_library(struct dl_phdr_info *info, size_t size, void *arg) {
	const char *name = strrchr(info->dlpi_name, '/');
	(void)size, (void)arg;
	if (num_libraries == sizeof libraries / sizeof *libraries)
		return 1;
	unsigned long end = 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD) // in the order of their addresses
			end = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
	libraries[num_libraries].begin = info->dlpi_addr;
	libraries[num_libraries].end = info->dlpi_addr + end;
	snprintf(libraries[num_libraries++].name, sizeof libraries->name, "%s",
		 name ? name + 1 : *info->dlpi_name ? info->dlpi_name : "races");
	return 0;
}

// in_library returns where an address is.
static const char *in_library(unsigned long *at) {
	for (int i = 0; i < num_libraries; i++)
		if (*at >= libraries[i].begin && *at < libraries[i].end) {
			*at -= libraries[i].begin;
			return libraries[i].name;
		}
	return "no library";
}

static const char *signal_name(int s) {
	return s == SIGSEGV ? "SIGSEGV" : s == SIGBUS ? "SIGBUS" : s == SIGABRT ? "SIGABRT" : s == SIGFPE ? "SIGFPE"
		: s == SIGILL ? "SIGILL" : s == SIGKILL ? "SIGKILL" : "a signal";
}

// crashed keeps what is known of the first crash, and ends the process.
static void crashed(int number, siginfo_t *info, void *context) {
	int none = 0;
	void *stack[40];
	ucontext_t *c = context;
	if (!atomic_compare_exchange_strong(&state->signal, &none, number))
		for (;;)
			pause();
	for (int i = 0; i < state->num_threads; i++)
		state->in[i] = state->threads[i].in;
	state->who = me;
	state->address = info->si_addr;
#if defined __x86_64__
	state->ip = (unsigned long)c->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
	state->ip = (unsigned long)c->uc_mcontext.pc;
#else
	(void)c;
#endif
	strncpy(state->library, in_library(&state->ip), sizeof state->library - 1);
	dprintf(2, "%s, %s at %p in %s+0x%lx:\n", state->pair, signal_name(number), state->address, state->library,
		state->ip);
	alarm(5); // if the stack is such that backtrace hangs
	int n = backtrace(stack, 40);
	for (int i = 0; i < n; i++) {
		unsigned long at = (unsigned long)stack[i];
		const char *name = in_library(&at);
		dprintf(2, "  %s+0x%lx\n", name, at);
	}
	_exit(128 + number);
}

static void catch_crashes(void) {
	static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	void *stack[1];
	struct sigaction act = {0};
	act.sa_sigaction = crashed;
	act.sa_flags = SA_SIGINFO | SA_ONSTACK;
	backtrace(stack, 1); // loads what it needs
	dl_iterate_phdr(add_library, NULL);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &act, NULL);
}

static void own_signal_stack(void) {
	stack_t s = {0};
	s.ss_size = 256 << 10;
	s.ss_sp = malloc(s.ss_size);
	sigaltstack(&s, NULL);
}

static void load(void) {
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib)
		skip("%s", dlerror());
#define LOOK_UP(name, export, parameters)                                                                              \
	if (!(*(void **)&name = dlsym(lib, export)))                                                                   \
		*(void **)&name = (void *)(uintptr_t)missing;
	FUNCTIONS(LOOK_UP)
}

// or_none makes a call without which there is no green context.
#define or_none(call)                                                                                                  \
	if ((r = DO(call)) != 0) {                                                                                     \
		snprintf(state->no_green, sizeof state->no_green, "%.*s answers %d", name_length(#call), #call, r);    \
		return;                                                                                                \
	}
static void prepare_green(struct place *p) {
	static Resource all, some, rest;
	H green, green_ctx;
	U n = 1;
	int r;
	or_none(cuDeviceGetDevResource(p->dev, &all, RESOURCE_SM));
	or_none(cuDevSmResourceSplitByCount(&some, &n, &all, &rest, 0, 8));
	or_none(cuDevResourceGenerateDesc(&p->description, &some, 1));
	or_none(cuGreenCtxCreate(&green, p->description, p->dev, GREEN_DEFAULT_STREAM));
	if (DO(cuCtxFromGreenCtx(&green_ctx, green))) // without it, its events are the primary context's
		or_none(cuDevicePrimaryCtxRetain(&green_ctx, p->dev));
	or_none(cuCtxSetCurrent(green_ctx));
	or_none(cuEventCreate(&p->green_event, EVENT_UNTIMED));
	or_none(cuGreenCtxRecordEvent(green, p->green_event));
	or_none(cuGreenCtxStreamCreate(&p->green_stream, green, STREAM_NON_BLOCKING, 0));
	p->green = green;
}

// prepare makes a context's shared objects.
static void prepare(struct place *p) {
	H module, stream;
	me->place = p;
	ok(cuCtxSetCurrent(p->ctx));
	ok(cuModuleLoadData(&module, ptx));
	ok(cuModuleGetFunction(&p->small, module, "small"));
	ok(cuEventCreate(&p->common, EVENT_UNTIMED));
	ok(cuMemAlloc(&p->bytes, 64));
	ok(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
	ok(launch(stream));
	ok(cuEventRecord(p->common, stream));
	ok(cuStreamBeginCapture(stream, CAPTURE_RELAXED));
	for (int i = 0; i < 4; i++)
		ok(launch(stream));
	ok(cuStreamEndCapture(stream, &p->graph));
	ok(cuStreamBeginCapture(stream, CAPTURE_RELAXED));
	for (int i = 0; i < 4; i++)
		ok(launch(stream));
	ok(cuStreamEndCapture(stream, &p->shared)); // like p->graph, so that one can update the other's executables
	ok(cuStreamBeginCapture(stream, CAPTURE_RELAXED));
	ok(launch(stream));
	ok(cuEventRecord(p->common, stream));
	for (int i = 0; i < 3; i++) {
		H branch, join;
		ok(cuStreamCreate(&branch, STREAM_NON_BLOCKING));
		ok(cuEventCreate(&join, EVENT_UNTIMED));
		ok(cuStreamWaitEvent(branch, p->common, 0));
		ok(launch(branch));
		ok(cuEventRecord(join, branch));
		ok(cuStreamWaitEvent(stream, join, 0));
	}
	ok(cuStreamEndCapture(stream, &p->branches));
	ok(cuEventRecord(p->common, stream));
	prepare_green(p);
	ok(cuCtxSetCurrent(p->ctx));
	ok(cuCtxSynchronize());
}

static void prepare_all(void) {
	H popped;
	int devices;
	ok(cuInit(0));
	if (strcmp(contexts, "created"))
		ok(cuDevicePrimaryCtxRetain(&places[num_places++].ctx, 0));
	if (!strcmp(contexts, "created") || !strcmp(contexts, "two") || !strcmp(contexts, "apart")) {
		ok(cuCtxCreate_v2(&places[num_places++].ctx, 0, 0));
		ok(cuCtxPopCurrent(&popped));
	}
	if (!strcmp(contexts, "devices")) {
		ok(cuDeviceGetCount(&devices));
		if (devices < 2)
			skip("there is one device");
		places[num_places].dev = 1;
		ok(cuDevicePrimaryCtxRetain(&places[num_places++].ctx, 1));
	}
	for (int i = 0; i < num_places; i++) {
		ok(cuCtxCreate_v2(&places[i].other, 0, places[i].dev));
		ok(cuCtxPopCurrent(&popped));
		prepare(&places[i]);
	}
}

static pthread_mutex_t cloning = PTHREAD_MUTEX_INITIALIZER;

static void prepare_thread(void) {
	int mode = CAPTURE_RELAXED;
	ok(cuCtxSetCurrent(me->place->ctx));
	ok(cuCtxGetStreamPriorityRange(&me->least, &me->greatest));
	ok(cuStreamCreate(&me->stream, STREAM_NON_BLOCKING));
	ok(cuEventCreate(&me->event, EVENT_UNTIMED));
	ok(cuEventCreate(&me->fork, EVENT_UNTIMED));
	ok(cuEventCreate(&me->join, EVENT_UNTIMED));
	ok(cuEventRecord(me->event, me->stream));
	if (relaxed && me->name[0] == 'A')
		ok(cuThreadExchangeStreamCaptureMode(&mode));
	ok(cuStreamCreate(&me->blocking, STREAM_DEFAULT));
	ok(cuCtxSetCurrent(me->place->other));
	ok(cuStreamCreate(&me->elsewhere, STREAM_DEFAULT));
	ok(cuEventCreate(&me->join_elsewhere, EVENT_UNTIMED));
	ok(cuCtxSetCurrent(me->place->ctx));
	if (me->place->green)
		ok(cuGreenCtxStreamCreate(&me->green_stream, me->place->green, STREAM_NON_BLOCKING, 0));
	pthread_mutex_lock(&cloning); // graphs are not for several threads at a time
	ok(cuGraphClone(&me->graph, me->place->graph));
	ok(cuGraphClone(&me->branches, me->place->branches));
	pthread_mutex_unlock(&cloning);
	ok(cuMemHostAlloc((void **)&me->word, sizeof *me->word, 2)); // mapped
	ok(cuMemHostGetDevicePointer(&me->word_at, (void *)me->word, 0));
}

static void *run_thread(void *arg) {
	me = arg;
	own_signal_stack();
	prepare_thread();
	struct thread *self = me;
	for (struct thread *t = self; t == self || t == self->helper; t = t->helper) { // two helpers, one of the other
		me = t->helper = calloc(1, sizeof *me);
		me->place = self->place, me->op = self->op;
		prepare_thread();
	}
	me = self;
	me->ready = 1;
	while (!state->running)
		usleep(100);
	me->calls = 0;
	while (!state->stop) {
		if (exclusive && me->name[0] == 'A')
			pthread_rwlock_rdlock(&exclusion);
		me->op->turn();
		if (exclusive && me->name[0] == 'A')
			pthread_rwlock_unlock(&exclusion);
		if (++me->turns % 512 == 0 && !strstr(me->op->name, "capture"))
			DO(cuStreamSynchronize(me->stream)); // so that little is enqueued in the end
	}
	me->done = 1;
	return NULL;
}

static struct thread *add_thread(const struct op *op, struct place *place, const char *kind, int n) {
	struct thread *t = &state->threads[state->num_threads++];
	t->op = op, t->place = place;
	snprintf(t->name, sizeof t->name, "%s%d", kind, n);
	return t;
}

// add_threads adds the threads of a kind: some for its one operation, or one for each of all.
static void add_threads(const struct op *ops, int n, int which, const char *kind) {
	int apart = !strcmp(contexts, "apart"), each = *kind == 'A' ? threads_a : threads_b;
	for (int p = apart && *kind == 'B'; p < (apart && *kind == 'A' ? 1 : num_places); p++)
		for (int i = 0; i < (which < n ? each : n); i++) {
			const struct op *op = &ops[which < n ? which : i];
			if (which == n && left_out(op))
				continue;
			if (!op->green || places[p].green)
				add_thread(op, &places[p], kind, (which < n ? each : n) * p + i + 1);
			else if (which < n)
				skip("%s", state->no_green);
		}
}

static void run_pair(int pair) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	me = add_thread(NULL, NULL, "main", 0);
	load();
	catch_crashes();
	own_signal_stack();
	prepare_all();
	add_threads(as, AS, pair / (BS + 1), "A");
	add_threads(bs, BS, pair % (BS + 1), "B");
	for (int i = 1; i < state->num_threads; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, run_thread, &state->threads[i]))
			skip("pthread_create: %s", strerror(errno));
	}
	for (int i = 1; i < state->num_threads; i++)
		while (!state->threads[i].ready)
			usleep(100);
	me->failures = 0;
	state->began = now();
	state->running = 1;
	while (now() - state->began < seconds * 1e3)
		usleep(1000);
	state->stop = 1;
	for (int i = 1; i < state->num_threads; i++)
		while (!state->threads[i].done)
			usleep(100);
	state->seconds = (now() - state->began) / 1e3;
	for (int i = 0; i < num_places; i++)
		DO(cuCtxSetCurrent(places[i].ctx)), DO(cuCtxSynchronize());
	state->finished = 1;
	_exit(0);
}

// The process that starts those of the pairs, and prints their rows as they end.
struct job {
	int pair, done;
	pid_t pid;
	double since;
	struct state *state;
	char result[4000];
};

static void pair_name(char *name, size_t size, int pair) {
	int a = pair / (BS + 1), b = pair % (BS + 1);
	snprintf(name, size, "%s beside %s", a < AS ? as[a].name : "all of these",
		 b < BS ? bs[b].name : "all of these");
}

// add appends to a job's result.
static void add(struct job *j, const char *format, ...) {
	size_t n = strlen(j->result);
	va_list args;
	va_start(args, format);
	vsnprintf(j->result + n, sizeof j->result - n, format, args);
	va_end(args);
}

static void add_calls(struct job *j, const char **in, const struct thread *but) {
	const char *before = ", while ";
	for (int i = 0; i < j->state->num_threads; i++) {
		const struct thread *t = &j->state->threads[i];
		const char *call = in ? in[i] : t->in;
		if (call && t != but)
			add(j, "%s%s is in %.*s", before, t->name, name_length(call), call), before = ", ";
	}
}

// judge says what became of a process.
static void judge(struct job *j, int status, int hangs) {
	struct state *s = j->state;
	long failures = 0;
	if (s->running && !s->finished)
		s->seconds = (now() - s->began) / 1e3;
	if (s->signal) {
		add(j, "%s", signal_name(s->signal));
		if (s->signal != SIGABRT)
			add(j, " at %p", s->address);
		if (s->who && s->in[s->who - s->threads])
			add(j, " in %.*s of %s", name_length(s->in[s->who - s->threads]), s->in[s->who - s->threads],
			    s->who->name);
		else
			add(j, " in %s", s->who ? s->who->name : "a thread of the driver");
		add(j, ", at %s+0x%lx", s->library, s->ip);
		add_calls(j, s->in, s->who);
	} else if (hangs) {
		add(j, "hangs%s", s->running ? "" : " before it begins");
		add_calls(j, NULL, NULL);
	} else if (WIFSIGNALED(status)) {
		add(j, "died of signal %d", WTERMSIG(status));
		add_calls(j, NULL, NULL);
	} else if (*s->skipped) {
		add(j, "not measured: %s", s->skipped);
	} else if (!s->finished) {
		add(j, "exit status %d", WEXITSTATUS(status));
		add_calls(j, NULL, NULL);
	} else {
		for (int i = 0; i < s->num_threads; i++) {
			struct thread *t = &s->threads[i];
			if (t->failures && t->code == -1)
				add(j, "%s%.*s is missing", failures ? ", " : "", name_length(t->failed), t->failed);
			else if (t->failures)
				add(j, "%s%.*s answers %d in %ld of %ld calls of %s", failures ? ", " : "",
				    name_length(t->failed), t->failed, t->code, t->failures, t->calls, t->name);
			failures += t->failures;
		}
		if (!failures)
			add(j, "ok");
		if (*s->no_green)
			add(j, ", without green contexts, as %s", s->no_green);
	}
}

static int print(struct job *j) {
	long a = 0, b = 0;
	for (int i = 0; i < j->state->num_threads; i++)
		if (j->state->threads[i].op)
			*(j->state->threads[i].name[0] == 'A' ? &a : &b) += j->state->threads[i].calls;
	printf("%s\t%.1f\t%ld\t%ld\t%s\n", j->state->pair, j->state->seconds, a, b, j->result);
	fflush(stdout);
	return strncmp(j->result, "ok", 2) && strncmp(j->result, "not measured", 12);
}

static void *shared_memory(void) {
	void *p = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		perror("mmap"), exit(2);
	return p;
}

static void start(struct job *j) {
	j->state = state = shared_memory();
	pair_name(state->pair, sizeof state->pair, j->pair);
	j->since = now();
	j->pid = fork();
	if (j->pid < 0)
		perror("fork"), exit(2);
	if (j->pid == 0)
		run_pair(j->pair);
}

// collect looks whether a process has ended, and kills one that takes too long.
static int collect(struct job *j) {
	int status = 0;
	pid_t ended = waitpid(j->pid, &status, WNOHANG);
	int late = j->state->running ? now() - j->state->began > seconds * 1e3 + HANG_MS : now() - j->since > SETUP_MS;
	if (ended == 0 && !late)
		return 0;
	judge(j, status, late && ended == 0);
	j->done = 1;
	if (ended == 0) {
		kill(j->pid, SIGKILL);
		for (int i = 0; i < 500 && waitpid(j->pid, &status, WNOHANG) == 0; i++)
			usleep(10000); // a process that cannot be killed is left behind
	}
	return 1;
}

static void about(void) {
	char name[100] = "", line[200] = "unknown", date[20];
	int version = 0;
	FILE *f = fopen("/sys/module/nvidia/version", "r");
	time_t t = time(NULL);
	me = add_thread(NULL, NULL, "main", 0);
	load();
	ok(cuInit(0));
	ok(cuDeviceGetName(name, sizeof name, 0));
	ok(cuDriverGetVersion(&version));
	if (f && fgets(line, sizeof line, f))
		line[strcspn(line, "\n")] = 0;
	strftime(date, sizeof date, "%F", gmtime(&t));
	printf("# Whether the driver bears calls of two kinds at a time: %s, driver %s (CUDA %d.%d), %s.\n"
	       "# Made by tests/gpu/races.c, -contexts %s -threads %d,%d -jobs %d%s.\n"
	       "# pair\tseconds\tcalls of the first kind\tof the second\tresult\n",
	       name, line, version / 1000, version % 1000 / 10, date, contexts, threads_a, threads_b, side_by_side,
	       num_but ? ", some left out" : "");
	fflush(stdout);
	_exit(0);
}

static void usage(void) {
	fprintf(stderr, "usage: races [-for SECONDS] [-contexts one|created|two|apart|devices] [-threads N[,N]] [-jobs N] "
			"[-exclusive begin,end,join] [-relaxed] [-but NAME]... [-list] [NAME...]\n");
	exit(2);
}

int main(int argc, char **argv) {
	static struct job jobs[PAIRS];
	int n = 0, done = 0, failed = 0, list = 0, first = 1, status = 0;
	for (; first < argc && argv[first][0] == '-'; first++) {
		const char *name = argv[first], *value = first + 1 < argc ? argv[first + 1] : "";
		int *option = !strcmp(name, "-list") ? &list : !strcmp(name, "-relaxed") ? &relaxed : NULL;
		if (option) {
			*option = 1;
			continue;
		}
		if (!strcmp(name, "-for"))
			seconds = atof(value);
		else if (!strcmp(name, "-threads"))
			threads_a = atoi(value), threads_b = strchr(value, ',') ? atoi(strchr(value, ',') + 1) : threads_a;
		else if (!strcmp(name, "-jobs"))
			side_by_side = atoi(value);
		else if (!strcmp(name, "-contexts"))
			contexts = value;
		else if (!strcmp(name, "-exclusive"))
			exclusive = (strstr(value, "begin") ? BEGIN : 0) | (strstr(value, "end") ? END : 0) |
				    (strstr(value, "join") ? JOIN : 0);
		else if (!strcmp(name, "-but") && *value && num_but < (int)(sizeof but / sizeof *but))
			but[num_but++] = value;
		else
			usage();
		first++;
	}
	if (seconds <= 0 || threads_a < 1 || threads_a > 20 || threads_b < 1 || threads_b > 20 || side_by_side < 1 ||
	    (strcmp(contexts, "one") && strcmp(contexts, "created") && strcmp(contexts, "two") &&
	     strcmp(contexts, "apart") && strcmp(contexts, "devices")))
		usage();
	for (int pair = 0; pair < PAIRS; pair++) {
		char name[200];
		int wanted = first == argc, a = pair / (BS + 1), b = pair % (BS + 1);
		pair_name(name, sizeof name, pair);
		for (int k = first; k < argc; k++)
			wanted |= strstr(name, argv[k]) != NULL;
		if ((a < AS && left_out(&as[a])) || (b < BS && left_out(&bs[b])))
			continue;
		if (wanted && list)
			puts(name);
		else if (wanted)
			jobs[n++].pair = pair;
	}
	if (list)
		return 0;
	state = shared_memory();
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		about();
	if (waitpid(child, &status, 0) < 0 || status != 0 || *state->skipped) {
		fprintf(stderr, "races: there is no driver to ask: %s\n", state->skipped);
		return 2;
	}
	for (int next = 0; done < n; usleep(2000)) {
		for (int i = 0; i < next; i++)
			if (!jobs[i].done && collect(&jobs[i]))
				done++, failed |= print(&jobs[i]);
		while (next < n && next - done < side_by_side)
			start(&jobs[next++]);
	}
	return failed;
}
