// A driver that knows one function, in two versions, the way NVIDIA's does.
#include <string.h>
int cuInit(unsigned f) { return f; }
int cuDriverGetVersion(int *v) { *v = 12030; return 0; }
int cuThing(void) { return 1; }
int cuThing_v2(void) { return 2; }
int cuThing_v2_ptsz(void) { return 3; }
int cuGetProcAddress_v2(const char *name, void **p, int version, unsigned long long flags, int *status) {
	*p = 0;
	*status = 1;
	if (version == 666) return 999;
	if (strcmp(name, "cuThing")) return 0;
	*status = 2;
	if (version < 2000) return 0;
	*status = 0;
	*p = version < 12000 ? (void *)cuThing : flags == 2 ? (void *)cuThing_v2_ptsz : (void *)cuThing_v2;
	return 0;
}
