//go:build linux && cgo

// What the Go runtime needs from the process of others: threads, file descriptors and memory. It ends the process if
// it does not get them. So they are asked for here, where a shortage can become a result:
//
// - The library's constructor does not start the runtime, as it cannot refuse. cusimBegin does.
// - The runtime gets threads that were created before, with stacks of a size that suits it. There are as many as it may
//   need at once. A thread that waits in a host function is not counted among these: another one takes its place.
// - The runtime opens two descriptors for timers, at the first one. They are held until then.
// - A reserve of memory is held for the runtime, which gets a part of it when the system refuses it memory. Until there
//   is a whole reserve again, calls that need memory are refused, and calls that free something are not.
//
// Several threads may call each of these functions at once, but for those that cusimBegin calls: libcuda.so.1 calls it
// on one thread. lock is taken before reserving.
#define _GNU_SOURCE
#include "needs.h"
#include "_cgo_export.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { OUT_OF_MEMORY = 2, OPERATING_SYSTEM = 304 };

#define MIB ((size_t)1 << 20)

// The linker replaces calls of a function f with calls of __wrap_f: see export.go.
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __real_pthread_attr_init(pthread_attr_t *);
void __real_x_cgo_sys_thread_create(void *(*)(void *), void *);
void *__real_mmap(void *, size_t, int, int, int, off_t);
void *__real_malloc(size_t);

// __wrap_pthread_attr_init gives the runtime's threads stacks of a size that does not depend much on RLIMIT_STACK: that
// may be too small, or as large as all memory. The runtime reads the size, too.
int __wrap_pthread_attr_init(pthread_attr_t *attr)
{
	const size_t least = 1 * MIB, most = 8 * MIB;
	size_t size;
	int err = __real_pthread_attr_init(attr);
	if (err || pthread_attr_getstacksize(attr, &size))
		return err;
	return pthread_attr_setstacksize(attr, size < least ? least : size > most ? most : size);
}

// RESERVE is how much memory is held for the runtime, which takes 64 MiB of addresses at once. Nobody writes there
// before the runtime has it, so it is only address space.
#define RESERVE (72 * MIB)

static pthread_mutex_t reserving = PTHREAD_MUTEX_INITIALIZER;
static char *reserve;       // where the reserve is
static _Atomic size_t left; // how much there is of it

// take takes n bytes off the end of the reserve, or returns MAP_FAILED. With an address they get it, and take the place
// of what is there. The system moves them whatever the limits are, as the process does not get more, and no other
// thread can have them meanwhile.
static void *take(void *addr, size_t n, int prot)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	void *p = MAP_FAILED;
	n = (n + page - 1) / page * page;
	pthread_mutex_lock(&reserving);
	if (n <= left) {
		p = reserve + left - n;
		if (addr)
			p = mremap(p, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, addr);
		if (p != MAP_FAILED)
			left -= n;
	}
	pthread_mutex_unlock(&reserving);
	if (p != MAP_FAILED)
		mprotect(p, n, prot);
	return p;
}

// is_short reports whether there is no whole reserve, and what is missing cannot be had.
static int is_short(void)
{
	if (left == RESERVE)
		return 0;
	pthread_mutex_lock(&reserving);
	void *p = left ? mremap(reserve, left, RESERVE, MREMAP_MAYMOVE) :
		__real_mmap(NULL, RESERVE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p != MAP_FAILED) {
		reserve = p;
		left = RESERVE;
	}
	pthread_mutex_unlock(&reserving);
	return p == MAP_FAILED;
}

// drop_reserve gives the reserve back to the system.
static void drop_reserve(void)
{
	pthread_mutex_lock(&reserving);
	if (left)
		munmap(reserve, left);
	left = 0;
	pthread_mutex_unlock(&reserving);
}

// __wrap_mmap is called by the runtime, which ends the process if it does not get what it needs.
void *__wrap_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t offset)
{
	void *p = __real_mmap(addr, n, prot, flags, fd, offset);
	if (p != MAP_FAILED || errno != ENOMEM || !(flags & MAP_ANONYMOUS))
		return p;
	if (flags & MAP_FIXED) {
		// The runtime has reserved the addresses, and not used them. If a limit is smaller than what the process
		// has, the system refuses to map them again, but not to permit their use.
		if (!mprotect(addr, n, prot))
			return addr;
	} else if (addr) {
		// The heap grows at addresses of its choice. This fails again, and says whether something else is there.
		p = __real_mmap(addr, n, prot, flags | MAP_FIXED_NOREPLACE, fd, offset);
		if (p != MAP_FAILED || errno != ENOMEM)
			return p;
	}
	return take(addr, n, prot);
}

