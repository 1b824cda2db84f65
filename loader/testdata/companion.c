// NVML, NVRTC and NVENC in one library, with a function of each.
#include <string.h>
static unsigned initialised;
int nvmlInit_v2(void) { return initialised++, 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { return initialised ? (*n = 2, 0) : 1; }
const char *nvmlErrorString(int status) { return status == 1 ? "Uninitialized" : 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned n) { return n < 10 ? 7 : (strcpy(text, "580.95.05"), 0); }
int nvrtcCompileProgram(void *program, int n, const char *const *options) { return program ? n : 3; }
int NvEncodeAPICreateInstance(void *list) { return list ? 0 : 6; }
