#include "exchange/call_groups.h"

#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "exchange/sides.h"
#include "exchange/tensor_compare.h"
#include "model/rank_words.h"
#include "records/site_line.h"

namespace ddpscope {
namespace {
using Members = std::vector<GroupMember>;

std::string shared_key_words(const Members& members, std::int64_t size) {
  std::vector<std::int64_t> ranks;
  for (const GroupMember& member : members) ranks.push_back(member.rank());
  return rank_words(ranks) + " call in groups of " + std::to_string(size) +
         " that have one name; their calls are not compared";
}

/// More ranks than one group has.
void split(CallGroups& groups, std::uint64_t key, const Members& claimants) {
  const auto size = static_cast<std::size_t>(group_size(key));
  std::map<std::uint64_t, std::size_t> alike;
  for (const GroupMember& member : claimants) ++alike[member.calls->signature];
  CallGroup rest{.key = key};
  for (const GroupMember& member : claimants) {
    if (alike[member.calls->signature] % size != 0) rest.members.push_back(member);
  }
  if (rest.members.size() == size) {
    groups.groups.push_back(std::move(rest));
  } else if (!rest.members.empty()) {
    groups.remarks.push_back(shared_key_words(rest.members, group_size(key)));
  }
}

Members members_of(std::uint64_t key, const std::vector<RingReader>& rings,
                   const std::vector<RankCalls>& calls, bool all) {
  Members members;
  for (std::size_t i = 0; i < rings.size(); ++i) {
    const auto found = calls[i].groups.find(key);
    const bool has_calls = found != calls[i].groups.end();
    if (has_calls || all) members.push_back({&rings[i], has_calls ? &found->second : nullptr});
  }
  return members;
}
}  // namespace

CallGroups call_groups(const std::vector<RingReader>& rings, const std::vector<RankCalls>& calls,
                       std::int64_t world_size) {
  std::set<std::uint64_t> keys;
  for (const RankCalls& rank : calls) {
    for (const auto& [key, group] : rank.groups) keys.insert(key);
  }
  CallGroups groups;
  for (const std::uint64_t key : keys) {
    const std::int64_t size = group_size(key);
    Members members = members_of(key, rings, calls, size >= world_size);
    const auto known = static_cast<std::int64_t>(members.size());
    if (size > 0 && known > size) {
      split(groups, key, members);
    } else if (const std::int64_t missing = std::max<std::int64_t>(size - known, 0);
               known > 1 || missing > 0) {
      groups.groups.push_back({.key = key, .missing = missing, .members = std::move(members)});
    }
  }
  return groups;
}

std::optional<CallRecord> find_call(const GroupMember& member, std::uint64_t group,
                                    std::uint64_t seq) {
  if (member.calls == nullptr) return std::nullopt;
  const auto block = member.calls->blocks.find(seq / kBlockCalls);
  if (block == member.calls->blocks.end()) return std::nullopt;
  if ((block->second.present >> (seq % kBlockCalls) & 1) == 0) return std::nullopt;
  const RingReader& ring = *member.ring;
  for (std::uint64_t at = block->second.first_place; at < ring.call_count(); ++at) {
    const auto call = ring.call(at);
    if (call && call->group == group && call->seq == seq && is_of_group(*call)) return call;
  }
  return std::nullopt;
}

std::vector<RankSide> norm_calls_in(const CallGroup& group, std::int64_t step) {
  std::map<std::string, RankList> ranks_of;
  for (const GroupMember& member : group.members) {
    const RingReader& ring = *member.ring;
    std::int64_t count = 0;
    for (auto at = ring.first_call(); at < ring.call_count(); ++at) {
      const auto call = ring.call(at);
      const bool is_in = call && call->group == group.key && call->step == step;
      if (is_in && call->norm_call != 0 && is_of_group(*call)) ++count;
    }
    ranks_of[std::to_string(count)].push_back(member.rank());
  }
  return as_sides(ranks_of);
}

namespace {
/// What was attached later knows a tensor by a longer path than the call did.
std::string registered_path(std::string_view path, const RingReader& ring) {
  std::string_view longer;
  const auto lists = lists_at(ring.blobs(), std::numeric_limits<std::int64_t>::max());
  for (const auto& [model, list] : lists) {
    for (const ListedTensor& tensor : list.tensors) {
      const std::string_view full = tensor.path;
      if (full == path) return std::string(path);
      if (!full.ends_with(path) || full[full.size() - path.size() - 1] != '.') continue;
      if (!longer.empty() && longer != full) return std::string(path);  // of either
      longer = full;
    }
  }
  return std::string(longer.empty() ? path : longer);
}

std::string path_in_model(const std::string& name, const RingReader& ring) {
  constexpr std::string_view kGradient = ".grad";
  if (name.empty()) return name;
  if (!name.ends_with(kGradient)) return registered_path(name, ring);
  return registered_path(std::string_view(name).substr(0, name.size() - kGradient.size()), ring) +
         std::string(kGradient);
}

Site site_of(StackId stack, const RingReader& ring) {
  if (stack == 0) return {};
  for (const Blob& blob : ring.blobs()) {
    if (blob.kind == BlobKind::kSite && blob.number == stack) {
      return site_in(blob.bytes).value_or(Site{});
    }
  }
  return {};
}
}  // namespace

ComparedCall compared(const CallRecord& call, const RingReader& ring) {
  return {.record = call,
          .owner = ring.name(call.owner),
          .module = ring.name(call.module),
          .dtype = ring.name(call.dtype)};
}

ComparedCall compared_in_model(const CallRecord& call, const RingReader& ring) {
  ComparedCall named = compared(call, ring);
  named.owner = path_in_model(named.owner, ring);
  named.site = site_of(call.stack, ring);
  return named;
}

}  // namespace ddpscope
