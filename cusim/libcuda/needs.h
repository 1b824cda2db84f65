// What the Go runtime needs from the process: see needs.c.
#include <stdint.h>

// cusim_processors returns for how many processors there are threads.
int cusim_processors(void);

// cusim_release closes the descriptors that are held for the Go runtime.
void cusim_release(void);

// cusim_host_begin reports whether there is a thread for one more host function, which is counted until
// cusim_host_end.
int cusim_host_begin(void);
void cusim_host_end(void);

// cusim_room reports whether the process may have n more bytes of memory, as far as its limits say.
int cusim_room(uint64_t n);
