// The toolkit's stub.
int cuInit(unsigned f) { return 34; }
int cuDriverGetVersion(int *v) { return 34; }
