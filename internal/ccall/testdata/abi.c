// The C part of this package's tests: functions that record their arguments, that check the calling
// convention, and that keep a state for each thread as a driver does.
//
// Build it with: cc -shared -fPIC -pthread -o libabi.so abi.c
// For Windows: x86_64-w64-mingw32-gcc -shared -o libabi.dll abi.c

#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _WIN32
__declspec(dllimport) unsigned long GetCurrentThreadId(void);
static uint64_t gettid(void) { return GetCurrentThreadId(); }
#else
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#define gettid() ((uint64_t)syscall(SYS_gettid))
#endif

// result is an int in a register whose upper half is not zero.
static uint64_t result(int32_t v) { return 0xdeadbeef00000000u | (uint32_t)v; }

// ---- Arguments: their order and width.

// seen contains the arguments of the last call of a recorder, for words_seen.
static uint64_t seen[16];

// fold stores n words and returns a hash that depends on every bit of each and
// on their order.
static uint64_t fold(const uint64_t *v, int n) {
	uint64_t h = 1469598103934665603u;
	memset(seen, 0, sizeof seen);
	for (int i = 0; i < n; i++) {
		seen[i] = v[i];
		h = (h ^ v[i]) * 1099511628211u;
		h ^= h >> 29;
	}
	return h;
}

uint64_t words_seen(uint64_t *to) {
	memcpy(to, seen, sizeof seen);
	return 0;
}

#define W(x) uint64_t x
#define RECORDER(n, params, ...) \
	uint64_t words##n params { \
		uint64_t v[] = {__VA_ARGS__}; \
		return fold(v, n); \
	}

uint64_t words0(void) { return fold(NULL, 0); }
RECORDER(1, (W(a)), a)
RECORDER(2, (W(a), W(b)), a, b)
RECORDER(3, (W(a), W(b), W(c)), a, b, c)
RECORDER(4, (W(a), W(b), W(c), W(d)), a, b, c, d)
RECORDER(5, (W(a), W(b), W(c), W(d), W(e)), a, b, c, d, e)
RECORDER(6, (W(a), W(b), W(c), W(d), W(e), W(f)), a, b, c, d, e, f)
RECORDER(7, (W(a), W(b), W(c), W(d), W(e), W(f), W(g)), a, b, c, d, e, f, g)
RECORDER(8, (W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h)), a, b, c, d, e, f, g, h)
RECORDER(9, (W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i)), a, b, c, d, e, f, g, h, i)
RECORDER(10, (W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i), W(j)),
	a, b, c, d, e, f, g, h, i, j)
RECORDER(11, (W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i), W(j), W(k)),
	a, b, c, d, e, f, g, h, i, j, k)
RECORDER(12, (W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i), W(j), W(k), W(l)),
	a, b, c, d, e, f, g, h, i, j, k, l)
RECORDER(13, (W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i), W(j), W(k), W(l), W(m)),
	a, b, c, d, e, f, g, h, i, j, k, l, m)
RECORDER(14, (W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i), W(j), W(k), W(l), W(m), W(n)),
	a, b, c, d, e, f, g, h, i, j, k, l, m, n)
RECORDER(16, (W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i), W(j), W(k), W(l), W(m), W(n), W(o), W(p)),
	a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)

// quiet16 records its words and returns 0.
uint64_t quiet16(W(a), W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i), W(j), W(k), W(l), W(m), W(n), W(o), W(p))
{
	words16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p);
	return 0;
}

// floats records two words and the bits of two floating-point numbers after them.
uint64_t floats(uint64_t a, uint64_t b, float x, float y)
{
	uint32_t bits[2];
	memcpy(&bits[0], &x, 4);
	memcpy(&bits[1], &y, 4);
	uint64_t v[] = {a, b, bits[0], bits[1]};
	return fold(v, 4);
}

// Narrow parameters, in registers and on the stack.
uint64_t narrow6(int8_t a, uint8_t b, int16_t c, uint16_t d, int32_t e, uint32_t f) {
	uint64_t v[] = {a, b, c, d, e, f};
	return fold(v, 6);
}

