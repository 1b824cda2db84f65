// The layer in C: it starts the driver behind it, which is written in Go, and says what
// can be said without it.
#define _GNU_SOURCE
#include "libcuda.h"

#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// cusim_simulated tells who looks for it that this is not NVIDIA's library.
__attribute__((visibility("default"))) const int cusim_simulated = 1;

// What the driver exports; see export.go.
static int (*driver_start)(void);
static uintptr_t (*driver_thread)(void);
static void (*driver_thread_end)(uintptr_t);
static int (*driver_call)(uintptr_t thread, uint32_t number, uint64_t *words);
static int (*driver_fault)(uintptr_t thread, const char *function);
static void (*driver_report)(void);

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static atomic_int loaded;  // the driver's Go runtime is in this process
static atomic_int running; // and it takes calls
static atomic_int ready;   // and cuInit has succeeded
static atomic_int forked;  // it is not: it is in the process that this one was forked from
static pthread_key_t thread_key;
static int go_key = -1; // under which the Go runtime has something for each thread
static char driver_path[4096];

static int is_running(void) { return atomic_load_explicit(&running, memory_order_acquire); }

int cusim_initialized(void) { return atomic_load_explicit(&ready, memory_order_acquire); }

int cusim_refuse(int result) { return cusim_initialized() ? result : CUDA_ERROR_NOT_INITIALIZED; }

// driver_version returns the version that the driver supports. The driver has the
// last word on what cannot be understood.
static int driver_version(void)
{
	static atomic_int known;
	int version = known, major, minor;
	if (version)
		return version;
	const char *s = getenv("CUSIM_DRIVER_VERSION");
	if (!s || !*s)
		version = CUSIM_NEWEST;
	else if (sscanf(s, "%d.%d", &major, &minor) == 2)
		version = major * 1000 + minor * 10;
	else
		version = atoi(s);
	return known = version;
}

// all_but_faults are the signals that the driver's Go runtime leaves alone.
static void all_but_faults(sigset_t *signals)
{
	sigfillset(signals);
	sigdelset(signals, SIGSEGV);
	sigdelset(signals, SIGBUS);
	sigdelset(signals, SIGFPE);
}

// calling_thread stores what stands for the calling thread. When the thread ends the
// driver's Go runtime gives it the mask of its first call: blocked is what another Go
// runtime, which has taken its part of the thread down before, needs it to be then.
static int calling_thread(uintptr_t *thread)
{
	sigset_t blocked, mask;
	*thread = (uintptr_t)pthread_getspecific(thread_key);
	if (*thread)
		return CUDA_SUCCESS;
	all_but_faults(&blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, &mask);
	*thread = driver_thread();
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (!pthread_setspecific(thread_key, (void *)*thread))
		return CUDA_SUCCESS;
	driver_thread_end(*thread); // nobody would, when the thread ends
	return CUDA_ERROR_OUT_OF_MEMORY;
}

int cusim_call(uint32_t number, int since, uint64_t *words)
{
	uintptr_t thread;
	if (!is_running())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (since > 11000 && since > driver_version())
		return CUDA_ERROR_NOT_SUPPORTED;
	int result = calling_thread(&thread);
	return result ? result : driver_call(thread, number, words);
}