// fits reports whether the process may have n more bytes of memory.
static int fits(size_t n, int prot, int flags)
{
	void *p = __real_mmap(NULL, n, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
	return p != MAP_FAILED && !munmap(p, n);
}

int cusim_room(uint64_t n)
{
	struct rlimit addresses, data;
	if (getrlimit(RLIMIT_AS, &addresses) || getrlimit(RLIMIT_DATA, &data) ||
	    (addresses.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY))
		return 1;
	return fits(n, PROT_READ | PROT_WRITE, 0);
}

// A spare thread waits until the runtime wants a thread.
struct spare {
	pthread_t thread;
	sem_t wanted;
	void *(*routine)(void *); // NULL if it is not wanted any more
	void *arg;
	sigset_t mask;
	void *start; // memory for the start of a thread, or NULL if it is used
	struct spare *next;
};

// START is more than what the runtime asks malloc for when it starts a thread.
enum { START = 64 };

// OTHERS is how many threads the runtime needs beside those that execute Go code, one for each processor: for sysmon,
// for the creation of threads, for the poller, and for goroutines in system calls.
enum { OTHERS = 8 };

// MOST_HOSTS is how many host functions may run at once: the runtime ends a process with more than 10,000 threads.
enum { MOST_HOSTS = 9000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct spare *spares;
static int threads;    // of the runtime, with the spare ones; it ends none
static int processors; // for which there are threads
static int hosts;      // host functions that run

static void *spare_thread(void *p)
{
	struct spare *s = p;
	while (sem_wait(&s->wanted))
		; // interrupted
	void *(*routine)(void *) = s->routine;
	void *arg = s->arg;
	sigset_t mask = s->mask;
	sem_destroy(&s->wanted);
	free(s->start);
	free(s);
	if (!routine)
		return NULL;
	pthread_detach(pthread_self());
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	return routine(arg);
}

// add_spare creates a spare thread, or returns an error. lock is held.
static int add_spare(void)
{
	const size_t frames = 64 << 10; // below those of the runtime
	pthread_attr_t attr;
	sigset_t all, mask;
	size_t size;
	struct spare *s = __real_malloc(sizeof *s);
	void *start = __real_malloc(START);
	if (!s || !start) {
		free(s);
		free(start);
		return ENOMEM;
	}
	s->start = start;
	sem_init(&s->wanted, 0, 0);
	__wrap_pthread_attr_init(&attr);
	pthread_attr_getstacksize(&attr, &size);
	pthread_attr_setstacksize(&attr, size + frames);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	int err = __real_pthread_create(&s->thread, &attr, spare_thread, s);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	pthread_attr_destroy(&attr);
	if (err) {
		sem_destroy(&s->wanted);
		free(s->start);
		free(s);
		return err;
	}
	s->next = spares;
	spares = s;
	threads++;
	return 0;
}

// take_spare returns a spare thread, or NULL.
static struct spare *take_spare(void)
{
	pthread_mutex_lock(&lock);
	struct spare *s = spares;
	if (s)
		spares = s->next;
	pthread_mutex_unlock(&lock);
	return s;
}

// __wrap_malloc is called by the runtime at the start of a thread, which frees the memory. There is some for each spare
// thread.
void *__wrap_malloc(size_t n)
{
	void *p = __real_malloc(n);
	if (p || n > START)
		return p;
	pthread_mutex_lock(&lock);
	for (struct spare *s = spares; s && !p; s = s->next) {
		p = s->start;
		s->start = NULL;
	}
	pthread_mutex_unlock(&lock);
	return p;
}

// end_spares ends the spare threads.
static void end_spares(void)
{
	struct spare *s;
	while ((s = take_spare())) {
		pthread_t thread = s->thread;
		s->routine = NULL;
		sem_post(&s->wanted);
		pthread_join(thread, NULL);
		threads--;
	}
}

// __wrap_pthread_create gives the runtime a thread. It does not look at the identifier. There should be a spare thread.
// If there is none, and none can be created, it waits, as the runtime would end the process.
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*routine)(void *), void *arg)
{
	const struct timespec pause = {0, 5000000};
	struct spare *s;
	while (!(s = take_spare())) {
		if (!__real_pthread_create(thread, attr, routine, arg)) {
			pthread_mutex_lock(&lock);
			threads++;
			pthread_mutex_unlock(&lock);
			return 0;
		}
		nanosleep(&pause, NULL);
	}
	memset(thread, 0, sizeof *thread);
	s->routine = routine;
	s->arg = arg;
	pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
	sem_post(&s->wanted);
	return 0;
}

int cusim_processors(void) { return processors; }

int cusim_host_begin(void)
{
	pthread_mutex_lock(&lock);
	int there = threads > processors + OTHERS + hosts || (hosts < MOST_HOSTS && !is_short() && !add_spare());
	hosts += there;
	pthread_mutex_unlock(&lock);
	return there;
}

void cusim_host_end(void)
{
	pthread_mutex_lock(&lock);
	hosts--;
	pthread_mutex_unlock(&lock);
}

// ADDRESSES and MEMORY are how many bytes the runtime needs. It uses more address space than memory.
#define ADDRESSES (1408 * MIB)
#define MEMORY (192 * MIB)

// enough_memory reports whether the runtime can reserve its addresses and use some.
static int enough_memory(void)
{
	return fits(ADDRESSES, PROT_NONE, MAP_NORESERVE) && fits(MEMORY, PROT_READ | PROT_WRITE, 0);
}

