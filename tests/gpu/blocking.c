// Measures which driver calls do not return while a stream of the same context is held by the host, and
// what such a call holds up meanwhile. It takes no CUDA headers:
//
//	gcc -O1 -o blocking tests/gpu/blocking.c -ldl -lpthread
//	./blocking >blocking.tsv      # everything, a few minutes
//	./blocking cuMemFree          # only the cases with this in their names
//	./blocking -missing blocking.tsv # only the cases that have no row in this file
//	./blocking -list
//
// The cases are in blocking_cases.h. Each runs in a process of its own: it prepares, holds a stream with
// cuStreamWaitValue32, and makes the call on a thread of its own. A call waits if it has not returned after
// 2 s and does once the stream is let go. Meanwhile, 0.7 s after it began, other calls are made on further
// threads, one after the other: those that have not returned in the end are held up. A call that waits is
// made again without a held stream, to see that it is not just slow, and again with the other calls in
// another context of the device. A call that does not return within 20 s hangs.
#define _GNU_SOURCE
#include "blocking.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROBE_MS = 700, RELEASE_MS = 2000, HANG_MS = 20000, PROCESS_MS = 90000, SIDE_BY_SIDE = 12, RESULT_FD = 3 };

// The ways of running a case.
enum mode { PLAIN, CONTROL, OTHER, MODES };
static enum mode mode;

// What a case needs.
enum flags {
	EAGER = 1,       // CUDA_MODULE_LOADING=EAGER
	CREATED = 2,     // a context from cuCtxCreate instead of the device's primary one
	HELPER = 4,      // another process that shares an event and memory
	ALONE = 8,       // no other case at the same time
	BARE = 16,       // a context in which nothing was done yet: nothing else is called while the call waits
	CONNECTIONS = 32, // CUDA_DEVICE_MAX_CONNECTIONS=32
	QUIET = 64,       // the context ends: no calls in it meanwhile, only in another one
	NEIGHBOR = 128,   // another process that has a context, and shares nothing
	POOL = 256        // another process that shares a pool and memory of it
};
struct test {
	int place; // in the table
	const char *name;
	int flags;
	void (*run)(void);
};
static struct test tests[1000];
static int num_tests;
static const struct test *the_case;

// CASE begins a case: the name of its function, its row's name, its flags.
#define CASE(id, name, flags)                                                                                          \
	static void id(void);                                                                                          \
	__attribute__((constructor)) static void add_##id(void) {                                                      \
		tests[num_tests++] = (struct test){__COUNTER__, name, flags, id};                                      \
	}                                                                                                              \
	static void id(void)

// ROW is a case that is one call, after which there is nothing to do.
#define ROW(id, name, flags, prepare, call)                                                                            \
	CASE(id, name, flags) {                                                                                        \
		prepare;                                                                                               \
		CALL(call);                                                                                            \
	}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void sleep_ms(double ms) { usleep((useconds_t)(ms * 1e3)); }

// answer ends the process of a case with what its row says.
static void answer(const char *while_held, const char *held_up) {
	dprintf(RESULT_FD, "%s\t%s", while_held, held_up);
	_exit(0);
}

// skip ends it without a measurement.
static void skip(const char *format, ...) {
	char text[400] = "not measured: ";
	va_list args;
	va_start(args, format);
	vsnprintf(text + strlen(text), sizeof text - strlen(text), format, args);
	va_end(args);
	answer(text, "-");
}

// ok makes a call that a case needs in order to begin.
#define ok(call) check(call, #call)
static void check(int r, const char *what) {
	int name = (int)strcspn(what, "(");
	if (r == -1)
		skip("%.*s is missing", name, what);
	if (r != 0)
		skip("%.*s answers %d", name, what, r);
}

static int missing(void) { return -1; }

static void load(void) {
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib)
		skip("%s", dlerror());
#define LOOK_UP(name, export, parameters)                                                                              \
	if (!(*(void **)&name = dlsym(lib, export)))                                                                   \
		*(void **)&name = (void *)(uintptr_t)missing;
	FUNCTIONS(LOOK_UP)
}

