// An NVRTC for tests, which compiles everything to the same PTX.
//
// Build: cc -shared -fPIC -o libfakenvrtc.so fakenvrtc.c
#include <string.h>

static const char ptx[] =
	".version 6.0\n.target sm_50\n.address_size 64\n"
	".visible .entry add_f32(.param .u64 sum, .param .u64 x, .param .u64 y, .param .u32 n)\n{\n"
	"\t.reg .u64 to, a, b; .reg .u32 i, block, size, most; .reg .f32 u, v; .reg .pred out;\n"
	"\tmov.u32 i, %tid.x; mov.u32 block, %ctaid.x; mov.u32 size, %ntid.x; mad.lo.u32 i, block, size, i;\n"
	"\tld.param.u32 most, [n]; setp.ge.u32 out, i, most; @out ret;\n"
	"\tld.param.u64 to, [sum]; mad.wide.u32 to, i, 4, to;\n"
	"\tld.param.u64 a, [x]; mad.wide.u32 a, i, 4, a; ld.global.f32 u, [a];\n"
	"\tld.param.u64 b, [y]; mad.wide.u32 b, i, 4, b; ld.global.f32 v, [b];\n"
	"\tadd.f32 u, u, v; st.global.f32 [to], u;\n\tret;\n}\n";
static const char complaint[] = "add.cu(1): error: expected a declaration\n";
static struct { int wrong; } program;
enum { OK, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6 };

int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, OK; }
const char *nvrtcGetErrorString(int status) {
	return status == COMPILATION ? "NVRTC_ERROR_COMPILATION" : status == INVALID_OPTION ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR unknown";
}
int nvrtcCreateProgram(void **p, const char *source, const char *name, int n, const char *const *headers,
	const char *const *names) {
	if (!source || !name || n || headers || names) return INVALID_INPUT;
	return program.wrong = !strstr(source, "__global__"), *p = &program, OK;
}
int nvrtcDestroyProgram(void **p) { return *p == &program ? *p = 0, OK : INVALID_PROGRAM; }
int nvrtcCompileProgram(void *p, int n, const char *const *options) {
	if (p != &program) return INVALID_PROGRAM;
	if (n != 2 || strncmp(options[0], "--gpu-architecture=compute_", 27) ||
		strcmp(options[1], "--std=c++17")) return INVALID_OPTION;
	return program.wrong ? COMPILATION : OK;
}
int nvrtcGetPTXSize(void *p, unsigned long *n) { return p == &program ? *n = sizeof ptx, OK : INVALID_PROGRAM; }
int nvrtcGetPTX(void *p, char *to) { return p == &program ? memcpy(to, ptx, sizeof ptx), OK : INVALID_PROGRAM; }
int nvrtcGetProgramLogSize(void *p, unsigned long *n) { return p == &program ? *n = sizeof complaint,
	OK : INVALID_PROGRAM; }
int nvrtcGetProgramLog(void *p, char *to) { return p == &program ? memcpy(to, complaint, sizeof complaint),
	OK : INVALID_PROGRAM; }
