// The part of the library that is written in C. It starts the driver, which is written in Go, and
// implements the functions that do not need the driver.
#define _GNU_SOURCE
#include "libcuda.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// cusim_simulated says that this is not NVIDIA's library, which does not export it.
__attribute__((visibility("default"))) const int cusim_simulated = 1;

// The functions that the driver exports: see export.go and needs.c.
static int (*driver_begin)(void);
static int (*driver_start)(int version);
static uintptr_t (*driver_thread)(void);
static void (*driver_thread_end)(uintptr_t);
static int (*driver_call)(uintptr_t thread, uint32_t number, uint64_t *words);
static int (*driver_fault)(uintptr_t thread, const char *function);
static int (*driver_nvml)(uint32_t number, uint64_t *words);
static void (*driver_report)(void);

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static atomic_int loaded;  // the driver's Go runtime runs in this process
static atomic_int running; // and the driver can be called
static atomic_int ready;   // and cuInit has succeeded
static atomic_int forked;  // the driver is loaded in the parent process only
static pthread_key_t thread_key;
static int have_key;
static int go_key = -1; // the key of the Go runtime's value for each thread
static char driver_path[4096];

static int is_running(void) { return atomic_load_explicit(&running, memory_order_acquire); }

int cusim_initialized(void) { return atomic_load_explicit(&ready, memory_order_acquire); }

// noted writes the name of the first function that returns NOT_SUPPORTED, as a program may take this for work that is
// done, and of the first one that gets machine code. It says what to do.
static int noted(const char *function, int result)
{
	static atomic_flag lacking = ATOMIC_FLAG_INIT, machine_code = ATOMIC_FLAG_INIT;
	if (result == CUDA_ERROR_NOT_SUPPORTED && !atomic_flag_test_and_set(&lacking))
		fprintf(stderr, "cusim: %s returns CUDA_ERROR_NOT_SUPPORTED (801): the software driver lacks it, or what the "
			"arguments ask for%s; later ones are not reported\n", function, strcmp(function, "cuGetExportTable") ? "" :
			"; CUDA's runtime library (cudart) needs it: use the driver API instead, with kernels in PTX");
	if (result == CUDA_ERROR_NO_BINARY_FOR_GPU && !atomic_flag_test_and_set(&machine_code))
		fprintf(stderr, "cusim: %s returns CUDA_ERROR_NO_BINARY_FOR_GPU (209): the image has code that only a GPU can "
			"run: make PTX, by nvcc -gencode arch=compute_75,code=compute_75, or by NVRTC with "
			"--gpu-architecture=compute_75 in place of sm_75; later ones are not reported\n", function);
	return result;
}

int cusim_refuse_in(const char *function, int result)
{
	return cusim_initialized() ? noted(function, result) : CUDA_ERROR_NOT_INITIALIZED;
}

// CUSIM_VERSION is the version of CUDA that the library was built for: it exports what NVIDIA's exports.
#ifndef CUSIM_VERSION
#define CUSIM_VERSION CUSIM_NEWEST
#endif

// driver_version returns the version that the driver supports. The driver itself reports invalid
// values.
static int driver_version(void)
{
	static atomic_int known;
	int version = known, major, minor;
	if (version)
		return version;
	const char *s = getenv("CUSIM_DRIVER_VERSION");
	if (!s || !*s)
		version = CUSIM_VERSION;
	else if (sscanf(s, "%d.%d", &major, &minor) == 2)
		version = major * 1000 + minor * 10;
	else
		version = atoi(s);
	return known = version;
}

// all_but_faults are the signals that the driver's Go runtime does not handle.
static void all_but_faults(sigset_t *signals)
{
	sigfillset(signals);
	sigdelset(signals, SIGSEGV);
	sigdelset(signals, SIGBUS);
	sigdelset(signals, SIGFPE);
}

