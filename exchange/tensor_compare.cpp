#include "exchange/tensor_compare.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <span>
#include <unordered_map>

#include "exchange/fixed_compare.h"
#include "exchange/missing_on_ranks.h"
#include "exchange/new_tensors.h"
#include "exchange/repaired_buffers.h"
#include "exchange/sides.h"
#include "exchange/sketch_compare.h"
#include "exchange/written_buffers.h"

namespace ddpscope {
namespace {
// A difference between more sides than this is told from the first of them.
constexpr std::size_t kMaxSides = 16;
constexpr std::size_t kMaxTold = 64;

/// Of one rank: its blobs and the lists that say what they are about.
struct Told {
  RankList ranks;
  std::vector<Blob> blobs;
  std::map<std::uint32_t, TensorList> lists;
};

std::vector<Told> read_sides(const RingList& rings, const DigestsDiffer& difference) {
  std::vector<Told> sides;
  for (const SideOfLists& side : sides_of_lists(rings, difference.sides)) {
    Told told{.ranks = side.ranks, .blobs = side.ring->blobs()};
    told.lists = lists_at(told.blobs, difference.step);
    sides.push_back(std::move(told));
  }
  return sides;
}

std::set<std::uint32_t> models_of(const std::vector<Told>& sides) {
  std::set<std::uint32_t> models;
  for (const Told& side : sides) {
    for (const auto& [number, list] : side.lists) models.insert(number);
  }
  return models;
}

void add_ranks(RankList& ranks, const RankList& more) {
  ranks.insert(ranks.end(), more.begin(), more.end());
  std::ranges::sort(ranks);
}

/// By path, in registered order.
template <class T>
class ByPath {
 public:
  T& at(const std::string& path) {
    const auto [known, is_new] = index_.try_emplace(path, all.size());
    return is_new ? all.emplace_back() : all[known->second];
  }
  std::vector<T> all;

 private:
  std::unordered_map<std::string, std::size_t> index_;
};

void add_gradients(ByPath<GradientSide>& gradients, const Told& side, std::uint32_t model,
                   std::int64_t step) {
  const auto list = side.lists.find(model);
  if (list == side.lists.end()) return;
  const Blob* told = latest_blob(side.blobs, BlobKind::kGradients, model, step);
  const std::string_view bits = told == nullptr ? "" : told->bytes;
  const auto order = in_told_order(list->second, false);
  for (std::size_t i = 0; i < order.size() && i / 8 < bits.size(); ++i) {
    GradientSide& gradient = gradients.at(order[i]->path);
    gradient.model = list->second.model;
    gradient.path = order[i]->path;
    const bool received = (static_cast<unsigned char>(bits[i / 8]) >> (i % 8) & 1) != 0;
    add_ranks(received ? gradient.with : gradient.without, side.ranks);
  }
}

struct Fingerprints {
  DifferingTensor tensor;
  bool is_matrix = false;  ///< or has more dimensions: hardly begins with a constant
  std::map<std::string, RankList> ranks_of;
};

std::string hex(std::uint64_t word) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(word));
  return text;
}

void add_fingerprints(ByPath<Fingerprints>& tensors, const Told& side, std::uint32_t model,
                      const ValuesDiffer& difference) {
  const auto list = side.lists.find(model);
  if (list == side.lists.end()) return;
  const Blob* told = latest_blob(side.blobs, BlobKind::kFingerprints, model, difference.step);
  if (told == nullptr || told->step != difference.step) return;
  const std::string_view bytes = told->bytes;
  const bool is_copy = is_never_trained(side.blobs, model, difference.step);
  const auto order = in_told_order(list->second, true);
  for (std::size_t i = 0; i < order.size() && (i + 1) * 8 <= bytes.size(); ++i) {
    const ListedTensor& tensor = *order[i];
    const std::uint64_t word = fingerprint_in(bytes, i);
    if (tensor.is_buffer != difference.of_buffers || word == 0) continue;
    Fingerprints& own = tensors.at(tensor.path);
    // One that a single rank unfroze is trained.
    own.tensor = {.model = list->second.model,
                  .path = tensor.path,
                  .is_buffer = tensor.is_buffer,
                  .requires_grad = own.tensor.requires_grad || (tensor.requires_grad && !is_copy),
                  .sides = {},
                  .model_number = model};
    own.is_matrix = tensor.shape.size() >= 2;
    add_ranks(own.ranks_of[hex(word)], side.ranks);
  }
}

