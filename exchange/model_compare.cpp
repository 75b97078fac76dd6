#include <algorithm>
#include <set>

#include "exchange/sides.h"
#include "exchange/tensor_compare.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxOnly = 16;

/// One model as the ranks of one side registered it.
struct Version {
  RankList ranks;
  TensorList list;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

const ListedTensor* tensor_at(const Version& version, std::size_t index) {
  return index < version.list.tensors.size() ? &version.list.tensors[index] : nullptr;
}

/// What is compared of a tensor, in this order.
struct Trait {
  const char* cause;
  std::string (*text)(const ListedTensor& tensor);
};
constexpr Trait kTraits[] = {
    {"order", [](const ListedTensor& tensor) { return tensor.path; }},
    {"buffer",
     [](const ListedTensor& tensor) {
       return std::string(tensor.is_buffer ? "buffer" : "parameter");
     }},
    {"shape", [](const ListedTensor& tensor) { return shape_text(tensor.shape); }},
    {"dtype", [](const ListedTensor& tensor) { return tensor.dtype; }},
    {"trainable",
     [](const ListedTensor& tensor) {
       return std::string(tensor.requires_grad ? "trainable" : "frozen");
     }},
};

std::vector<RankSide> sides_by(const std::vector<Version>& versions, auto text_of) {
  std::map<std::string, RankList> ranks_of;
  for (const Version& version : versions) {
    RankList& ranks = ranks_of[text_of(version)];
    ranks.insert(ranks.end(), version.ranks.begin(), version.ranks.end());
  }
  return as_sides(ranks_of);
}

std::vector<RankSide> paths_at(const std::vector<Version>& versions, std::size_t index) {
  return sides_by(versions, [index](const Version& version) {
    const ListedTensor* tensor = tensor_at(version, index);
    return tensor == nullptr ? std::string() : tensor->path;
  });
}

/// Paths that some ranks have and others have not, in registered order.
std::vector<RankSide> only_on(const std::vector<Version>& versions) {
  std::map<std::string, RankList> ranks_of;
  std::vector<const std::string*> order;
  std::size_t all = 0;
  for (const Version& version : versions) {
    all += version.ranks.size();
    for (const ListedTensor& tensor : version.list.tensors) {
      const auto [known, is_new] = ranks_of.try_emplace(tensor.path);
      if (is_new) order.push_back(&known->first);
      known->second.insert(known->second.end(), version.ranks.begin(), version.ranks.end());
    }
  }
  std::vector<RankSide> only;
  for (const std::string* path : order) {
    RankList& ranks = ranks_of[*path];
    if (ranks.size() >= all || only.size() == kMaxOnly) continue;
    std::ranges::sort(ranks);
    only.push_back({*path, ranks});
  }
  return only;
}

/// The trait in which tensors at `index` differ first; null where they do not. A list that ends
/// before has no trait.
const Trait* differing_trait(const std::vector<Version>& versions, std::size_t index) {
  const ListedTensor* first = nullptr;
  for (const Version& version : versions) {
    if (first == nullptr) first = tensor_at(version, index);
  }
  for (const Trait& trait : kTraits) {
    for (const Version& version : versions) {
      const ListedTensor* tensor = tensor_at(version, index);
      if (tensor == nullptr || trait.text(*tensor) != trait.text(*first)) return &trait;
    }
  }
  return nullptr;
}

std::size_t longest(const std::vector<Version>& versions) {
  std::size_t most = 0;
  for (const Version& version : versions) most = std::max(most, version.list.tensors.size());
  return most;
}

void compare(const std::vector<Version>& versions, std::int64_t step,
             std::vector<ModelsDiffer>& differences) {
  const std::size_t end = longest(versions);
  std::size_t index = 0;
  while (index < end && differing_trait(versions, index) == nullptr) ++index;
  if (index == end) return;
  const Trait& trait = *differing_trait(versions, index);
  ModelsDiffer difference{.step = step,
                          .model = versions.front().list.model,
                          .cause = trait.cause,
                          .first_index = static_cast<std::int64_t>(index)};
  difference.paths = paths_at(versions, index);
  difference.values = sides_by(versions, [&](const Version& version) {
    const ListedTensor* tensor = tensor_at(version, index);
    return tensor == nullptr ? std::string() : trait.text(*tensor);
  });
  difference.counts = sides_by(
      versions, [](const Version& version) { return std::to_string(version.list.tensors.size()); });
  difference.only_on = only_on(versions);
  if (difference.counts.size() > 1) difference.cause = "count";
  if (difference.cause == "order" && !difference.only_on.empty()) difference.cause = "path";
  differences.push_back(std::move(difference));
}
}  // namespace

std::vector<ModelsDiffer> compare_models(const RingList& rings, const DigestsDiffer& difference) {
  std::map<std::uint32_t, std::vector<Version>> models;
  const auto sides = sides_of_lists(rings, difference.sides);
  for (const SideOfLists& side : sides) {
    for (auto& [model, list] : lists_at(side.ring->blobs(), difference.step)) {
      models[model].push_back({side.ranks, std::move(list)});
    }
  }
  const auto is_copy_on = [&sides](std::uint32_t model, const Version& version) {
    const auto side = std::ranges::find(sides, version.ranks, &SideOfLists::ranks);
    return side != sides.end() && is_never_trained(side->ring->blobs(), model, INT64_MAX);
  };
  const bool is_one_common = std::ranges::any_of(
      models, [&sides](const auto& entry) { return entry.second.size() == sides.size(); });
  std::vector<ModelsDiffer> differences;
  for (auto& [model, versions] : models) {
    const bool is_of_some = is_one_common && versions.size() < sides.size();
    const bool is_copy = is_of_some && std::ranges::all_of(versions, [&](const Version& version) {
                           return is_copy_on(model, version);
                         });
    // A model that a side does not have at all has no tensors there.
    for (const SideOfLists& side : sides) {
      const bool has_it = std::ranges::any_of(
          versions, [&side](const Version& one) { return one.ranks == side.ranks; });
      if (!has_it) versions.push_back({side.ranks, {}});
    }
    const std::size_t before = differences.size();
    compare(versions, difference.step, differences);
    if (differences.size() == before) continue;
    differences.back().is_of_some = is_of_some;
    differences.back().is_copy = is_copy;
  }
  return differences;
}

}  // namespace ddpscope
