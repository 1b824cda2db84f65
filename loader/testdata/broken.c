// A driver that cannot say its version.
int cuInit(unsigned f) { return 0; }
int cuDriverGetVersion(int *v) { return 999; }