// The state of a case's process. The streams of a context that this program created are counted.
static int dev;
static H ctx, held, idle, module, small, held_event;
static int streams;
static volatile uint32_t *word;
static uint32_t generation;
static atomic_int is_held;
static H other_ctx; // in mode OTHER

static const char ptx[], ptx_deep[], ptx_printf[], ptx_malloc[];

static H new_stream(U flags) {
	H s;
	ok(cuStreamCreate(&s, flags));
	streams++;
	return s;
}

static H new_event(U flags) {
	H e;
	ok(cuEventCreate(&e, flags));
	return e;
}

static H new_context(void) { // which is not current
	H c, popped;
	ok(cuCtxCreate_v2(&c, 0, dev));
	ok(cuCtxPopCurrent(&popped));
	return c;
}

static H load_module(const void *image) {
	H m;
	ok(cuModuleLoadData(&m, image));
	return m;
}

static H function(H m, const char *name) {
	H f;
	ok(cuModuleGetFunction(&f, m, name));
	return f;
}

static D new_mem(size_t n) {
	D d;
	ok(cuMemAlloc(&d, n));
	return d;
}

static void *new_host(size_t n, U flags) {
	void *p;
	ok(cuMemHostAlloc(&p, n, flags));
	return p;
}

static void *new_pages(size_t n) {
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		skip("mmap: %s", strerror(errno));
	return p;
}

static int launch(H f, H stream, void **args) { return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL); }

static void nothing(void *data) { (void)data; }
static void nothing_added(H stream, int r, void *data) { (void)stream, (void)r, (void)data; }

// hold_in holds a stream of a context until let_go is called: by a wait of the stream, or by a kernel.
static void hold_in(H c, H stream, H kernel) {
	static H word_ctx;
	H popped;
	D at;
	if (mode == CONTROL)
		return;
	ok(cuCtxPushCurrent(c));
	if (word_ctx != c) {
		void *page = new_pages(4096); // which outlives the context
		ok(cuMemHostRegister(page, 4096, HOST_PORTABLE | HOST_MAPPED));
		word = page;
		*word = generation;
		word_ctx = c;
		held_event = new_event(EVENT_UNTIMED);
	}
	ok(cuMemHostGetDevicePointer(&at, (void *)(uintptr_t)word, 0));
	generation++;
	if (kernel)
		ok(launch(kernel, stream, (void *[]){&at}));
	else
		ok(cuStreamWaitValue32(stream, at, generation, WAIT_GEQ));
	ok(cuEventRecord(held_event, stream));
	sleep_ms(20);
	if (cuEventQuery(held_event) != NOT_READY)
		skip("the stream is not held");
	ok(cuCtxPopCurrent(&popped));
	is_held = 1;
}

static void hold(void) { hold_in(ctx, held, NULL); }

static void let_go(void) {
	is_held = 0;
	if (word)
		*word = generation;
}

#include "blocking_probes.h"

// The call that a case is about, as the two threads see it.
static atomic_int calling; // how many began, and negative while none is in progress
static _Atomic double began, took;
static atomic_int number, result, waited, released, probed;
static char held_text[2000] = "-";

static void begin(void) {
	released = 0;
	began = now();
	atomic_store(&calling, atomic_fetch_add(&number, 1) + 1);
}

static void end(int r) {
	took = now() - began;
	waited = released;
	result = r;
	atomic_store(&calling, -atomic_load(&number));
}

// CALL makes the call that a case is about, while a stream is held.
#define CALL(expression)                                                                                               \
	do {                                                                                                           \
		if (!is_held)                                                                                          \
			hold();                                                                                        \
		begin();                                                                                               \
		end(expression);                                                                                       \
	} while (0)

// MANY makes a call up to n times, and says which of them wait. The first is numbered.
#define MANY(first, n, most, expression)                                                                               \
	do {                                                                                                           \
		struct many many = {first, n, most, 0, 0, ""};                                                         \
		do                                                                                                     \
			CALL(expression);                                                                              \
		while (again(&many));                                                                                  \
	} while (0)

