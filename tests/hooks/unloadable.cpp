// A library that makes an object, and can be unloaded.
#include <memory>

namespace {
struct Made : std::enable_shared_from_this<Made> {
  int number = 7;
};
}  // namespace

extern "C" void make_number(std::shared_ptr<int>& made) {
  const std::shared_ptr<Made> whole(new Made);
  made = {whole, &whole->number};
}
