// A library without cuDriverGetVersion.
int cuInit(unsigned f) { return 0; }