void put_frozen_last(ValuesDiffer& values) {
  const auto frozen =
      std::ranges::stable_partition(values.tensors, &DifferingTensor::requires_grad);
  const bool none_trains = frozen.begin() == values.tensors.begin();
  values.module_path =
      common_module({values.tensors.begin(), none_trains ? frozen.end() : frozen.begin()});
  if (values.tensors.size() > kMaxTold) values.tensors.resize(kMaxTold);
}

/// Those of the first step. Frozen parameters that one rank changes do not hide others later.
void add_values(const RingList& rings, DigestsDiffer difference, Cohort& cohort) {
  ValuesDiffer values = compare_values(rings, difference);
  const bool of_trained = !values.tensors.empty() && values.tensors.front().requires_grad;
  if (!values.of_buffers && values.compared > 0 && !of_trained) {
    if (auto later = later_difference(rings, difference)) {
      difference = *std::move(later);
      values = compare_values(rings, difference);
    }
  }
  // What differs is in other tensors than those that several ranks have.
  if (values.compared > 0 && values.differing == 0) return;
  estimate_difference(rings, difference, values);
  leave_out_written(rings, values);
  if (!leave_out_repaired(rings, cohort, values)) return;
  cohort.values.push_back(std::move(values));
}

void set_equal_steps(Cohort& cohort, std::vector<std::int64_t> steps) {
  cohort.equal_steps = std::move(steps);
  cohort.equal_at_start = !cohort.equal_steps.empty() && cohort.equal_steps.front() == 0;
}

const DigestsDiffer* difference_of(const Cohort& cohort, DigestField field) {
  const auto found = std::ranges::find(cohort.digests, field, &DigestsDiffer::field);
  return found == cohort.digests.end() ? nullptr : &*found;
}
}  // namespace

std::vector<SideOfLists> sides_of_lists(const RingList& rings, const std::vector<RankSide>& sides) {
  std::vector<SideOfLists> chosen;
  for (const RankSide& side : sides) {
    if (chosen.size() == kMaxSides) break;
    const auto ring = std::ranges::find_if(
        rings, [&side](const RingReader* one) { return one->head().rank == side.ranks.front(); });
    if (ring != rings.end()) chosen.push_back({*ring, side.ranks});
  }
  return chosen;
}

std::map<std::uint32_t, TensorList> lists_at(const std::vector<Blob>& blobs, std::int64_t step) {
  std::set<std::uint32_t> models;
  for (const Blob& blob : blobs) {
    if (blob.kind == BlobKind::kTensors) models.insert(blob.number);
  }
  std::map<std::uint32_t, TensorList> lists;
  for (const std::uint32_t model : models) {
    const Blob* told = latest_blob(blobs, BlobKind::kTensors, model, step);
    auto list = told == nullptr ? std::nullopt : decode_tensor_list(told->bytes);
    if (list) lists.emplace(model, *std::move(list));
  }
  return lists;
}

std::vector<const ListedTensor*> in_told_order(const TensorList& list, bool with_buffers) {
  std::vector<const ListedTensor*> order;
  for (const bool of_buffers : {false, true}) {
    if (of_buffers && !with_buffers) break;
    for (const ListedTensor& tensor : list.tensors) {
      if (tensor.is_buffer == of_buffers) order.push_back(&tensor);
    }
  }
  return order;
}

std::uint64_t fingerprint_in(std::string_view bytes, std::size_t place) {
  std::uint64_t word = 0;
  if ((place + 1) * 8 <= bytes.size()) std::memcpy(&word, bytes.data() + place * 8, 8);
  return word;
}