uint64_t narrow14(int32_t a, uint32_t b, int32_t c, uint32_t d, int32_t e, uint32_t f, int32_t g,
	uint32_t h, int32_t i, int32_t j, int16_t k, uint16_t l, int8_t m, uint8_t n) {
	uint64_t v[] = {a, b, c, d, e, f, g, h, i, j, k, l, m, n};
	return fold(v, 14);
}

// Structs by value.
struct pair { uint32_t x, y; };
struct handle { uint64_t w[8]; };

uint64_t pair_between(uint64_t a, struct pair p, uint64_t b) {
	uint64_t v[] = {a, p.x, p.y, b};
	return fold(v, 4);
}

uint64_t handle_after(uint64_t *out, struct handle h) {
	*out = h.w[7];
	return fold(h.w, 8);
}

uint64_t handle_between(uint64_t *out, struct handle h, unsigned flags) {
	uint64_t v[9];
	memcpy(v, h.w, sizeof h);
	v[8] = flags;
	*out = h.w[0];
	return fold(v, 9);
}

uint64_t handle_among(uint64_t a, uint64_t b, struct handle h, uint64_t c, uint64_t d) {
	uint64_t v[12] = {a, b};
	memcpy(v + 2, h.w, sizeof h);
	v[10] = c;
	v[11] = d;
	return fold(v, 12);
}

// ---- Results and out-values.

uint64_t dirty(int32_t v) { return result(v); }

uint64_t out4(uint32_t *out, uint32_t v) {
	*out = v;
	return result(0);
}

uint64_t out8(uint64_t *out, uint64_t v) {
	*out = v;
	return result(0);
}

uint64_t out_float(float *out, int32_t thousandths) {
	*out = (float)thousandths / 1000;
	return result(0);
}

// spin keeps the processor busy.
uint64_t spin(uint64_t n) {
	for (volatile uint64_t i = 0; i < n;)
		i++;
	return 0;
}

// out_slow takes so long that the runtime lets another thread use the processor.
uint64_t out_slow(uint64_t *out, uint64_t v, uint32_t us) {
	usleep(us);
	*out = v;
	return result(0);
}

// out_deep uses 200 KiB of stack.
uint64_t out_deep(uint64_t *out, uint64_t v) {
	volatile unsigned char big[200 << 10];
	for (size_t i = 0; i < sizeof big; i += 512)
		big[i] = (unsigned char)v;
	uint64_t sum = 0;
	for (size_t i = 0; i < sizeof big; i += 512)
		sum += big[i];
	*out = v;
	return result(sum == (v & 0xff) * (sizeof big / 512) ? 0 : 1);
}

// out_many is called once for each item: *out = a + b.
uint64_t out_many(uint64_t *out, uint64_t a, uint64_t b) {
	*out = a + b;
	return result(0);
}

// length counts the bytes of a C string.
uint64_t length(const char *s) { return strlen(s); }

// lengths counts the bytes of all strings of a list that ends with NULL.
int32_t lengths(const char *const *s, uint64_t *n) {
	for (*n = 0; s && *s; s++) *n += strlen(*s);
	return 0;
}

// text returns a string for 1, and NULL for other numbers.
const char *text(int32_t which) { return which == 1 ? "a text" : NULL; }

struct counted {
	int32_t n;
	uint64_t sum;
};

// sum adds the bytes, and writes the sum to a pair. It returns a status: the number of bytes.
uint64_t sum(const uint8_t *b, uint64_t n, struct counted *out) {
	for (uint64_t i = 0; i < n; i++) out->n++, out->sum += b[i];
	return result(out->n == 3 ? 0 : out->n);
}

// ---- The stack pointer.

typedef float vec __attribute__((vector_size(16)));

// misaligned counts the calls of functions with LOOK in which the stack pointer was not aligned.
static int misaligned;

// LOOK is evaluated in the function itself. The frame pointer of a function is a multiple of 16 if
// its caller followed the ABI. The vector makes the compiler use aligned stores.
#define LOOK() \
	do { \
		if ((uintptr_t)__builtin_frame_address(0) % 16 != 0) { \
			__atomic_add_fetch(&misaligned, 1, __ATOMIC_RELAXED); \
		} else { \
			volatile vec v = {1, 2, 3, 4}; \
			v = v + v; \
		} \
	} while (0)

uint64_t look(int32_t v) {
	LOOK();
	return result(v);
}

