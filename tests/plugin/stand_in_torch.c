/* A library with a name like those of LibTorch, which calls NCCL. */
#include <stddef.h>

int ncclAllReduce(const void*, void*, size_t, int, int, void*, void*);
int ncclGroupStart(void);
int ncclGroupEnd(void);

__attribute__((visibility("default"))) int stand_in_torch_reduces(float* values, size_t count,
                                                                  void* comm) {
  ncclGroupStart();
  ncclAllReduce(values, values, count, 7, 0, comm, NULL);
  return ncclGroupEnd();
}
