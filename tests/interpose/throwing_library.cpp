#include <stdexcept>

extern "C" __attribute__((visibility("default"))) int caught() {
  try {
    throw std::runtime_error("caught");
  } catch (const std::exception&) {
    return 0;
  }
  return 1;
}