const Blob* latest_blob(const std::vector<Blob>& blobs, BlobKind kind, std::uint32_t model,
                        std::int64_t step) {
  const Blob* latest = nullptr;
  for (const Blob& blob : blobs) {
    if (blob.kind != kind || blob.number != model || blob.step > step) continue;
    if (latest == nullptr || blob.step >= latest->step) latest = &blob;
  }
  return latest;
}

bool is_never_trained(const std::vector<Blob>& blobs, std::uint32_t model, std::int64_t until) {
  bool is_known = false;
  for (const Blob& blob : blobs) {
    if (blob.number != model || blob.step > until) continue;
    if (blob.kind == BlobKind::kReductions) return false;
    if (blob.kind != BlobKind::kGradients) continue;
    is_known = true;
    if (std::ranges::any_of(blob.bytes, [](char bits) { return bits != 0; })) return false;
  }
  return is_known;
}

GradientSetsDiffer compare_gradients(const RingList& rings, const DigestsDiffer& difference) {
  GradientSetsDiffer result{.step = difference.step, .steps = difference.differing};
  result.sides = difference.sides;
  const std::vector<Told> sides = read_sides(rings, difference);
  for (const std::uint32_t model : models_of(sides)) {
    ByPath<GradientSide> gradients;
    for (const Told& side : sides) add_gradients(gradients, side, model, difference.step);
    for (GradientSide& gradient : gradients.all) {
      if (gradient.with.empty() || gradient.without.empty()) continue;
      result.parameters.push_back(std::move(gradient));
    }
  }
  add_causes(rings, result);
  return result;
}

ValuesDiffer compare_values(const RingList& rings, const DigestsDiffer& difference) {
  ValuesDiffer result{.step = difference.step,
                      .of_buffers = difference.field == DigestField::kBuffers,
                      .equal_until = difference.equal_until};
  result.sides = difference.sides;
  const std::vector<Told> sides = read_sides(rings, difference);
  std::int64_t compared = 0;
  for (const std::uint32_t model : models_of(sides)) {
    ByPath<Fingerprints> tensors;
    for (const Told& side : sides) add_fingerprints(tensors, side, model, result);
    compared += std::ssize(tensors.all);
    const auto before = result.tensors.size();
    for (Fingerprints& one : tensors.all) {
      const bool is_equal = one.ranks_of.size() < 2;
      result.beside_equal |= is_equal && one.tensor.requires_grad && one.is_matrix;
      if (is_equal) continue;
      one.tensor.sides = as_sides(one.ranks_of);
      result.tensors.push_back(std::move(one.tensor));
    }
    if (result.tensors.size() > before) result.compared += std::ssize(tensors.all);
  }
  result.differing = std::ssize(result.tensors);
  if (result.differing == 0) result.compared = compared;
  result.are_new = are_new(rings, result);
  put_frozen_last(result);
  return result;
}

void compare_tensors(const RingList& rings, Cohort& cohort) {
  if (const auto* models = difference_of(cohort, DigestField::kStructure)) {
    cohort.models = compare_models(rings, *models);
    cohort.lists_differ =
        cohort.models.empty() || !std::ranges::all_of(cohort.models, &ModelsDiffer::is_of_some);
    std::erase_if(cohort.models, &ModelsDiffer::is_copy);
    if (!cohort.lists_differ) set_equal_steps(cohort, steps_of_equal(rings));
  }
  if (const auto* gradients = difference_of(cohort, DigestField::kGradients)) {
    cohort.gradients.push_back(compare_gradients(rings, *gradients));
  }
  for (const DigestField field : {DigestField::kParameters, DigestField::kBuffers}) {
    if (const auto* values = difference_of(cohort, field)) add_values(rings, *values, cohort);
  }
  const auto is_of_parameters = [](const ValuesDiffer& values) { return !values.of_buffers; };
  if (!cohort.lists_differ && std::ranges::none_of(cohort.values, is_of_parameters)) {
    if (auto fixed = compare_fixed(rings)) cohort.values.push_back(*std::move(fixed));
  }
  const bool differ = std::ranges::any_of(cohort.values, is_of_parameters);
  if (differ && !cohort.averages) compare_averaged_weights(rings, cohort);
}

}  // namespace ddpscope