int cusim_begin(const char *function)
{
	uintptr_t thread;
	if (!cusim_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	int result = calling_thread(&thread);
	return result ? result : driver_fault(thread, function);
}

static void thread_end(void *thread)
{
	if (is_running())
		driver_thread_end((uintptr_t)thread);
}

// A process that was forked has only one of the threads of the driver's Go runtime, at
// most: nothing may enter it. The lock keeps forks away from a driver that is starting.
static void fork_prepare(void) { pthread_mutex_lock(&starting); }

static void fork_parent(void) { pthread_mutex_unlock(&starting); }

static void fork_child(void)
{
	if (loaded) {
		forked = 1;
		running = ready = 0;
		if (go_key >= 0) // or the Go runtime is entered when the thread ends
			pthread_setspecific(go_key, NULL);
	}
	pthread_mutex_unlock(&starting);
}

// library_loaded is called when this library is loaded. The driver lies beside it; its
// path is remembered now, as the working directory may change.
__attribute__((constructor)) static void library_loaded(void)
{
	static const char name[] = "libcusim.so";
	Dl_info info;
	char *path = dladdr((void *)cuInit, &info) ? realpath(info.dli_fname, NULL) : NULL;
	if (path) {
		char *slash = strrchr(path, '/');
		if ((size_t)(slash + 1 - path) + sizeof name <= sizeof driver_path) {
			memcpy(driver_path, path, slash + 1 - path);
			strcpy(driver_path + (slash + 1 - path), name);
		}
		free(path);
	}
	pthread_key_create(&thread_key, thread_end);
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

// process_ends is called when the process ends.
__attribute__((destructor)) static void process_ends(void)
{
	const char *report = getenv("CUSIM_REPORT");
	if (report && *report && is_running())
		driver_report();
}

// Signals that a Go runtime takes over when it is loaded, and that are given back. With
// SIGURG it interrupts its goroutines: another Go runtime in this process could not do
// that any more, and the driver does without, as it has no goroutine that computes for
// long. SIGPIPE it does not need either. Those of faults it keeps: it passes on what is
// not its own.
static const int borrowed[] = {SIGURG, SIGPIPE};

enum { NBORROWED = sizeof borrowed / sizeof *borrowed };

// kernel_action begins like the kernel's struct sigaction of amd64 and arm64, and has
// room for it. The system call is used because the C library translates what another Go
// runtime set.
struct kernel_action { uint64_t handler, flags, rest[6]; };

static long kernel_sigaction(int sig, const struct kernel_action *new, struct kernel_action *old)
{
	return syscall(SYS_rt_sigaction, sig, new, old, 8L);
}

// give_back puts a signal's action back. A handler runs on the thread's signal stack from
// now on: where Go code is interrupted the other one is a goroutine's, and is small. The
// Go runtime has seen to that for all signals that it did not take over.
static void give_back(int sig, const struct kernel_action *action)
{
	struct kernel_action a = *action;
	if (a.handler != (uintptr_t)SIG_DFL && a.handler != (uintptr_t)SIG_IGN)
		a.flags |= SA_ONSTACK;
	kernel_sigaction(sig, &a, NULL);
}

// send_again sends SIGURG to all threads, if there is a handler for it: a signal that
// came while it was the driver's is lost, and a Go runtime that sent it would wait for
// its effect for ever. Such handlers are made to be called for nothing.
static void send_again(void)
{
	struct sigaction action;
	if (sigaction(SIGURG, NULL, &action) || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
		return;
	DIR *threads = opendir("/proc/self/task");
	if (!threads)
		return;
	for (struct dirent *d; (d = readdir(threads));) {
		long id = atol(d->d_name);
		if (id > 0)
			syscall(SYS_tgkill, (long)getpid(), id, (long)SIGURG);
	}
	closedir(threads);
}

// load_driver loads the driver, and returns its handle.
static void *load_driver(void)
{
	void *driver = dlopen(driver_path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (driver && (driver_start = dlsym(driver, "cusimStart")) && (driver_thread = dlsym(driver, "cusimThread")) &&
	    (driver_thread_end = dlsym(driver, "cusimThreadEnd")) && (driver_call = dlsym(driver, "cusimCall")) &&
	    (driver_fault = dlsym(driver, "cusimFault")) && (driver_report = dlsym(driver, "cusimReport")))
		return driver;
	fprintf(stderr, "cusim: the driver behind libcuda.so.1 cannot be loaded: %s\n", dlerror());
	return NULL;
}

// first_call makes the first call of the Go runtime, and finds the key under which it has
// something for each thread that has entered it: it is set now, and was not before.
static int first_call(void)
{
	static char set[PTHREAD_KEYS_MAX];
	for (int k = 0; k < PTHREAD_KEYS_MAX; k++)
		set[k] = pthread_getspecific(k) != NULL;
	int result = driver_start();
	for (int k = 0; k < PTHREAD_KEYS_MAX; k++)
		if (!set[k] && pthread_getspecific(k))
			go_key = k;
	return result;
}

// start starts the driver. The threads of its Go runtime block all signals but those of
// faults: the handlers of others are for the program's threads.
static int start(void)
{
	struct kernel_action saved[NBORROWED];
	sigset_t blocked, mask;
	all_but_faults(&blocked);
	for (int i = 0; i < NBORROWED; i++)
		kernel_sigaction(borrowed[i], NULL, &saved[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, &mask);
	int result = CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
	if (load_driver()) {
		loaded = 1;
		result = first_call();
	}
	for (int i = 0; i < NBORROWED; i++)
		give_back(borrowed[i], &saved[i]);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (loaded)
		send_again();
	return result;
}

int cuInit(unsigned int flags)
{
	static int failed; // starting the driver has
	uint64_t words[] = {flags};
	if (forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_running()) {
		pthread_mutex_lock(&starting);
		if (!is_running() && !failed && !(failed = start()))
			atomic_store_explicit(&running, 1, memory_order_release);
		int result = failed;
		pthread_mutex_unlock(&starting);
		if (result)
			return result;
	}
	int result = cusim_call(CUSIM_Init, 0, words);
	if (!result)
		atomic_store_explicit(&ready, 1, memory_order_release);
	return result;
}

int cuDriverGetVersion(void *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)version = driver_version();
	return CUDA_SUCCESS;
}

// find_result returns what is known of a result, or the entry without a name.
static const struct cusim_result *find_result(int code)
{
	const struct cusim_result *r = cusim_results;
	while (r->name && r->code != code)
		r++;
	return r;
}

// tell stores a text that may be NULL, which is an error.
static int tell(const char *text, void *out)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*(const char **)out = text;
	return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int cuGetErrorName(int error, void *pStr) { return tell(find_result(error)->name, pStr); }

int cuGetErrorString(int error, void *pStr) { return tell(find_result(error)->text, pStr); }

// find_symbol stores the newest interface of a function that is not newer than a version,
// or NULL, and returns the status of that: a CUdriverProcAddressQueryResult. Drivers take
// negative versions for large ones, and never give the plain interface where one for the
// thread's own stream is wanted and there is one.
static int find_symbol(const char *name, int version, uint64_t flags, void **function)
{
	enum { FOUND, NOT_FOUND, VERSION_NOT_SUFFICIENT };
	const uint64_t per_thread = 2;
	unsigned int have = driver_version(), wanted = version;
	int known = 0, own = 0;
	*function = NULL;
	if (wanted > have)
		wanted = have;
	for (const struct cusim_symbol *s = cusim_symbols; s->name; s++)
		if (s->own && (flags & per_thread) && !strcmp(s->name, name) && s->version <= have)
			own = 1;
	for (const struct cusim_symbol *s = cusim_symbols; s->name; s++) {
		if (s->own != own || s->version > have || strcmp(s->name, name))
			continue;
		known = 1;
		if (s->version <= wanted)
			*function = s->function; // the newest comes last
	}
	return *function ? FOUND : known ? VERSION_NOT_SUFFICIENT : NOT_FOUND;
}

// most_flags is the largest value that cuGetProcAddress takes for its flags.
enum { most_flags = 3 };

int cuGetProcAddress(void *symbol, void *pfn, int cudaVersion, uint64_t flags)
{
	void *function;
	if (!symbol || !pfn || flags > most_flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (find_symbol(symbol, cudaVersion, flags, &function))
		return CUDA_ERROR_NOT_FOUND;
	*(void **)pfn = function;
	return CUDA_SUCCESS;
}

int cuGetProcAddress_v2(void *symbol, void *pfn, int cudaVersion, uint64_t flags, void *symbolStatus)
{
	if (!symbol || !pfn || flags > most_flags)
		return CUDA_ERROR_INVALID_VALUE;
	int status = find_symbol(symbol, cudaVersion, flags, pfn);
	if (symbolStatus)
		*(int *)symbolStatus = status;
	return CUDA_SUCCESS;
}