// too_little_memory says so, and returns the result.
static int too_little_memory(void)
{
	fprintf(stderr, "cusim: cuInit needs %zu MiB of addresses and %zu MiB of memory: raise ulimit -v, or ulimit -d\n",
		ADDRESSES / MIB, MEMORY / MIB);
	return OUT_OF_MEMORY;
}

// have_threads creates the threads: one for each processor, or fewer if the system permits fewer, but at least one.
static int have_threads(void)
{
	cpu_set_t set;
	int wanted = sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set), err = 0;
	pthread_mutex_lock(&lock);
	while (threads <= wanted + OTHERS && !(err = add_spare()))
		;
	processors = threads - OTHERS - 1; // one is for a host function
	pthread_mutex_unlock(&lock);
	if (processors >= 1)
		return 0;
	if (!enough_memory()) // for their stacks
		return too_little_memory();
	fprintf(stderr, "cusim: cuInit needs %d threads, and got %d: pthread_create: %s; ", OTHERS + 2, threads,
		strerror(err));
	if (err == EPERM)
		fprintf(stderr, "a seccomp filter refuses clone3, so use a container runtime or a filter that knows it\n");
	else
		fprintf(stderr, "raise ulimit -u, or the limit of the container or service for processes\n");
	return OPERATING_SYSTEM;
}

// The descriptors that are held for the runtime.
static int held[2] = {-1, -1};

void cusim_release(void)
{
	for (int i = 0; i < 2; i++)
		if (held[i] >= 0)
			close(held[i]);
	held[0] = held[1] = -1;
}

// have_descriptors opens what the runtime opens at the first timer.
static int have_descriptors(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	const char *call = "epoll_create1";
	if ((held[0] = epoll_create1(EPOLL_CLOEXEC)) >= 0) {
		call = "eventfd";
		if ((held[1] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0) {
			call = "epoll_ctl";
			if (!epoll_ctl(held[0], EPOLL_CTL_ADD, held[1], &event))
				return 0;
		}
	}
	int err = errno;
	cusim_release();
	fprintf(stderr, "cusim: cuInit cannot have its descriptors: %s: %s; %s\n", call, strerror(err),
		err == EMFILE || err == ENFILE ? "close files, or raise ulimit -n" : "a seccomp filter may refuse it");
	return OPERATING_SYSTEM;
}

// have_memory checks that there is enough memory, and holds the reserve.
static int have_memory(void)
{
	const size_t arena = 128 * MIB; // what malloc reserves for a thread if it can
	drop_reserve();
	if (enough_memory()) {
		if (!fits(ADDRESSES + threads * arena, PROT_NONE, MAP_NORESERVE))
			mallopt(M_ARENA_MAX, 1);
		if (!is_short())
			return 0;
	}
	return too_little_memory();
}

// The function that starts the runtime, and its argument: see __wrap_x_cgo_sys_thread_create.
static void *(*start_routine)(void *);
static void *start_arg;

// __wrap_x_cgo_sys_thread_create is called by the library's constructor.
void __wrap_x_cgo_sys_thread_create(void *(*routine)(void *), void *arg)
{
	start_routine = routine;
	start_arg = arg;
}

// cusimBegin starts the Go runtime. If something is short, it returns the result, and can be called again.
int cusimBegin(void)
{
	int result = have_threads();
	if (!result)
		result = have_memory();
	if (!result)
		result = have_descriptors();
	if (result) {
		drop_reserve();
		end_spares();
	} else
		__real_x_cgo_sys_thread_create(start_routine, start_arg);
	return result;
}

// MORE is for how many threads the runtime gets new structures while memory is short. The structures of a thread that
// has ended serve another one.
enum { MORE = 100 };

static int entered;     // threads that have an identifier
static int most = MORE; // how many of them there may be while memory is short

// cusimEnter returns the identifier of the calling thread, or 0 if memory is short, and many threads have got one since
// it is. Most of them get one, as the thread may be going to free something.
uintptr_t cusimEnter(void)
{
	int short_of_memory = is_short();
	pthread_mutex_lock(&lock);
	if (!short_of_memory && most < entered + MORE)
		most = entered + MORE;
	int there = entered < most;
	entered += there;
	pthread_mutex_unlock(&lock);
	return there ? cusimThread() : 0;
}

// cusimLeave releases the identifier of a thread that ends.
void cusimLeave(uintptr_t thread)
{
	cusimThreadEnd(thread);
	pthread_mutex_lock(&lock);
	entered--;
	pthread_mutex_unlock(&lock);
}

// cusimCall makes a call.
int cusimCall(uintptr_t thread, uint32_t number, uint64_t *words)
{
	return cusimMake(thread, number, is_short(), words);
}

// cusimNVML makes a call of NVML.
int cusimNVML(uint32_t number, uint64_t *words)
{
	return cusimMakeNVML(number, is_short(), words);
}

// cusimFinish writes the report at the end of the process. The report needs memory.
void cusimFinish(void)
{
	if (is_short())
		fprintf(stderr, "cusim: there is no report, as the process is short of memory\n");
	else
		cusimReport();
}