struct many {
	int at, left, most; // most: after how many that waited there is no further one
	int waits;
	size_t len;
	char text[300];
};

static const char *ordinal(int n) {
	int teen = n % 100 / 10 == 1;
	return n % 10 == 1 && !teen ? "st" : n % 10 == 2 && !teen ? "nd" : n % 10 == 3 && !teen ? "rd" : "th";
}

// again reports whether a call is to be made once more, or ends the process.
static int again(struct many *m) {
	char text[400];
	if (waited)
		m->len += (size_t)snprintf(m->text + m->len, sizeof m->text - m->len, "%s%d%s", m->waits++ ? ", " : "",
					   m->at, ordinal(m->at));
	m->left--, m->at++;
	if (result == 0 && m->left > 0 && m->waits < m->most)
		return 1;
	snprintf(text, sizeof text, "%s%s, up to the %d%s", m->waits ? "waits: the " : "returns", m->text, m->at - 1,
		 ordinal(m->at - 1));
	if (result)
		snprintf(text + strlen(text), sizeof text - strlen(text), ", which answers %d", result);
	let_go();
	answer(text, held_text);
	return 0;
}

// say ends the process with the answer of a case that is no single call.
static void say(const char *format, ...) {
	char text[1000];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	let_go();
	answer(text, "-");
}

#include "blocking_helper.h"
#include "blocking_cases.h"

static void *run_case(void *arg) {
	ok(cuInit(0));
	ok(cuDeviceGet(&dev, 0));
	if (the_case->flags & CREATED)
		ok(cuCtxCreate_v2(&ctx, 0, dev));
	else
		ok(cuDevicePrimaryCtxRetain(&ctx, dev));
	ok(cuCtxSetCurrent(ctx));
	held = new_stream(STREAM_NON_BLOCKING);
	idle = new_stream(STREAM_NON_BLOCKING);
	if (!(the_case->flags & BARE))
		make_probes();
	if (!small && !(the_case->flags & BARE))
		module = load_module(ptx), small = function(module, "small"), ok(launch(small, idle, NULL));
	ok(cuCtxSynchronize());
	the_case->run();
	(void)arg;

	char text[200];
	int n = snprintf(text, sizeof text, "%s", waited ? "waits" : "returns");
	if (result == -1)
		skip("the function is missing");
	if (result != 0 && result != NOT_READY)
		n = snprintf(text, sizeof text, "%sanswers %d", waited ? "waits, " : "", result);
	if (mode == CONTROL)
		snprintf(text, sizeof text, "%.0f", took);
	else if (!waited && took >= 10)
		snprintf(text + n, sizeof text - (size_t)n, " (%.0f ms)", took);
	let_go();
	answer(text, held_text);
	return NULL;
}

// supervise lets the stream go when a call waits, having made the others.
static void supervise(void) {
	double start = now();
	int seen = 0;
	for (;;) {
		int c = atomic_load(&calling);
		double elapsed = now() - (c > 0 ? began : start);
		usleep(500);
		if (c <= 0) {
			if (elapsed > PROCESS_MS)
				skip("the preparation hangs");
			continue;
		}
		start = now();
		if (c != seen && elapsed > PROBE_MS && atomic_load(&calling) == c) {
			seen = c;
			if (!probed)
				held_up(held_text, sizeof held_text), probed = 1;
		}
		if (elapsed > RELEASE_MS && !released && atomic_load(&calling) == c) {
			released = 1;
			let_go();
		}
		if (elapsed > HANG_MS && atomic_load(&calling) == c) {
			char text[40];
			snprintf(text, sizeof text, c > 1 ? "hangs (call %d)" : "hangs", c);
			answer(text, held_text);
		}
	}
}

static int run_child(int place, enum mode m) {
	for (int i = 0; i < num_tests; i++)
		if (tests[i].place == place)
			the_case = &tests[i];
	if (!the_case)
		return 2;
	mode = m;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (the_case->flags & (HELPER | NEIGHBOR | POOL))
		start_helper();
	load();
	pthread_t worker;
	pthread_create(&worker, NULL, run_case, NULL);
	supervise();
	return 0;
}

