// Runs a program, and says where a thread of it is when a signal such as SIGSEGV ends it: which library, at which
// offset, and what its stack looks like in terms of libraries. A static program has no handler that could say so for
// a fault in C code.
//
//	gcc -O1 -o crash tests/gpu/crash.c
//	./crash PROGRAM [ARGUMENT...]
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static char maps[1 << 20];

// place prints in which mapping with a name and code an address is. It reports whether there is one.
static int place(unsigned long at, const char *before) {
	for (char *line = maps; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		unsigned long begin, end, offset;
		char rights[5], name[300] = "";
		if (sscanf(line, "%lx-%lx %4s %lx %*s %*s %299[^\n]", &begin, &end, rights, &offset, name) < 4)
			continue;
		if (at >= begin && at < end && rights[2] == 'x') {
			char *base = strrchr(name, '/');
			fprintf(stderr, "%s%#lx %s+%#lx\n", before, at, *name ? (base ? base + 1 : name) : "?",
				at - begin + offset);
			return 1;
		}
	}
	return 0;
}

static void report(pid_t pid, pid_t thread, int sig) {
	char path[40];
	siginfo_t info = {0};
	ptrace(PTRACE_GETSIGINFO, thread, NULL, &info);
	fprintf(stderr, "crash: %s of thread %d, at address %p\n", strsignal(sig), thread, info.si_addr);
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	FILE *f = fopen(path, "r");
	if (f) {
		maps[fread(maps, 1, sizeof maps - 1, f)] = 0;
		fclose(f);
	}
#ifdef __x86_64__
	struct user_regs_struct regs;
	ptrace(PTRACE_GETREGS, thread, NULL, &regs);
	if (!place(regs.rip, "  at "))
		fprintf(stderr, "  at %#llx\n", regs.rip);
	static unsigned long stack[4096];
	struct iovec here = {stack, sizeof stack}, there = {(void *)(uintptr_t)regs.rsp, sizeof stack};
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
	for (size_t i = 0, shown = 0; n > 0 && i < (size_t)n / sizeof *stack && shown < 40; i++)
		shown += place(stack[i], "  on its stack ");
#endif
}

int main(int argc, char **argv) {
	if (argc < 2) {
		fprintf(stderr, "usage: crash PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	int status;
	waitpid(pid, &status, 0);
	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
	ptrace(PTRACE_CONT, pid, NULL, 0);
	for (;;) {
		pid_t thread = waitpid(-1, &status, __WALL);
		if (thread < 0)
			return errno == ECHILD ? 0 : 1;
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (thread != pid)
				continue;
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		}
		int sig = WSTOPSIG(status);
		if (sig == SIGTRAP || sig == SIGSTOP)
			sig = 0;
		if (sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE || sig == SIGABRT)
			report(pid, thread, sig);
		ptrace(PTRACE_CONT, thread, NULL, sig);
	}
}
