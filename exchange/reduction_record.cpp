#include "exchange/reduction_record.h"

#include <cstring>

namespace ddpscope {
namespace {
// As they lie in the file; little endian, as all of it.
struct Entry {
  std::uint64_t parameter = 0;
  std::uint64_t fingerprint = 0;
  GradientSketch before;
  GradientSketch after;
};
static_assert(sizeof(Entry) == 96);
struct Head {
  double clip_factor = 1;
  double weight = 1;
  std::uint64_t calls = 0;
};
constexpr std::size_t kMaxEntries = 4096;
constexpr std::uint64_t kOfTotal = std::uint64_t{1} << 32;  // a second entry of its parameter
constexpr std::uint64_t kGrewAfter = kOfTotal << 1;

void append(std::string& bytes, const Entry& entry) {
  bytes.append(reinterpret_cast<const char*>(&entry), sizeof entry);
}

ToldReduction told_in(const Entry& entry) {
  return {.parameter = static_cast<std::uint32_t>(entry.parameter),
          .before = entry.before,
          .total = std::nullopt,
          .after = entry.after,
          .fingerprint = entry.fingerprint,
          .grew_after = (entry.parameter & kGrewAfter) != 0};
}
}  // namespace

static_assert(sizeof(GradientSketch) == 40);

std::string encode(const std::vector<GradientSketch>& sketches) {
  std::string bytes(sketches.size() * sizeof(GradientSketch), '\0');
  std::memcpy(bytes.data(), sketches.data(), bytes.size());
  return bytes;
}

GradientSketch decode_sketch(std::string_view bytes, std::size_t place) {
  GradientSketch sketch = kNoSketch;
  if (place >= bytes.size() / sizeof sketch) return sketch;
  std::memcpy(static_cast<void*>(&sketch), bytes.data() + place * sizeof sketch, sizeof sketch);
  return sketch;
}

std::string encode(const ToldReductions& told) {
  std::string bytes(sizeof(Head), '\0');
  const Head head{.clip_factor = told.clip_factor, .weight = told.weight, .calls = told.calls};
  std::memcpy(bytes.data(), &head, sizeof head);
  for (const ToldReduction& one : told.gradients) {
    Entry entry{.parameter = one.parameter | (one.grew_after ? kGrewAfter : 0),
                .fingerprint = one.fingerprint,
                .before = one.before,
                .after = one.after};
    append(bytes, entry);
    if (!one.total.has_value()) continue;
    entry.parameter = one.parameter | kOfTotal;
    entry.before = *one.total;
    append(bytes, entry);
  }
  return bytes;
}

std::optional<ToldReductions> decode_reductions(std::string_view bytes) {
  if (bytes.size() < sizeof(Head)) return std::nullopt;
  Head head;
  std::memcpy(static_cast<void*>(&head), bytes.data(), sizeof head);
  ToldReductions told{
      .clip_factor = head.clip_factor, .weight = head.weight, .calls = head.calls, .gradients = {}};
  bytes.remove_prefix(sizeof head);
  const std::size_t count = bytes.size() / sizeof(Entry);
  if (bytes.size() % sizeof(Entry) != 0 || count > kMaxEntries) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    Entry entry;
    std::memcpy(static_cast<void*>(&entry), bytes.data() + i * sizeof entry, sizeof entry);
    const ToldReduction one = told_in(entry);
    if ((entry.parameter & ~kGrewAfter) == one.parameter) {
      told.gradients.push_back(one);
    } else if (entry.parameter == (kOfTotal | one.parameter) && !told.gradients.empty() &&
               told.gradients.back().parameter == one.parameter) {
      told.gradients.back().total = one.before;
    } else {
      return std::nullopt;
    }
  }
  return told;
}

}  // namespace ddpscope