// The process that starts those of the cases, and prints the rows in the cases' order.
struct job {
	const struct test *test;
	int state[MODES]; // 0: not needed, 1: to run, 2: running, 3: done
	char text[MODES][2400];
	pid_t pid[MODES];
	int fd[MODES];
	double since[MODES];
	int printed;
};

static void start(struct job *j, enum mode m) {
	int p[2];
	char place[20], with[20];
	if (pipe(p))
		exit(1);
	fcntl(p[0], F_SETFD, FD_CLOEXEC);
	snprintf(place, sizeof place, "%d", j->test->place), snprintf(with, sizeof with, "%d", m);
	j->state[m] = 2, j->fd[m] = p[0], j->since[m] = now();
	j->pid[m] = fork();
	if (j->pid[m] == 0) {
		int null = open("/dev/null", O_WRONLY);
		dup2(null, 1);
		if (p[1] != RESULT_FD)
			dup2(p[1], RESULT_FD), close(p[1]);
		setenv("CUDA_MODULE_LOADING", j->test->flags & EAGER ? "EAGER" : "LAZY", 1);
		unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
		if (j->test->flags & CONNECTIONS)
			setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
		execl("/proc/self/exe", "blocking", "-case", place, with, (char *)NULL);
		_exit(127);
	}
	close(p[1]);
}

// collect looks whether a process has ended, and kills one that takes too long.
static int collect(struct job *j, enum mode m) {
	int status;
	pid_t ended = waitpid(j->pid[m], &status, WNOHANG);
	double age = now() - j->since[m];
	char *text = j->text[m];
	ssize_t n = -1;
	if (ended == 0) {
		if (age > PROCESS_MS + 30000)
			kill(j->pid[m], SIGKILL);
		if (age < PROCESS_MS + 35000)
			return 0;
		snprintf(text, sizeof j->text[m], "hangs, and cannot be killed\t-");
	} else if ((n = read(j->fd[m], text, sizeof j->text[m] - 1)) > 0) {
		text[n] = 0;
	} else if (WIFSIGNALED(status)) {
		snprintf(text, sizeof j->text[m], "not measured: the process died of signal %d\t-", WTERMSIG(status));
	} else {
		snprintf(text, sizeof j->text[m], "not measured: exit status %d\t-", WEXITSTATUS(status));
	}
	close(j->fd[m]);
	j->state[m] = 3;
	if (m == PLAIN && !strncmp(text, "waits", 5)) {
		j->state[OTHER] = j->test->flags & BARE ? 0 : 1;
		j->state[CONTROL] = strncmp(text, "waits:", 6) != 0;
	}
	return 1;
}

static void print(struct job *j) {
	char *held_up = strchr(j->text[PLAIN], '\t'), *other = strchr(j->text[OTHER], '\t');
	*held_up++ = 0;
	printf("%s\t%s", j->test->name, j->text[PLAIN]);
	double control = atof(j->text[CONTROL]);
	if (j->state[CONTROL] && (control > PROBE_MS || *j->text[CONTROL] < '0' || *j->text[CONTROL] > '9'))
		printf(" (unclear: without a held stream %s ms)", strtok(j->text[CONTROL], "\t"));
	printf("\t%s", held_up);
	if (j->state[OTHER])
		printf("; in another context: %s", strncmp(j->text[OTHER], "waits", 5) ? j->text[OTHER] : other + 1);
	printf("\n");
	fflush(stdout);
	j->printed = 1;
}

