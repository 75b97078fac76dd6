// Weak pointers to what a library made that is unloaded before they are dropped.
#include "hooks/weak_owner.h"

#include <dlfcn.h>

#include <optional>

#include "tests/support/catch.h"

namespace ddpscope::test::weak_owner_test {
namespace {
class Library {
 public:
  Library() : handle_(dlopen(DDPSCOPE_UNLOADABLE, RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE(handle_ != nullptr);
  }
  std::shared_ptr<int> make() const {
    using Make = void (*)(std::shared_ptr<int>&);
    std::shared_ptr<int> made;
    reinterpret_cast<Make>(dlsym(handle_, "make_number"))(made);
    return made;
  }
  void unload() {
    REQUIRE(dlclose(handle_) == 0);
    REQUIRE(dlopen(DDPSCOPE_UNLOADABLE, RTLD_NOW | RTLD_NOLOAD) == nullptr);
  }

 private:
  void* handle_;
};
}  // namespace

TEST_CASE("A weak owner outlives the library that made the object", "[hooks]") {
  Library library;
  std::optional<WeakOwner<int>> weak(library.make());
  std::optional<WeakOwner<int>> copy = weak;
  CHECK(weak->expired());
  library.unload();
  weak.reset();
  *copy = WeakOwner<int>();
  copy.reset();
}

TEST_CASE("A weak owner is a weak pointer", "[hooks]") {
  WeakOwner<int> weak;
  CHECK(weak.expired());
  CHECK(weak.lock() == nullptr);
  auto number = std::make_shared<int>(3);
  weak = number;
  WeakOwner<int> copy = weak;
  const WeakOwner<int> moved = std::move(copy);
  CHECK(*moved.lock() == 3);
  CHECK(number.use_count() == 1);
  number.reset();
  CHECK(weak.expired());
  CHECK(moved.lock() == nullptr);
}

TEST_CASE("A weak owner ends before the library", "[hooks]") {
  Library library;
  for (int i = 0; i < 3; ++i) {
    const std::shared_ptr<int> made = library.make();
    const WeakOwner<int> weak(made);
    CHECK(*weak.lock() == 7);
  }
  library.unload();
}

}  // namespace ddpscope::test::weak_owner_test
