// A driver from before cuGetProcAddress.
int cuInit(unsigned f) { return f; }
int cuDriverGetVersion(int *v) { *v = 11000; return 0; }
