// A program in C that takes something from its process and then uses libcuda.so.1: shortage LIBRARY WHEN WHAT AMOUNT.
// WHEN is before or after cuInit. It writes a line with the result of each call. It ends with 0 whatever the results are:
// the library must not end it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void *handle;
typedef unsigned long long address;

static void *library;

static void *symbol(const char *name)
{
	void *p = dlsym(library, name);
	if (!p) {
		fprintf(stderr, "no %s\n", name);
		_exit(1);
	}
	return p;
}

// fail ends a program that cannot do what it is for.
static void fail(const char *what)
{
	dprintf(1, "cannot %s: %s\n", what, strerror(errno));
	_exit(0);
}

// CALL calls a function of the library, and writes its result.
#define CALL(name, types, ...)                                                                  \
	({                                                                                      \
		int result = ((int (*) types)symbol(#name))(__VA_ARGS__);                       \
		dprintf(1, "%s %d\n", #name, result);                                           \
		result;                                                                         \
	})

static void limit(int resource, rlim_t most)
{
	struct rlimit r;
	getrlimit(resource, &r);
	r.rlim_cur = most;
	if (setrlimit(resource, &r))
		fail("setrlimit");
}

static void refuse(int call, int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		fail("seccomp");
}

static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;

static void *sleeper(void *unused)
{
	pthread_mutex_lock(&never);
	return unused;
}

// be_alone makes the process the only one of its user, who is not root.
static void be_alone(void)
{
	int user = 20000 + getpid() % 40000;
	if (setgid(user) || setuid(user))
		fail("change the user");
}

// take takes something from the process.
static void take(const char *what, long amount)
{
	if (!strcmp(what, "processes")) {
		be_alone();
		limit(RLIMIT_NPROC, amount);
	} else if (!strcmp(what, "threads")) { // all but an amount
		pthread_attr_t small;
		pthread_t t;
		pthread_attr_init(&small);
		pthread_attr_setstacksize(&small, 65536);
		be_alone();
		limit(RLIMIT_NPROC, 300);
		pthread_mutex_lock(&never);
		while (!pthread_create(&t, &small, sleeper, NULL))
			;
		limit(RLIMIT_NPROC, 300 + amount);
	} else if (!strcmp(what, "address")) {
		limit(RLIMIT_AS, (rlim_t)amount << 20);
	} else if (!strcmp(what, "data")) {
		limit(RLIMIT_DATA, (rlim_t)amount << 20);
	} else if (!strcmp(what, "descriptors")) { // all but an amount
		limit(RLIMIT_NOFILE, 64);
		int last = -1, fd;
		while ((fd = open("/dev/null", O_RDONLY)) >= 0)
			last = fd;
		while (amount-- > 0)
			close(last--);
	} else if (!strcmp(what, "stack")) {
		limit(RLIMIT_STACK, amount << 10);
	} else if (!strcmp(what, "filesize")) {
		limit(RLIMIT_FSIZE, amount << 10);
	} else if (!strcmp(what, "clone3")) {
		refuse(SYS_clone3, (int)amount);
	} else if (!strcmp(what, "clone")) {
		refuse(SYS_clone3, ENOSYS);
		refuse(SYS_clone, (int)amount);
	} else if (!strcmp(what, "epoll")) {
		refuse(SYS_epoll_create1, (int)amount);
	} else if (!strcmp(what, "eventfd")) {
		refuse(SYS_eventfd2, (int)amount);
	} else if (strcmp(what, "nothing")) {
		fprintf(stderr, "what is %s?\n", what);
		_exit(1);
	}
}

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
	".visible .entry one(.param .u64 p)\n{\n.reg .b64 %rd<3>;\n.reg .b32 %r<2>;\n"
	"ld.param.u64 %rd1, [p];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, 7;\nst.global.u32 [%rd2], %r1;\nret;\n}\n";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int going, ran;

static void host(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	while (!going)
		pthread_cond_wait(&changed, &lock);
	ran++;
	pthread_mutex_unlock(&lock);
}

enum { STREAMS = 40 };

// use uses most kinds of things. Each is only used if its creation has succeeded.
static void use(void)
{
	int dev, value = 0, created = 0, launched = 0, streams = 0;
	handle ctx, module, function, stream[STREAMS], event, pool, physical;
	address memory = 0;
	char bytes[64];
	if (CALL(cuDeviceGet, (int *, int), &dev, 0) ||
	    CALL(cuDevicePrimaryCtxRetain, (handle *, int), &ctx, dev) ||
	    CALL(cuCtxSetCurrent, (handle), ctx))
		return;
	if (!CALL(cuMemAlloc_v2, (address *, size_t), &memory, 1 << 16)) {
		if (!CALL(cuModuleLoadData, (handle *, const void *), &module, ptx) &&
		    !CALL(cuModuleGetFunction, (handle *, handle, const char *), &function, module, "one")) {
			void *params[] = {&memory};
			if (!CALL(cuLaunchKernel, (handle, int, int, int, int, int, int, int, handle, void **, void **),
			          function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) &&
			    !CALL(cuCtxSynchronize, (void)) &&
			    !CALL(cuMemcpyDtoH_v2, (void *, address, size_t), &value, memory, sizeof value) && value != 7) {
				fprintf(stderr, "the kernel has stored %d\n", value);
				_exit(1);
			}
		}
		CALL(cuIpcGetMemHandle, (void *, address), bytes, memory);
	}
	if (!CALL(cuEventCreate, (handle *, int), &event, 6)) {
		CALL(cuIpcGetEventHandle, (void *, handle), bytes, event);
		CALL(cuEventDestroy_v2, (handle), event);
	}
	struct { int type, handles, location, id; char rest[80]; } properties = {1, 1, 1, 0, {0}};
	if (!CALL(cuMemPoolCreate, (handle *, void *), &pool, &properties))
		CALL(cuMemPoolDestroy, (handle), pool);
	struct { int type, handles, location, id; char rest[48]; } allocation = {1, 1, 1, 0, {0}};
	if (!CALL(cuMemCreate, (handle *, size_t, void *, uint64_t), &physical, 2 << 20, &allocation, 0))
		CALL(cuMemRelease, (handle), physical);
	for (; streams < STREAMS && !CALL(cuStreamCreate, (handle *, int), &stream[streams], 1); streams++)
		;
	for (int i = 0; i < streams; i++)
		launched += !CALL(cuLaunchHostFunc, (handle, void *, void *), stream[i], host, NULL);
	usleep(20000); // as many of them as can run now
	pthread_mutex_lock(&lock);
	going = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < streams; i++) {
		CALL(cuStreamSynchronize, (handle), stream[i]);
		created += !CALL(cuStreamDestroy_v2, (handle), stream[i]);
	}
	if (created != streams || ran != launched) {
		fprintf(stderr, "%d of %d streams destroyed, %d of %d host functions called\n", created, streams, ran, launched);
		_exit(1);
	}
	if (memory)
		CALL(cuMemFree_v2, (address), memory);
}

// threads returns how many threads the process has.
static int threads(void)
{
	char text[4096];
	int fd = open("/proc/self/status", O_RDONLY), n = fd < 0 ? 0 : read(fd, text, sizeof text - 1), count = -1;
	text[n > 0 ? n : 0] = 0;
	char *line = strstr(text, "Threads:");
	if (line)
		sscanf(line, "Threads: %d", &count);
	if (fd >= 0)
		close(fd);
	return count;
}

static int begin(void)
{
	int before = threads(), result = CALL(cuInit, (int), 0);
	if (result) {
		for (int i = 0; i < 1000 && threads() != before; i++)
			usleep(1000); // the system needs a moment to end them
		if (threads() != before) {
			fprintf(stderr, "there were %d threads, and are %d\n", before, threads());
			_exit(1);
		}
		int again = CALL(cuInit, (int), 0);
		if (again != result) {
			fprintf(stderr, "cuInit: %d, and then %d\n", result, again);
			_exit(1);
		}
	}
	return result;
}

static void *on_thread(void *unused)
{
	if (!begin())
		use();
	return unused;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	const char *when = argv[2], *what = argv[3];
	long amount = atol(argv[4]);
	if (!(library = dlopen(argv[1], RTLD_NOW))) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	if (!strcmp(what, "thread")) { // with a stack of this many KiB
		pthread_attr_t attr;
		pthread_t t;
		if (!strcmp(when, "after") && begin())
			return 1;
		pthread_attr_init(&attr);
		if (pthread_attr_setstacksize(&attr, amount << 10) || pthread_create(&t, &attr, on_thread, NULL))
			fail("thread");
		pthread_join(t, NULL);
		return 0;
	}
	if (!strcmp(when, "before"))
		take(what, amount);
	if (begin())
		return 0;
	if (!strcmp(when, "after"))
		take(what, amount);
	use();
	return 0;
}