// The driver computes floats as IEEE 754 says. A program may have other rules in its threads: compilers add code to
// programs with -ffast-math that takes subnormal numbers for zero. A thread inherits the rules of the one that makes it.
// So the driver is started and called with the usual rules, and its threads have them, too.
#if defined(__x86_64__)
enum { USUAL_RULES = 0x1f80, RULES = 0xffc0 }; // the other bits say what has happened
static unsigned long float_rules(void) { return __builtin_ia32_stmxcsr(); }
static void set_float_rules(unsigned long rules) { __builtin_ia32_ldmxcsr((unsigned)rules); }
#elif defined(__aarch64__)
enum { USUAL_RULES = 0, RULES = -1 };
static unsigned long float_rules(void)
{
	unsigned long rules;
	__asm__ volatile("mrs %0, fpcr" : "=r"(rules));
	return rules;
}
static void set_float_rules(unsigned long rules) { __asm__ volatile("msr fpcr, %0" : : "r"(rules)); }
#endif

// usual_rules sets the usual rules, and returns those that the thread had, for own_rules.
static unsigned long usual_rules(void)
{
	unsigned long own = float_rules();
	if ((own & RULES) != USUAL_RULES)
		set_float_rules(USUAL_RULES);
	return own;
}

static void own_rules(unsigned long own)
{
	if ((own & RULES) != USUAL_RULES)
		set_float_rules(own);
}

// calling_thread stores the identifier of the calling thread. At the end of the thread, the
// driver's Go runtime restores the signal mask of the thread's first call. Another Go runtime in
// the process, which has already ended its part of the thread, needs all signals to be blocked
// then.
static int calling_thread(uintptr_t *thread)
{
	sigset_t blocked, mask;
	*thread = (uintptr_t)pthread_getspecific(thread_key);
	if (*thread)
		return CUDA_SUCCESS;
	all_but_faults(&blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, &mask);
	unsigned long rules = usual_rules();
	*thread = driver_thread();
	own_rules(rules);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (!*thread)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!pthread_setspecific(thread_key, (void *)*thread))
		return CUDA_SUCCESS;
	driver_thread_end(*thread); // it would not be released at the end of the thread
	return CUDA_ERROR_OUT_OF_MEMORY;
}

int cusim_call_in(const char *function, uint32_t number, int since, uint64_t *words)
{
	uintptr_t thread;
	if (!is_running())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (since > 11000 && since > driver_version())
		return noted(function, CUDA_ERROR_NOT_SUPPORTED);
	int result = calling_thread(&thread);
	if (result)
		return result;
	unsigned long rules = usual_rules();
	result = driver_call(thread, number, words);
	own_rules(rules);
	return noted(function, result);
}

int cusim_begin(const char *function)
{
	uintptr_t thread;
	if (!cusim_initialized())
		return CUDA_ERROR_NOT_INITIALIZED;
	int result = calling_thread(&thread);
	return result ? result : noted(function, driver_fault(thread, function));
}

static void thread_end(void *thread)
{
	if (is_running())
		driver_thread_end((uintptr_t)thread);
}

// A forked process has at most one thread of the driver's Go runtime, so the driver must not be
// called there. The lock prevents a fork during the start of the driver.
static void fork_prepare(void) { pthread_mutex_lock(&starting); }

static void fork_parent(void) { pthread_mutex_unlock(&starting); }

static void fork_child(void)
{
	if (loaded) {
		forked = 1;
		running = ready = 0;
		if (go_key >= 0) // otherwise the end of the thread would call the Go runtime
			pthread_setspecific(go_key, NULL);
	}
	pthread_mutex_unlock(&starting);
}

// library_loaded is called when this library is loaded. The driver is in the same folder. Its path
// is stored now, as the working directory may change.
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
	have_key = !pthread_key_create(&thread_key, thread_end);
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

// process_ends is called at the end of the process.
__attribute__((destructor)) static void process_ends(void)
{
	const char *report = getenv("CUSIM_REPORT");
	if (report && *report && is_running())
		driver_report();
}

// Signals whose handlers are restored after the start of the Go runtime. It uses SIGURG to preempt
// goroutines. Another Go runtime in this process needs this signal, and the driver does not, as it
// has no goroutine that computes for long. It does not need SIGPIPE either. It keeps the handlers
// of faults, and forwards faults outside of its code.
static const int borrowed[] = {SIGURG, SIGPIPE};

enum { NBORROWED = sizeof borrowed / sizeof *borrowed };

