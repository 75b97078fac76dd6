#include "ops/communicator/named.h"

#include <mutex>

namespace ddpscope {
namespace communicator {
namespace {
struct Kept {
  const void* object = nullptr;
  CommunicatorPtr communicator;
};

// Never destroyed: groups may outlive all that a process destroys at its end.
struct Names {
  std::mutex mutex;
  std::map<std::string, CommunicatorPtr> given;
  std::map<std::string, Kept> kept;
};

Names& names() {
  static auto* const leaked = new Names;
  return *leaked;
}
}  // namespace

CommunicatorPtr registered(const std::string& name) {
  const std::lock_guard lock(names().mutex);
  const auto found = names().given.find(name);
  return found == names().given.end() ? nullptr : found->second;
}

CommunicatorPtr kept_for(const std::string& name, const void* object,
                         const std::function<CommunicatorPtr()>& make) {
  const std::lock_guard lock(names().mutex);
  Kept& kept = names().kept[name];
  if (kept.object != object || !kept.communicator) kept = {object, make()};
  return kept.communicator;
}

}  // namespace communicator

inline namespace api0 {

void register_communicator(const std::string& name, const CommunicatorPtr& communicator) {
  TORCH_CHECK(!name.empty(), "register_communicator: the name is empty");
  const std::lock_guard lock(communicator::names().mutex);
  if (communicator) {
    communicator::names().given[name] = communicator;
  } else {
    communicator::names().given.erase(name);
  }
}

}  // namespace api0
}  // namespace ddpscope
