/* Clears the list of preloaded libraries, as heap profilers do. */
#include <stdlib.h>

__attribute__((constructor)) static void forget(void) { unsetenv("LD_PRELOAD"); }
