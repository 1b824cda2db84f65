// A library that lacks what it calls, which comes out when it is loaded.
int not_there(void);
int cuInit(unsigned f) { return not_there(); }
int cuDriverGetVersion(int *v) { return not_there(); }
