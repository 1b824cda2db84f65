// Many threads call the functions of cusim/libcuda/needs.c, which is included, at once. Instead of the Go runtime there
// are stubs, and the system refuses memory and threads at random. It writes what is wrong.
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// What the linker makes of the functions that needs.c replaces. refusing says that the system may refuse them.
static atomic_int refusing;

static int refused(void)
{
	static _Thread_local unsigned state;
	if (!state)
		state = (unsigned)(uintptr_t)&state | 1;
	return refusing && rand_r(&state) % 2;
}

void *__real_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t offset)
{
	int refuse = refused();
	errno = 0;
	void *p = refuse && (flags & MAP_FIXED) ? MAP_FAILED : mmap(addr, n, prot, flags, fd, offset);
	if (p != MAP_FAILED && !refuse)
		return p;
	if (p != MAP_FAILED)
		munmap(p, n);
	errno = p == MAP_FAILED && errno == EEXIST ? EEXIST : ENOMEM;
	return MAP_FAILED;
}

// grow_or_move is mremap, which is refused only if the memory grows.
static void *grow_or_move(void *p, size_t n, size_t to, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	void *addr = flags & MREMAP_FIXED ? va_arg(args, void *) : NULL;
	va_end(args);
	return n != to && refused() ? MAP_FAILED : mremap(p, n, to, flags, addr);
}
#define mremap grow_or_move

static int permit(void *p, size_t n, int prot) { return prot && refused() ? -1 : mprotect(p, n, prot); }
#define mprotect permit

void *__real_malloc(size_t n) { return refused() ? NULL : malloc(n); }

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*f)(void *), void *arg)
{
	return refused() ? EAGAIN : pthread_create(t, attr, f, arg);
}

int __real_pthread_attr_init(pthread_attr_t *attr) { return pthread_attr_init(attr); }

void __real_x_cgo_sys_thread_create(void *(*f)(void *), void *arg) { f(arg); }

// What Go exports.
static atomic_long made;
static uintptr_t cusimThread(void)
{
	made++;
	return 1;
}

static void cusimThreadEnd(uintptr_t thread) { made -= thread; }
static int cusimMake(uintptr_t thread, uint32_t number, int scarce, uint64_t *words)
{
	return thread == 1 && number == 0 && words ? scarce : -1;
}
static int cusimMakeNVML(uint32_t number, int scarce, uint64_t *words) { return number == 0 && words ? scarce : -1; }
static void cusimReport(void) {}

#include "needs.c"

enum { THREADS = 16, ROUNDS = 80 };

static atomic_int wrong;

#define CHECK(cond) (cond ? 0 : wrong++ ? 0 : printf("line %d: not %s\n", __LINE__, #cond))

// is_own checks that memory is zero, and then writes to it. Nobody else may.
static void is_own(char *p, size_t n, char mark)
{
	CHECK(!p[0] && !p[n - 1]);
	p[0] = p[n - 1] = mark;
	sched_yield();
	CHECK(p[0] == mark && p[n - 1] == mark);
}

// Threads of the runtime: those that were started, and those of them that no host function needs.
static atomic_int started, idle;

// of_runtime is a thread of the runtime, which does not end.
static void *of_runtime(void *start)
{
	free(start);
	for (;;)
		pause();
	return NULL;
}

static void *caller(void *at)
{
	const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS, both = PROT_READ | PROT_WRITE;
	const size_t page = sysconf(_SC_PAGESIZE);
	unsigned state = (uintptr_t)at;
	char mark = 1 + state % 100, *p,
		// Like those of the heap, these are addresses that the system gives nobody else.
		*reserved = mmap((void *)(((uintptr_t)at << 30) + 0x1000000000), 64 * page, PROT_NONE,
			anonymous | MAP_NORESERVE, -1, 0);
	uint64_t words[1];
	uintptr_t thread;
	pthread_t unused;
	for (int i = 0; i < ROUNDS; i++) {
		size_t n = (1 + rand_r(&state) % 16) * page;
		switch (rand_r(&state) % 5) {
		case 0: // for the runtime's structures
			if ((p = __wrap_mmap(NULL, n - 100, both, anonymous, -1, 0)) != MAP_FAILED) {
				is_own(p, n, mark);
				munmap(p, n);
			}
			break;
		case 1: // the heap uses what it has reserved
			p = reserved + rand_r(&state) % 48 * page;
			if (__wrap_mmap(p, n, both, anonymous | MAP_FIXED, -1, 0) != MAP_FAILED) {
				is_own(p, n, mark);
				mmap(p, n, PROT_NONE, anonymous | MAP_FIXED | MAP_NORESERVE, -1, 0);
			}
			break;
		case 2: // the heap grows where there is something, and where there is nothing
			p = __wrap_mmap(reserved, n, PROT_NONE, anonymous, -1, 0);
			CHECK(p != reserved);
			if (p != MAP_FAILED)
				munmap(p, n);
			munmap(reserved, n);
			p = __wrap_mmap(reserved, n, both, anonymous, -1, 0);
			if (p != MAP_FAILED) {
				CHECK(p == reserved);
				is_own(p, n, mark);
			}
			mmap(reserved, n, PROT_NONE, anonymous | MAP_FIXED | MAP_NORESERVE, -1, 0);
			break;
		case 3:
			if ((thread = cusimEnter())) {
				CHECK(cusimCall(thread, 0, words) >= 0);
				cusimLeave(thread);
			}
			break;
		case 4:
			if (!cusim_host_begin())
				break;
			if (--idle < 0) { // the runtime starts another thread
				void *start = __wrap_malloc(24);
				CHECK(start);
				__wrap_pthread_create(&unused, NULL, of_runtime, start);
				idle++;
				started++;
			}
			sched_yield();
			idle++;
			cusim_host_end();
		}
	}
	munmap(reserved, 64 * page);
	return NULL;
}

// all lets all threads call.
static void all(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, caller, (void *)(intptr_t)(i + 1));
	refusing = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	refusing = 0;
}

// addresses returns how many pages of addresses the process has, or 0 in a program that is searched for races: the
// search takes addresses of its own, for each thread that it has seen.
static long addresses(void)
{
	long pages = 0;
#ifdef SEARCHED_FOR_RACES
	return pages;
#endif
	FILE *f = fopen("/proc/self/statm", "r");
	CHECK(f && fscanf(f, "%ld", &pages) == 1);
	fclose(f);
	return pages;
}

int main(void)
{
	const long stack = 8 * MIB + (64 << 10), page = sysconf(_SC_PAGESIZE);
	long before = 0, had = 0;
	mallopt(M_ARENA_MAX, 1); // else it takes addresses for each thread
	CHECK(!have_threads() && !have_memory());
	for (int i = 0; i < 3; i++) {
		all();
		int unused = 0;
		for (struct spare *s = spares; s; s = s->next)
			unused++;
		CHECK(threads == started + unused && started <= THREADS);
		CHECK(!is_short() && left == RESERVE && !entered && !hosts && !made);
		is_own(reserve, RESERVE, 1);
		drop_reserve();
		CHECK(!is_short());
		long now = addresses();
		CHECK(i == 0 || now - before < (threads - had) * (stack / page + 1) + 100); // 3,840 calls have lost none
		before = now, had = threads;
	}
	return wrong != 0;
}
