#include "exchange/sampler_shares.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

namespace ddpscope {
namespace {
constexpr std::int64_t kMostReplicas = std::int64_t{1} << 16;

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return is_whole ? std::optional(number) : std::nullopt;
}

/// By all ranks, of one way to share the data out.
class AskedShares {
 public:
  explicit AskedShares(bool live) : live_(live) {}

  /// False: it is not known that the rank asks for no others.
  bool add(const RingReader& ring) {
    std::set<std::int64_t> own;
    std::int64_t epochs = 0;
    for (const Blob& blob : ring.blobs()) {
      if (blob.kind != BlobKind::kShare) continue;
      const SamplerShare share = share_in(blob.bytes);
      if (share.replicas < 2 || (replicas_ != 0 && replicas_ != share.replicas)) return false;
      replicas_ = share.replicas;
      step_ = std::min(step_, blob.step);
      own.insert(share.replica);
      ++epochs;
    }
    asked_.insert(own.begin(), own.end());
    const auto shares = static_cast<std::int64_t>(own.size());
    return epochs > shares || (!live_ && shares == 1);
  }

  std::int64_t replicas() const { return replicas_; }
  UnreadShares unread() const {
    UnreadShares unread{.step = step_, .replicas = replicas_, .unread = {}};
    for (std::int64_t share = 0; share < replicas_; ++share) {
      if (!asked_.contains(share)) unread.unread.push_back(share);
    }
    return unread;
  }

 private:
  bool live_;
  std::int64_t replicas_ = 0;
  std::int64_t step_ = INT64_MAX;
  std::set<std::int64_t> asked_;
};
}  // namespace

std::string share_text(const SamplerShare& share) {
  return std::to_string(share.replicas) + " " + std::to_string(share.replica);
}

SamplerShare share_in(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return {};
  const auto replicas = number_in(text.substr(0, space));
  const auto replica = number_in(text.substr(space + 1));
  if (!replicas || !replica || *replicas > kMostReplicas) return {};
  if (*replica < 0 || *replica >= *replicas) return {};
  return {.replicas = *replicas, .replica = *replica};
}

SamplerShare share_at(const RingReader& ring, std::int64_t step) {
  SamplerShare share;
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind == BlobKind::kShare && blob.step <= step) share = share_in(blob.bytes);
  }
  return share;
}

void compare_shares(const RingList& rings, bool live, std::int64_t world_size, Cohort& cohort) {
  AskedShares shares(live);
  for (const RingReader* ring : rings) {
    if (!shares.add(*ring)) return;
  }
  // Of several models each rank may train one, on its share.
  const bool others_may_ask = static_cast<std::int64_t>(rings.size()) < world_size;
  if (rings.size() < 2 || (others_may_ask && shares.replicas() <= world_size)) return;
  UnreadShares unread = shares.unread();
  if (!unread.unread.empty()) cohort.unread_shares.push_back(std::move(unread));
}

}  // namespace ddpscope