uint64_t look14(int32_t v, W(b), W(c), W(d), W(e), W(f), W(g), W(h), W(i), W(j), W(k), W(l), W(m), W(n)) {
	LOOK();
	return result(v);
}

uint64_t misaligned_calls(void) { return result(misaligned); }

// ---- Calls back into Go, and loops in C for comparison.

// call_back writes its out-value and returns after the callback.
uint64_t call_back(uint64_t (*back)(uint64_t), uint64_t v, uint64_t *out) {
	uint64_t r = back(v);
	*out = 2 * v + 1;
	return r;
}

// make_kept_call calls what keep_call has kept.
static void (*kept_call)(uint64_t);
static uint64_t kept_arg;
uint64_t keep_call(void (*f)(uint64_t), uint64_t arg) {
	kept_call = f;
	kept_arg = arg;
	return result(0);
}
uint64_t make_kept_call(void) {
	kept_call(kept_arg);
	return result(700);
}

// query returns at once.
int query(uint64_t handle) { return handle == 0; }

// query_times calls f, which is query, n times.
uint64_t query_times(int (*f)(uint64_t), uint64_t handle, uint64_t n) {
	uint64_t sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += (uint64_t)f(handle);
	return sum;
}

// The result of each_item depends on the order and the width of its words.
uint64_t each_item(uint64_t a, uint64_t b, uint64_t c) {
	LOOK();
	return result((int32_t)((a ^ a >> 32) * 3 + (b ^ b >> 32) * 5 - (c ^ c >> 32) * 7));
}

// Cheap functions for the benchmarks.
static __thread uint64_t quick_current;
static __thread int quick_mode;

int quick_exchange(int *mode) {
	int m = quick_mode;
	quick_mode = *mode;
	*mode = m;
	return 0;
}

int quick_push(uint64_t ctx) {
	quick_current = ctx;
	return 0;
}

int quick_pop(uint64_t *ctx) {
	*ctx = quick_current;
	quick_current = 0;
	return 0;
}

// ---- The state of a thread: a stack of contexts and a mode.

// Contexts and modes for which steps fail, and their errors.
enum {
	CTX_PUSH_FAILS = 66,
	CTX_POP_FAILS = 67,
	MODE_EXCHANGE_FAILS = 76,
	MODE_RESTORE_FAILS = 77,

	ERR_EXCHANGE = 901,
	ERR_PUSH = 902,
	ERR_POP = 903,
	ERR_CREATE = 904,
	ERR_RESTORE = 905,
	ERR_EMPTY = 201,
};

struct state {
	uint64_t tid;
	uint64_t stack[16];
	int depth, mode;
	int restore_fails;
	int ntrace;
	char trace[40]; // a letter for each step, a capital if it failed
	struct state *next;
};

// States are never freed, so that audit can read those of ended threads.
static struct state *all;
static __thread struct state *mine;

