#include "hooks/loader_watch.h"

#include <atomic>
#include <memory>
#include <new>
#include <string_view>
#include <thread>
#include <typeinfo>

#include "hooks/interposed.h"
#include "hooks/near_tls.h"

namespace ddpscope {
namespace {
using ThreadWork = std::thread::_State;
using WorkPointer = std::unique_ptr<ThreadWork>;

constinit std::atomic<std::int32_t> alive{0};
DDPSCOPE_NEAR constinit thread_local bool in_loader = false;

/// What a thread of a data loader does, counted while the thread has it.
class CountedWork final : public ThreadWork {
 public:
  explicit CountedWork(WorkPointer work) : work_(std::move(work)) { ++alive; }
  ~CountedWork() override { --alive; }
  CountedWork(const CountedWork&) = delete;
  CountedWork& operator=(const CountedWork&) = delete;
  void _M_run() override {
    in_loader = true;
    work_->_M_run();
  }

 private:
  WorkPointer work_;
};

// What `typeid` gives; null where the program was compiled without run-time types.
const std::type_info* type_of(const ThreadWork& work) {
  const void* const* const table = *reinterpret_cast<const void* const* const*>(&work);
  return static_cast<const std::type_info*>(table[-1]);
}

// The loaders are templates of LibTorch's headers: the name of what they start tells them.
bool is_of_loader(const ThreadWork& work) {
  const std::type_info* const type = type_of(work);
  return type != nullptr &&
         std::string_view(type->name()).find("5torch4data") != std::string_view::npos;
}

struct StartThread;
using InterposedStart = Interposed<StartThread, void(std::thread*, WorkPointer, void (*)())>;

void on_start_thread(std::thread* self, WorkPointer work, void (*depend)()) {
  if (work != nullptr && is_of_loader(*work)) {
    if (void* const memory = ::operator new(sizeof(CountedWork), std::nothrow)) {
      work.reset(::new (memory) CountedWork(std::move(work)));
    }
  }
  InterposedStart::original(self, std::move(work), depend);
}
}  // namespace

std::int32_t loader_threads() noexcept { return alive.load(std::memory_order_relaxed); }

bool is_loader_thread() noexcept { return in_loader; }

bool install_loader_watch() noexcept {
  static const bool live = InterposedStart::install(
      "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
      on_start_thread);
  return live;
}

}  // namespace ddpscope
