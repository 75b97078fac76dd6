/* Stands before LibTorch's zero_grad, as the libraries of other tools do, and passes calls on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

int other_tool_calls = 0;

void _ZN5torch5optim9Optimizer9zero_gradEb(void* self, bool set_to_none) {
  static void (*next)(void*, bool) = NULL;
  if (next == NULL) {
    *(void**)&next = dlsym(RTLD_NEXT, "_ZN5torch5optim9Optimizer9zero_gradEb");
  }
  ++other_tool_calls;
  next(self, set_to_none);
}
