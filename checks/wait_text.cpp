#include "checks/wait_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>

#include "checks/finding_text.h"
#include "checks/site_text.h"
#include "model/fact_keys.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxTold = 3;

struct Kind {
  WaitIn function;
  std::string_view name;
  std::string_view text;
  std::string_view fix;
};
constexpr std::string_view kSynchronizeLess =
    "synchronize only where time is measured: an operator needs no wait for the one before it";
constexpr std::array<Kind, 7> kKinds = {{
    {WaitIn::kItem, "aten::item", "reads of a number (item)",
     "read the loss each 100 steps, and sum it up on the device until then: sum += loss.detach()"},
    {WaitIn::kNonzero, "aten::nonzero", "boolean indexing or nonzero",
     "torch::where instead of boolean indexing: its result has the shape of its arguments"},
    {WaitIn::kMaskedSelect, "aten::masked_select", "masked_select",
     "torch::where instead of masked_select: its result has the shape of its arguments"},
    {WaitIn::kCopy, "aten::copy_", "copies to the host",
     "copy to pinned memory with non_blocking, and look at it a step later"},
    {WaitIn::kStream, "c10::cuda::CUDAStream::synchronize", "synchronize() of a stream",
     kSynchronizeLess},
    {WaitIn::kDevice, "c10::cuda::device_synchronize", "synchronize() of the device",
     kSynchronizeLess},
    {WaitIn::kWork, "c10d::Work::wait", "waits for other ranks",
     "start the collectives of all tensors, then wait for them"},
}};
static_assert(kKinds.size() == static_cast<std::size_t>(WaitIn::kWork) + 1);

const Kind& wait_kind(WaitIn function) {
  return *std::ranges::find(kKinds, function, &Kind::function);
}

/// `bn*` of bn1 and bn2; "" where they have nothing in common, or one is not known.
std::string common_name(const std::vector<std::string>& paths) {
  std::string common = paths.front();
  for (const std::string& path : paths) {
    common.resize(
        static_cast<std::size_t>(std::ranges::mismatch(common, path).in1 - common.begin()));
  }
  const bool is_one = std::ranges::all_of(paths, [&](auto& path) { return path == common; });
  return is_one || common.empty() ? common : common + "*";
}

std::string path_of(const DeviceWait& wait, const RunState& state) {
  const ModulePlace* place = state.place_of(wait.module);
  return place == nullptr ? "" : place->path;
}

std::string modules_of(WaitIn function, const std::vector<DeviceWait>& waits,
                       const RunState& state) {
  std::vector<std::string> paths;
  for (const DeviceWait& wait : waits) {
    if (wait.function == function) paths.push_back(path_of(wait, state));
  }
  return common_name(paths);
}

}  // namespace

void tell_kinds(const std::vector<DeviceWait>& waits, const RunState& state, Finding& finding) {
  std::vector<DeviceWait> kinds;
  for (const DeviceWait& wait : waits) {
    const auto known = std::ranges::find(kinds, wait.function, &DeviceWait::function);
    if (known == kinds.end()) {
      kinds.push_back(wait);
    } else {
      known->count += wait.count;
    }
  }
  std::ranges::stable_sort(kinds, std::ranges::greater(), &DeviceWait::count);
  if (kinds.size() > kMaxTold) kinds.resize(kMaxTold);
  std::vector<std::string> texts;
  for (const DeviceWait& kind : kinds) {
    texts.push_back(fmt::format("{} x{}", wait_kind(kind.function).name, kind.count));
    const Fix fix{std::string(wait_kind(kind.function).fix), Applicability::kLikely};
    if (std::ranges::find(finding.fixes, fix.text, &Fix::text) == finding.fixes.end()) {
      finding.fixes.push_back(fix);
    }
  }
  finding.facts.push_back({fact::kTopOps, as_fact(texts)});
  const DeviceWait& top = kinds.front();
  if (top.count == 1) return;
  const std::string where = modules_of(top.function, waits, state);
  finding.what += fmt::format("; {} are {}{}", top.count, wait_kind(top.function).text,
                              where.empty() ? "" : " in " + where);
}

void tell_sites(std::vector<DeviceWait> waits, const RunState& state, Finding& finding) {
  std::ranges::stable_sort(waits, std::ranges::greater(), &DeviceWait::count);
  if (waits.size() > kMaxTold) waits.resize(kMaxTold);
  std::vector<std::string> sites;
  for (const DeviceWait& wait : waits) {
    const std::string line = add_site("called", wait.stack, state, finding);
    const std::string site = line.empty() ? path_of(wait, state) : line;
    if (!site.empty()) sites.push_back(fmt::format("{} x{}", site, wait.count));
  }
  finding.facts.push_back({fact::kTopSites, as_fact(sites)});
}

}  // namespace ddpscope
