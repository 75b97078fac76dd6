#include "hooks/device_arrivals.h"

#include <algorithm>
#include <utility>

namespace ddpscope {

void DeviceArrivals::begin(std::uint64_t thread, int device) {
  end(thread);
  running_.push_back({.thread = thread, .device = device, .lists = {}});
}

DeviceArrivals::Backward* DeviceArrivals::owner_of(int device) {
  if (running_.size() == 1) return &running_.front();
  if (std::ranges::count(running_, device, &Backward::device) != 1) return nullptr;
  return &*std::ranges::find(running_, device, &Backward::device);
}

void DeviceArrivals::add(int device, const Arrival& arrival) {
  Backward* const owner = owner_of(device);
  if (owner == nullptr) return;
  auto list = std::ranges::find(owner->lists, device, &List::device);
  if (list == owner->lists.end()) {
    list = owner->lists.insert(list, {.device = device, .arrivals = {}});
  }
  if (list->arrivals.size() < kMax) list->arrivals.push_back(arrival);
}

std::vector<DeviceArrivals::List> DeviceArrivals::end(std::uint64_t thread) {
  const auto ended = std::ranges::find(running_, thread, &Backward::thread);
  if (ended == running_.end()) return {};
  std::vector<List> lists = std::move(ended->lists);
  running_.erase(ended);
  return lists;
}

}  // namespace ddpscope
