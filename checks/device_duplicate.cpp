#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checks/check.h"
#include "checks/finding_text.h"
#include "model/fact_keys.h"
#include "model/rank_words.h"

namespace ddpscope {
namespace {
using enum Applicability;
using RanksOnDevice = std::vector<const RankEnding*>;

Finding about_device(const RanksOnDevice& ranks) {
  const RankEnding& first = *ranks.front();
  std::vector<std::int64_t> numbers;
  for (const RankEnding* rank : ranks) numbers.push_back(rank->rank);
  const RankDevice& device = first.device;
  const bool is_masked = device.visible_count == 1 && !device.mask.empty();
  Finding finding;
  finding.severity = Severity::kError;
  finding.rank = first.rank;
  finding.ranks = numbers;
  finding.phase = Phase::kInit;
  finding.subject = device.uuid;
  finding.what =
      fmt::format("{} use the same device {} (index {} of {} visible on {})", rank_words(numbers),
                  device.uuid, device.index, device.visible_count, first.host);
  finding.why = is_masked ? device.mask + " shows each of these ranks this one device"
                          : "each of these ranks selects the device of this index";
  finding.fixes = {
      {"c10::cuda::set_device(local_rank) before the first CUDA call", kLikely},
      {"show each rank all devices, or another one: unset or change CUDA_VISIBLE_DEVICES",
       kLikely}};
  if (is_masked) std::swap(finding.fixes.front(), finding.fixes.back());
  finding.facts = {{fact::kCause, std::string(is_masked ? "launcher_mask" : "same_index")},
                   {fact::kHost, first.host},
                   {fact::kDeviceUuid, device.uuid},
                   {fact::kRanks, std::vector<FactScalar>(numbers.begin(), numbers.end())},
                   {fact::kVisibleCount, device.visible_count},
                   {fact::kSelectedIndex, device.index}};
  return finding;
}

/// device-duplicate; docs/checks/device-duplicate.md
class DeviceDuplicate final : public Check {
 public:
  void on_ranks_compared(const RanksComparedEvent& run, Findings& findings) override {
    std::map<std::pair<std::string, std::string>, RanksOnDevice> users;
    for (const RankEnding& rank : run.endings.ranks) {
      if (rank.device.uuid.empty() || rank.device.is_shared) continue;
      users[{rank.host, rank.device.uuid}].push_back(&rank);
    }
    for (const auto& [device, ranks] : users) {
      if (ranks.size() > 1) findings.push_back(about_device(ranks));
    }
  }
};
}  // namespace

std::unique_ptr<Check> make_device_duplicate() { return std::make_unique<DeviceDuplicate>(); }

}  // namespace ddpscope
