// The kernels themselves, with the header beside this one in the place of the device's.
#include "ops/batch_norm/cuda/grad_input.cu"
#include "ops/batch_norm/cuda/normalize.cu"
#include "ops/batch_norm/cuda/reduce.cu"
#include "ops/batch_norm/cuda/stats.cu"
#include "ops/clip/cuda/join.cu"
#include "ops/clip/cuda/norm.cu"
#include "ops/clip/cuda/write.cu"
