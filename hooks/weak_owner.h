#pragma once

#include <link.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace ddpscope {

/// Whether it lies in a library that is loaded, or in the program. `dladdr` would search symbols,
/// of which LibTorch has hundreds of thousands.
inline bool is_in_library(const void* address) noexcept {
  const auto lies_in = [](dl_phdr_info* library, std::size_t, void* wanted) {
    const auto at = reinterpret_cast<std::uintptr_t>(wanted);
    for (int i = 0; i < library->dlpi_phnum; ++i) {
      const auto& part = library->dlpi_phdr[i];
      const std::uintptr_t begin = library->dlpi_addr + part.p_vaddr;
      if (part.p_type == PT_LOAD && at >= begin && at < begin + part.p_memsz) return 1;
    }
    return 0;
  };
  return dl_iterate_phdr(lies_in, const_cast<void*>(address)) != 0;
}

/// What `std::weak_ptr` is, of objects whose code may be unloaded after they have died: the last
/// weak pointer calls a function of the library that made the object, by a table that lies there.
/// Where that library is gone the pointer is left alone: one control block is never freed.
template <class T>
class WeakOwner {
 public:
  WeakOwner() = default;
  WeakOwner(std::weak_ptr<T> weak) : weak_(std::move(weak)), code_(Code::of(weak_)) {}  // NOLINT
  WeakOwner(const std::shared_ptr<T>& owner) : WeakOwner(std::weak_ptr<T>(owner)) {}    // NOLINT
  WeakOwner(const WeakOwner&) = default;
  WeakOwner(WeakOwner&&) noexcept = default;
  WeakOwner& operator=(WeakOwner other) noexcept {
    std::swap(weak_, other.weak_);
    std::swap(code_, other.code_);
    return *this;
  }
  ~WeakOwner() {
    if (code_.table == nullptr || !weak_.expired() || code_.is_loaded()) return;
    // Never destroyed.
    alignas(std::weak_ptr<T>) std::byte left[sizeof(std::weak_ptr<T>)];
    new (left) std::weak_ptr<T>(std::move(weak_));
  }

  std::shared_ptr<T> lock() const noexcept { return weak_.lock(); }
  bool expired() const noexcept { return weak_.expired(); }

 private:
  static constexpr std::size_t kDestroy = 3;  // of the table of std::_Sp_counted_base

  struct Code {
    void* const* table = nullptr;
    void* destroy = nullptr;

    /// Of a pointer to the object and to the block that counts its owners, of which the first word
    /// is the table.
    static Code of(const std::weak_ptr<T>& weak) noexcept {
      void* words[2] = {};
      static_assert(sizeof(weak) == sizeof words);
      std::memcpy(words, &weak, sizeof words);
      if (words[1] == nullptr || weak.expired()) return {};
      void* const* const table = *static_cast<void* const* const*>(words[1]);
      return {.table = table, .destroy = table[kDestroy]};
    }
    bool is_loaded() const noexcept {
      return is_in_library(table) && table[kDestroy] == destroy && is_in_library(destroy);
    }
  };

  std::weak_ptr<T> weak_;
  Code code_;
};

}  // namespace ddpscope