// kernel_action begins like the kernel's struct sigaction of amd64 and arm64, and is large enough
// for it. The system call is used because the C library would change the values of another Go
// runtime.
struct kernel_action { uint64_t handler, flags, rest[6]; };

static long kernel_sigaction(int sig, const struct kernel_action *new, struct kernel_action *old)
{
	return syscall(SYS_rt_sigaction, sig, new, old, 8L);
}

// restore_action restores a signal's action. From now on its handler runs on the thread's signal
// stack, because the stack of interrupted Go code is a goroutine's, and small. The Go runtime has
// done this for all other signals.
static void restore_action(int sig, const struct kernel_action *action)
{
	struct kernel_action a = *action;
	if (a.handler != (uintptr_t)SIG_DFL && a.handler != (uintptr_t)SIG_IGN)
		a.flags |= SA_ONSTACK;
	kernel_sigaction(sig, &a, NULL);
}

// send_again sends SIGURG to all threads if there is a handler for it. A signal that the driver's
// handler has received is lost, and a Go runtime that sent it would wait forever. Additional
// signals have no effect on such a handler. It closes the directory of the threads, which is open.
static void send_again(int directory)
{
	struct sigaction action;
	DIR *threads = fdopendir(directory);
	if (!threads) {
		if (directory >= 0)
			close(directory);
		return;
	}
	if (sigaction(SIGURG, NULL, &action) || action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
		closedir(threads);
		return;
	}
	for (struct dirent *d; (d = readdir(threads));) {
		long id = atol(d->d_name);
		if (id > 0)
			syscall(SYS_tgkill, (long)getpid(), id, (long)SIGURG);
	}
	closedir(threads);
}

// failed_load returns the result of a load that has failed.
static int failed_load(void)
{
	const char *why = dlerror();
	int result = CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, fd = open(driver_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		result = CUDA_ERROR_OPERATING_SYSTEM;
	else if (fd >= 0) {
		const size_t most = 64 << 20; // larger than the file
		void *p = mmap(NULL, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED)
			result = CUDA_ERROR_OUT_OF_MEMORY;
		else
			munmap(p, most);
		close(fd);
	}
	fprintf(stderr, "cusim: the driver behind libcuda.so.1 cannot be loaded: %s\n", why);
	return result;
}

// load_driver loads the driver, whose Go runtime does not run yet. A driver that was loaded before stays.
static int load_driver(void)
{
	if (driver_report)
		return CUDA_SUCCESS;
	void *driver = dlopen(driver_path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (driver && (driver_begin = dlsym(driver, "cusimBegin")) && (driver_start = dlsym(driver, "cusimStart")) &&
	    (driver_thread = dlsym(driver, "cusimEnter")) && (driver_thread_end = dlsym(driver, "cusimLeave")) &&
	    (driver_call = dlsym(driver, "cusimCall")) && (driver_fault = dlsym(driver, "cusimFault")) &&
	    (driver_nvml = dlsym(driver, "cusimNVML")) &&
	    (driver_report = dlsym(driver, "cusimFinish")))
		return CUDA_SUCCESS;
	return failed_load();
}

// first_call makes the first call of the driver, and finds the key of the Go runtime's value for
// each thread: the key whose value is set by this call.
static int first_call(void)
{
	static char set[PTHREAD_KEYS_MAX];
	for (int k = 0; k < PTHREAD_KEYS_MAX; k++)
		set[k] = pthread_getspecific(k) != NULL;
	int result = driver_start(CUSIM_VERSION);
	for (int k = 0; k < PTHREAD_KEYS_MAX; k++)
		if (!set[k] && pthread_getspecific(k))
			go_key = k;
	return result;
}

// start starts the driver. The threads of its Go runtime block all signals but faults, so that the
// program's threads handle them. If it sets again, another call may have another result.
static int start(int *again)
{
	struct kernel_action saved[NBORROWED];
	sigset_t blocked, mask;
	int threads = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC); // later there may be no descriptor
	all_but_faults(&blocked);
	for (int i = 0; i < NBORROWED; i++)
		kernel_sigaction(borrowed[i], NULL, &saved[i]);
	pthread_sigmask(SIG_SETMASK, &blocked, &mask);
	unsigned long rules = usual_rules();
	int result = load_driver();
	if (!result)
		result = driver_begin();
	*again = result != CUDA_SUCCESS;
	if (!result) {
		loaded = 1;
		result = first_call();
	}
	own_rules(rules);
	for (int i = 0; i < NBORROWED; i++)
		restore_action(borrowed[i], &saved[i]);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (loaded)
		send_again(threads);
	else if (threads >= 0)
		close(threads);
	return result;
}

// run starts the driver, unless it runs.
static int run(void)
{
	static int failed; // the start of the driver has failed, and does not become possible
	if (is_running())
		return CUDA_SUCCESS;
	pthread_mutex_lock(&starting);
	int result = have_key ? failed : CUDA_ERROR_OPERATING_SYSTEM, again = 0;
	if (!is_running() && !result) {
		result = start(&again);
		if (!result)
			atomic_store_explicit(&running, 1, memory_order_release);
		else if (!again)
			failed = result;
	}
	pthread_mutex_unlock(&starting);
	return result;
}

// result_nvml returns the nvmlReturn_t that is like a CUresult.
static int result_nvml(int result)
{
	enum { NVML_ERROR_OPERATING_SYSTEM = 17, NVML_ERROR_MEMORY = 20, NVML_ERROR_UNKNOWN = 999 };
	switch (result) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return NVML_ERROR_MEMORY;
	case CUDA_ERROR_OPERATING_SYSTEM:
		return NVML_ERROR_OPERATING_SYSTEM;
	}
	return NVML_ERROR_UNKNOWN;
}

