// A library without cuInit.
int cuDriverGetVersion(int *v) { return 0; }