static void about(void) {
	char name[100] = "", line[200] = "";
	int version = 0;
	FILE *f = fopen("/sys/module/nvidia/version", "r");
	time_t t = time(NULL);
	char date[20];
	dup2(2, RESULT_FD);
	load();
	ok(cuInit(0));
	ok(cuDeviceGet(&dev, 0));
	ok(cuDeviceGetName(name, sizeof name, dev));
	ok(cuDriverGetVersion(&version));
	if (!f || !fgets(line, sizeof line, f))
		strcpy(line, "unknown");
	line[strcspn(line, "\n")] = 0;
	strftime(date, sizeof date, "%F", gmtime(&t));
	printf("# What a driver call does while another stream of the context is held by the host, and what it\n"
	       "# holds up meanwhile: %s, driver %s (CUDA %d.%d), %s.\n"
	       "# Measured by tests/gpu/blocking.c: the stream is held by cuStreamWaitValue32, each case is a process\n"
	       "# of its own, and the call is made on a thread of its own. \"waits\" means that it had not returned\n"
	       "# after %.1f s and did when the stream was let go; a call that returned says so if it took 10 ms or\n"
	       "# more. The other calls were made on further threads and streams meanwhile:\n# ",
	       name, line, version / 1000, version % 1000 / 10, date, RELEASE_MS / 1e3);
	for (int i = 0; i < NUM_PROBES; i++)
		printf("%s%s%s", i ? "," : "", !i ? "" : i % 5 ? " " : "\n# ", probes[i].name);
	printf(".\n# call\twhile a stream is held\twhat is held up with it\n");
	fflush(stdout);
	_exit(0);
}

static int by_place(const void *a, const void *b) {
	return ((const struct test *)a)->place - ((const struct test *)b)->place;
}

// has_row reports whether a table has a row of this name.
static int has_row(const char *table, const char *name) {
	static char line[10000];
	int found = 0;
	FILE *f = fopen(table, "r");
	if (!f) {
		perror(table);
		exit(1);
	}
	while (!found && fgets(line, sizeof line, f))
		found = strcspn(line, "\t") == strlen(name) && !strncmp(line, name, strlen(name));
	fclose(f);
	return found;
}

int main(int argc, char **argv) {
	static struct job jobs[sizeof tests / sizeof *tests];
	int n = 0, printed = 0, status;
	qsort(tests, (size_t)num_tests, sizeof *tests, by_place);
	if (argc == 4 && !strcmp(argv[1], "-case"))
		return run_child(atoi(argv[2]), (enum mode)atoi(argv[3]));
	const char *table = argc == 3 && !strcmp(argv[1], "-missing") ? argv[2] : NULL;
	for (int i = 0; i < num_tests; i++) {
		int wanted = argc == 1 || (table && !has_row(table, tests[i].name));
		for (int k = 1; k < argc && !table; k++)
			wanted |= strstr(tests[i].name, argv[k]) != NULL || !strcmp(argv[k], "-list");
		if (wanted)
			jobs[n].test = &tests[i], jobs[n++].state[PLAIN] = 1;
	}
	if (argc == 2 && !strcmp(argv[1], "-list")) {
		for (int i = 0; i < n; i++)
			puts(jobs[i].test->name);
		return 0;
	}
	fflush(stdout);
	pid_t first = fork();
	if (first == 0)
		about();
	if (waitpid(first, &status, 0) < 0 || status != 0)
		return 1;
	while (printed < n) {
		int running = 0, alone = 0, alone_left = 0;
		for (int i = 0; i < n; i++)
			for (int m = 0; m < MODES; m++)
				if (jobs[i].state[m] == 2 && !collect(&jobs[i], m))
					running++, alone |= jobs[i].test->flags & ALONE;
		for (int i = 0; i < n; i++)
			for (int m = 0; m < MODES; m++)
				alone_left |= jobs[i].test->flags & ALONE && jobs[i].state[m] == 1;
		for (int i = 0; i < n; i++)
			for (int m = 0; m < MODES; m++)
				if (jobs[i].state[m] == 1 && !alone && running < (alone_left ? 1 : SIDE_BY_SIDE) &&
				    (!alone_left || jobs[i].test->flags & ALONE))
					start(&jobs[i], m), running++, alone |= jobs[i].test->flags & ALONE;
		while (printed < n && jobs[printed].state[PLAIN] == 3 && jobs[printed].state[CONTROL] % 3 == 0 &&
		       jobs[printed].state[OTHER] % 3 == 0)
			print(&jobs[printed++]);
		sleep_ms(5);
	}
	return 0;
}