static struct state *state(void) {
	if (mine == NULL) {
		mine = calloc(1, sizeof *mine);
		mine->tid = gettid();
		mine->next = __atomic_load_n(&all, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&all, &mine->next, mine, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
	}
	return mine;
}

static uint64_t step(struct state *s, char letter, int err) {
	if (s->ntrace < (int)sizeof s->trace)
		s->trace[s->ntrace++] = err == 0 ? letter : (char)(letter - 'a' + 'A');
	return result(err);
}

uint64_t state_exchange(int *mode) {
	struct state *s = state();
	LOOK();
	if (*mode == MODE_EXCHANGE_FAILS)
		return step(s, 'x', ERR_EXCHANGE);
	if (s->restore_fails)
		return step(s, 'x', ERR_RESTORE);
	s->restore_fails = *mode == MODE_RESTORE_FAILS;
	int m = s->mode;
	s->mode = *mode;
	*mode = m;
	return step(s, 'x', 0);
}

static int enter(struct state *s, uint64_t ctx) {
	if (s->depth == 16)
		return ERR_PUSH;
	s->stack[s->depth++] = ctx;
	return 0;
}

uint64_t state_push(uint64_t ctx) {
	struct state *s = state();
	LOOK();
	return step(s, 'p', ctx == CTX_PUSH_FAILS ? ERR_PUSH : enter(s, ctx));
}

uint64_t state_pop(uint64_t *ctx) {
	struct state *s = state();
	LOOK();
	if (s->depth == 0)
		return step(s, 'o', ERR_EMPTY);
	if (s->stack[s->depth - 1] == CTX_POP_FAILS)
		return step(s, 'o', ERR_POP);
	*ctx = s->stack[--s->depth];
	return step(s, 'o', 0);
}

// state_create makes ctx current and stores it, or fails if ctx is zero.
uint64_t state_create(uint64_t *out, uint64_t ctx) {
	struct state *s = state();
	LOOK();
	if (ctx == 0)
		return step(s, 'c', ERR_CREATE);
	*out = ctx;
	return step(s, 'c', enter(s, ctx));
}

struct view { uint64_t tid, depth, top, mode; };

// state_view is the call inside a scope: it stores the thread's state and returns err. Its third
// argument is its duration.
uint64_t state_view(struct view *out, int32_t err, uint32_t us) {
	struct state *s = state();
	LOOK();
	if (us != 0)
		usleep(us);
	out->tid = s->tid;
	out->depth = (uint64_t)s->depth;
	out->top = s->depth ? s->stack[s->depth - 1] : 0;
	out->mode = (uint64_t)(int64_t)s->mode;
	return step(s, 'c', err);
}

// state_view14 is state_view with the same arguments at both ends of fourteen.
uint64_t state_view14(struct view *out, int32_t err, uint32_t us, W(d), W(e), W(f), W(g), W(h), W(i),
	W(j), W(k), uint32_t us2, int32_t err2, struct view *out2) {
	LOOK();
	if (out != out2 || err != err2 || us != us2)
		return step(state(), 'c', 999);
	return state_view(out, err, us);
}

// state_item is the call inside a scope for Each: it fails if it is not called
// with ctx as the current context.
uint64_t state_item(uint64_t ctx, int32_t err) {
	struct state *s = state();
	LOOK();
	if (s->depth == 0 || s->stack[s->depth - 1] != ctx)
		return step(s, 'c', 999);
	return step(s, 'c', err);
}

// state_set sets the state of the thread. If base is zero, the stack is empty.
uint64_t state_set(uint64_t base, int32_t mode) {
	struct state *s = state();
	s->depth = 0;
	if (base != 0)
		enter(s, base);
	s->mode = mode;
	s->restore_fails = 0;
	s->ntrace = 0;
	memset(s->trace, 0, sizeof s->trace);
	return result(0);
}

struct full { struct view view; char trace[40]; };

// state_read stores the state of the thread and its trace, and records nothing.
uint64_t state_read(struct full *out) {
	struct state *s = state();
	state_view(&out->view, 0, 0);
	s->ntrace--;
	if (s->ntrace < (int)sizeof s->trace)
		s->trace[s->ntrace] = 0;
	memcpy(out->trace, s->trace, sizeof s->trace);
	return result(0);
}

// audit stores how many threads have a state, and how many of them are not in their first state.
uint64_t state_audit(uint64_t *threads, uint64_t *changed) {
	*threads = *changed = 0;
	for (struct state *s = __atomic_load_n(&all, __ATOMIC_ACQUIRE); s != NULL; s = s->next) {
		++*threads;
		*changed += s->depth != 0 || s->mode != 0 || s->restore_fails;
	}
	return result(0);
}

uint64_t thread_id(uint64_t *out) {
	*out = gettid();
	return result(0);
}

// ---- Effects of C code on the process.

// The text of an environment variable: 1 if it is want, 0 if it is another, 2 if the
// variable is not set.
uint64_t env_is(const char *name, const char *want) {
	const char *v = getenv(name);
	return v == NULL ? 2 : strcmp(v, want) == 0;
}

uint64_t crash(void) {
	*(volatile int *)8 = 1;
	return 0;
}

#ifndef _WIN32

uint64_t give_up(void) { abort(); }

// who returns the effective user and group of the thread that the call is made on.
uint64_t who(void) { return (uint64_t)syscall(SYS_geteuid) << 32 | (uint64_t)syscall(SYS_getegid); }

static void *cancelled(void *p) {
	for (;;)
		pause();
	return p;
}

// cancel creates and cancels a thread.
uint64_t cancel(void) {
	pthread_t t;
	void *how = NULL;
	if (pthread_create(&t, NULL, cancelled, NULL) != 0 || pthread_cancel(t) != 0 || pthread_join(t, &how) != 0)
		return result(1);
	return result(how != PTHREAD_CANCELED);
}

static void *report_mask(void *to) {
	sigset_t set;
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	for (int sig = 1; sig < 64; sig++)
		if (sigismember(&set, sig) == 1)
			*(uint64_t *)to |= 1ull << (sig - 1);
	return NULL;
}

// thread_mask stores the signal masks of a new thread, and of its creator afterwards. glibc does
// not report its own signals 32 and 33.
uint64_t thread_mask(uint64_t *thread, uint64_t *maker) {
	pthread_t t;
	*thread = *maker = 0;
	if (pthread_create(&t, NULL, report_mask, thread) != 0 || pthread_join(t, NULL) != 0)
		return result(1);
	report_mask(maker);
	return result(0);
}

// A thread that blocks no signals, and waits for a command: 1 to crash, 2 to abort, 3 to end.
static int thread_command;
static uint64_t thread_number;
static pthread_t commanded_thread;
static void *run_commands(void *p) {
	sigset_t none;
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	__atomic_store_n(&thread_number, (uint64_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	for (;;) {
		switch (__atomic_load_n(&thread_command, __ATOMIC_SEQ_CST)) {
		case 1:
			crash();
		case 2:
			abort();
		case 3:
			return p;
		}
		usleep(1000);
	}
}

// thread_start starts the thread and returns its number. thread_do sends it a command, and after 3
// waits for its end.
uint64_t thread_start(void) {
	thread_command = thread_number = 0;
	if (pthread_create(&commanded_thread, NULL, run_commands, NULL) != 0)
		return 0;
	while (__atomic_load_n(&thread_number, __ATOMIC_SEQ_CST) == 0)
		usleep(1000);
	return thread_number;
}

uint64_t thread_do(int32_t what) {
	__atomic_store_n(&thread_command, what, __ATOMIC_SEQ_CST);
	return result(pthread_join(commanded_thread, NULL));
}

// keep_mask changes the signal mask of this thread and restores it, as C code does, after some
// time.
uint64_t keep_mask(uint32_t us) {
	sigset_t some, old;
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &some, &old);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	usleep(us);
	return result(0);
}

// child_ended starts a process that blocks no signals and waits, sends it a signal, and returns the
// signal that has ended it.
uint64_t child_ended(int32_t sig) {
	int ws = 0;
	pid_t pid = fork();
	if (pid == 0) {
		sigset_t none;
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		for (int i = 0; i < 10000; i++)
			usleep(1000);
		_exit(7);
	}
	if (pid < 0)
		return result(-1);
	usleep(10000);
	if (kill(pid, sig) != 0 || waitpid(pid, &ws, 0) != pid || !WIFSIGNALED(ws))
		return result(-2);
	return result(WTERMSIG(ws));
}

// at_thread_end registers a destructor of this thread, which unblocks all signals, and sends one to
// the thread. thread_ends counts the calls of the destructor.
static pthread_key_t words_key;
static pthread_once_t words_once = PTHREAD_ONCE_INIT;
static int ends_count;
static void say(void *p) {
	sigset_t none;
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
	raise(*(int *)p);
	__atomic_add_fetch(&ends_count, 1, __ATOMIC_SEQ_CST);
}
static void words_begin(void) { pthread_key_create(&words_key, say); }
uint64_t at_thread_end(int32_t sig) {
	static int sigs[65];
	sigs[sig] = sig;
	pthread_once(&words_once, words_begin);
	return result(pthread_setspecific(words_key, &sigs[sig]));
}
uint64_t thread_ends(void) { return result(__atomic_load_n(&ends_count, __ATOMIC_SEQ_CST)); }

// handle installs a signal handler, as a library may.
static void handler(int sig) { (void)sig; }
uint64_t handle_signal(int32_t sig) { return result(signal(sig, handler) == SIG_ERR); }
uint64_t default_signal(int32_t sig) { return result(signal(sig, SIG_DFL) == SIG_ERR); }

// act_on_signal calls sigaction to install a handler, or to ignore the signal.
uint64_t act_on_signal(int32_t sig, int32_t ignore)
{
	struct sigaction action = {.sa_handler = ignore ? SIG_IGN : handler}, before;
	return result(sigaction(sig, &action, &before) || before.sa_handler == SIG_ERR);
}

// child starts a process that ends with a status, and returns the status.
uint64_t child(int32_t status) {
	pid_t pid = fork();
	int ws = 0;
	if (pid == 0)
		_exit(status);
	if (pid < 0 || waitpid(pid, &ws, 0) != pid || !WIFEXITED(ws))
		return result(-1);
	return result(WEXITSTATUS(ws));
}
#endif

// ---- Registers.

// uint64_t call_saved(void (*thunk)(void *), void *frame) calls thunk(frame) with a different value
// in every register that a function has to preserve, and returns a bit for each register that was
// not preserved.
//
// uint64_t clobber(int32_t v) returns v + 1 and leaves garbage in every register
// that a function need not preserve; clobber14 also in its stack arguments.

#if defined _WIN32 // no thunk is tested here, and the stack has four words for the callee above the return address
__asm__(
	".text\n"
	".globl clobber, clobber14\n"
	"clobber14:\n"
	"	mov $0x7e7e7e7e, %eax\n"
	"	mov %rax, 40(%rsp)\n"
	"	mov %rax, 48(%rsp)\n"
	"	mov %rax, 56(%rsp)\n"
	"	mov %rax, 64(%rsp)\n"
	"	mov %rax, 72(%rsp)\n"
	"	mov %rax, 80(%rsp)\n"
	"	mov %rax, 88(%rsp)\n"
	"	mov %rax, 96(%rsp)\n"
	"	mov %rax, 104(%rsp)\n"
	"	mov %rax, 112(%rsp)\n"
	// Goes on in clobber.
	"clobber:\n"
	"	movabs $0x7e7e7e7e00000000, %rdx\n"
	"	lea 1(%rcx), %eax\n"
	"	or %rdx, %rax\n"
	"	mov %rdx, 8(%rsp)\n"
	"	mov %rdx, 16(%rsp)\n"
	"	mov %rdx, 24(%rsp)\n"
	"	mov %rdx, 32(%rsp)\n"
	"	mov %rdx, %rcx\n"
	"	mov %rdx, %r8\n"
	"	mov %rdx, %r9\n"
	"	mov %rdx, %r10\n"
	"	mov %rdx, %r11\n"
	"	movq %rdx, %xmm0\n"
	"	movq %rdx, %xmm1\n"
	"	movq %rdx, %xmm5\n"
	"	ret\n");
#elif defined __x86_64__
__asm__(
	".text\n"
	".globl call_saved, clobber, clobber14\n"
	".type call_saved, @function\n"
	".type clobber, @function\n"
	".type clobber14, @function\n"
	"call_saved:\n"
	"	push %rbx\n"
	"	push %rbp\n"
	"	push %r12\n"
	"	push %r13\n"
	"	push %r14\n"
	"	push %r15\n"
	"	sub $8, %rsp\n"
	"	mov %rdi, %rax\n"
	"	mov %rsi, %rdi\n"
	"	mov $0x1b1b1b1b, %rbx\n"
	"	mov $0x1c1c1c1c, %rbp\n"
	"	mov $0x1d1d1d1d, %r12\n"
	"	mov $0x1e1e1e1e, %r13\n"
	"	mov $0x1f1f1f1f, %r14\n"
	"	mov $0x2a2a2a2a, %r15\n"
	"	call *%rax\n"
	"	xor %eax, %eax\n"
	"	cmp $0x1b1b1b1b, %rbx\n	je 1f\n	or $1, %eax\n1:\n"
	"	cmp $0x1c1c1c1c, %rbp\n	je 1f\n	or $2, %eax\n1:\n"
	"	cmp $0x1d1d1d1d, %r12\n	je 1f\n	or $4, %eax\n1:\n"
	"	cmp $0x1e1e1e1e, %r13\n	je 1f\n	or $8, %eax\n1:\n"
	"	cmp $0x1f1f1f1f, %r14\n	je 1f\n	or $16, %eax\n1:\n"
	"	cmp $0x2a2a2a2a, %r15\n	je 1f\n	or $32, %eax\n1:\n"
	"	add $8, %rsp\n"
	"	pop %r15\n"
	"	pop %r14\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbp\n"
	"	pop %rbx\n"
	"	ret\n"
	".size call_saved, .-call_saved\n"

	"clobber14:\n"
	"	mov $0x7e7e7e7e, %eax\n"
	"	mov %rax, 8(%rsp)\n"
	"	mov %rax, 16(%rsp)\n"
	"	mov %rax, 24(%rsp)\n"
	"	mov %rax, 32(%rsp)\n"
	"	mov %rax, 40(%rsp)\n"
	"	mov %rax, 48(%rsp)\n"
	"	mov %rax, 56(%rsp)\n"
	"	mov %rax, 64(%rsp)\n"
	".size clobber14, .-clobber14\n"
	// Goes on in clobber.
	"clobber:\n"
	"	movabs $0x7e7e7e7e00000000, %rcx\n"
	"	lea 1(%rdi), %eax\n"
	"	or %rcx, %rax\n"
	"	mov %rcx, %rdx\n"
	"	mov %rcx, %rsi\n"
	"	mov %rcx, %rdi\n"
	"	mov %rcx, %r8\n"
	"	mov %rcx, %r9\n"
	"	mov %rcx, %r10\n"
	"	mov %rcx, %r11\n"
	"	movq %rcx, %xmm0\n"
	"	movq %rcx, %xmm1\n"
	"	movq %rcx, %xmm7\n"
	"	movq %rcx, %xmm15\n"
	"	ret\n"
	".size clobber, .-clobber\n");
#elif defined __aarch64__
#define SET(n) "	mov x" #n ", #0x1" #n "\n"
#define CHECK(n, bit) "	cmp x" #n ", #0x1" #n "\n	b.eq 1f\n	orr x0, x0, #(1 << " #bit ")\n1:\n"
#define JUNK(n) "	mov x" #n ", x17\n"
__asm__(
	".text\n"
	".globl call_saved, clobber, clobber14\n"
	".type call_saved, %function\n"
	".type clobber, %function\n"
	".type clobber14, %function\n"
	"call_saved:\n"
	"	stp x29, x30, [sp, #-96]!\n"
	"	stp x19, x20, [sp, #16]\n"
	"	stp x21, x22, [sp, #32]\n"
	"	stp x23, x24, [sp, #48]\n"
	"	stp x25, x26, [sp, #64]\n"
	"	stp x27, x28, [sp, #80]\n"
	"	mov x9, x0\n"
	"	mov x0, x1\n"
	SET(19) SET(20) SET(21) SET(22) SET(23) SET(24) SET(25) SET(26) SET(27) SET(28) SET(29)
	"	blr x9\n"
	"	mov x0, #0\n"
	CHECK(19, 0) CHECK(20, 1) CHECK(21, 2) CHECK(22, 3) CHECK(23, 4) CHECK(24, 5)
	CHECK(25, 6) CHECK(26, 7) CHECK(27, 8) CHECK(28, 9) CHECK(29, 10)
	"	ldp x19, x20, [sp, #16]\n"
	"	ldp x21, x22, [sp, #32]\n"
	"	ldp x23, x24, [sp, #48]\n"
	"	ldp x25, x26, [sp, #64]\n"
	"	ldp x27, x28, [sp, #80]\n"
	"	ldp x29, x30, [sp], #96\n"
	"	ret\n"
	".size call_saved, .-call_saved\n"

	"clobber14:\n"
	"	mov x17, #0x7e7e\n"
	"	stp x17, x17, [sp]\n"
	"	stp x17, x17, [sp, #16]\n"
	"	stp x17, x17, [sp, #32]\n"
	".size clobber14, .-clobber14\n"
	// Goes on in clobber.
	"clobber:\n"
	"	mov x17, #0x7e7e\n"
	"	lsl x17, x17, #32\n"
	"	add w0, w0, #1\n"
	"	orr x0, x0, x17\n"
	JUNK(1) JUNK(2) JUNK(3) JUNK(4) JUNK(5) JUNK(6) JUNK(7) JUNK(8) JUNK(9) JUNK(10)
	JUNK(11) JUNK(12) JUNK(13) JUNK(14) JUNK(15) JUNK(16)
	"	ret\n"
	".size clobber, .-clobber\n");
#endif
