// A program that is linked with LibTorch alone and opens the core, named by its argument, if any.
#include <dlfcn.h>
#include <torch/torch.h>

#include <cstdio>

namespace {
template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}
}  // namespace

int main(int argc, char** argv) {
  const at::Tensor weight = torch::ones({4, 2}, torch::requires_grad());
  const char* const names[] = {"weight"};
  const void* const tensors[] = {&weight};
  void* core = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (argc > 1 && core == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  if (core != nullptr) {
    auto* attach = find<int(const char* const*, const void* const*, std::size_t)>(
        core, "ddpscope_attach_tensors");
    if (attach == nullptr || attach(names, tensors, 1) != 0) return 4;
  }
  for (int i = 0; i < 4; ++i) {
    torch::randn({3, 4}).matmul(weight).square().mean().backward();
    const torch::NoGradGuard guard;
    weight.sub_(weight.grad() * 0.01);
    weight.mutable_grad().zero_();
    if (core != nullptr) find<void()>(core, "ddpscope_step")();
  }
  return core == nullptr ? 0 : static_cast<int>(find<std::int64_t()>(core, "ddpscope_flush")());
}
