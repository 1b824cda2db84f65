#include <dlfcn.h>
#include <stdio.h>

/* prints the names of all GPUs */
int main(void) {
	void *lib = dlopen("libcuda.so", RTLD_NOW);
	if (!lib) { puts(dlerror()); return 1; }
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(lib, "cuInit");
	int (*count)(int *) = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
	int (*name)(char *, int, int) = (int (*)(char *, int, int))dlsym(lib, "cuDeviceGetName");
	int n = 0;
	char text[100];
	if (init(0) || count(&n)) return 2;
	for (int i = 0; i < n; i++) {
		if (name(text, sizeof text, i)) return 3;
		puts(text);
	}
	return 0;
}