// cusim_nvml makes a call of NVML, of a function that exists since the given version of CUDA. libnvidia-ml.so.1 calls
// it: a process has one driver, whichever of the two libraries it uses. first says that the call may start the driver.
__attribute__((visibility("default"))) int cusim_nvml(int first, uint32_t number, int since, uint64_t *words)
{
	enum { NVML_ERROR_UNINITIALIZED = 1, NVML_ERROR_FUNCTION_NOT_FOUND = 13 };
	uintptr_t thread;
	if (!first && !is_running())
		return NVML_ERROR_UNINITIALIZED;
	if (since > driver_version())
		return NVML_ERROR_FUNCTION_NOT_FOUND;
	int result = forked ? CUDA_ERROR_NOT_INITIALIZED : run();
	if (!result)
		result = calling_thread(&thread); // the call is made with its signals, and its end known
	if (result)
		return result_nvml(result);
	unsigned long rules = usual_rules();
	result = driver_nvml(number, words);
	own_rules(rules);
	return result;
}

int cusim_call_first_in(const char *function, uint32_t number, int since, uint64_t *words)
{
	int result = forked ? CUDA_ERROR_NOT_INITIALIZED : run();
	return result ? result : cusim_call_in(function, number, since, words);
}

int cuInit(unsigned int flags)
{
	uint64_t words[] = {flags};
	if (forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	int result = run();
	if (result)
		return result;
	result = cusim_call(CUSIM_Init, 0, words);
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

// find_result returns the entry of a result, or the last entry, which has no name.
static const struct cusim_result *find_result(int code)
{
	const struct cusim_result *r = cusim_results;
	while (r->name && r->code != code)
		r++;
	return r;
}

// store_text stores a text. A NULL text is an error.
static int store_text(const char *text, void *out)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*(const char **)out = text;
	return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

int cuGetErrorName(int error, void *pStr) { return store_text(find_result(error)->name, pStr); }

int cuGetErrorString(int error, void *pStr) { return store_text(find_result(error)->text, pStr); }

// find_symbol stores the newest interface of a function that is not newer than a version, or NULL,
// and returns a CUdriverProcAddressQueryResult. Like NVIDIA's drivers it treats negative versions
// as large ones. If the interface for the per-thread default stream is requested and exists, it
// never returns the other one.
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
			*function = s->function; // the newest one is the last
	}
	return *function ? FOUND : known ? VERSION_NOT_SUFFICIENT : NOT_FOUND;
}

// most_flags is the largest value of the flags of cuGetProcAddress.
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
