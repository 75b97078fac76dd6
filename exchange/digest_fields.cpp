#include "exchange/digest_fields.h"

#include <bit>
#include <cstdio>

namespace ddpscope {
namespace {
std::optional<std::uint64_t> said(std::uint64_t hash) {
  return hash == 0 ? std::nullopt : std::optional(hash);
}

std::optional<std::uint64_t> said(double value) {
  return value == 0 ? std::nullopt : std::optional(std::bit_cast<std::uint64_t>(value));
}

std::uint64_t number(std::int32_t count) { return static_cast<std::uint64_t>(std::int64_t{count}); }

std::string printed(const char* form, auto value) {
  std::array<char, 40> text = {};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}
}  // namespace

std::array<std::optional<std::uint64_t>, kDigestFields> words_of(const StepDigest& digest) {
  static_assert(static_cast<std::size_t>(DigestField::kState) + 1 == kDigestFields);
  const auto of_optimizers = [&digest](std::uint64_t word) {
    return digest.optimizers == 0 ? std::nullopt : std::optional(word);
  };
  const bool is_open = digest.phase == Phase::kReduce;  // its optimizers have yet to step
  const double scale = digest.loss_scale >= 1 ? digest.loss_scale : 0;  // less is a weight
  return {said(digest.structure), said(digest.gradients), said(digest.optimizers),
          said(digest.parameters), said(digest.buffers),
          of_optimizers(std::bit_cast<std::uint64_t>(digest.learning_rate)),
          of_optimizers(std::bit_cast<std::uint64_t>(digest.weight_decay)),
          of_optimizers(std::bit_cast<std::uint64_t>(digest.momentum)), said(scale),
          // None: another rank steps for all.
          is_open ? std::nullopt : said(number(digest.optimizer_steps)),
          is_open ? std::nullopt : std::optional(number(digest.skipped_steps)),
          of_optimizers(number(digest.groups)),
          digest.members == 0 ? std::nullopt : of_optimizers(number(digest.members)),
          number(digest.forwards), number(digest.backwards), number(digest.call_count),
          said(digest.clip_factor),
          digest.members == 0 || digest.optimizers == 0 ? std::nullopt : said(digest.state)};
}

std::string text_of(DigestField field, std::uint64_t word) {
  if (field <= DigestField::kBuffers) {
    return printed("%016llx", static_cast<unsigned long long>(word));
  }
  if (field == DigestField::kState) {
    const std::uint64_t members = (word >> 32) - 1;
    if (members == 0) return "none";
    return printed("%llu members", static_cast<unsigned long long>(members)) +
           printed(" (fingerprint %08llx)", static_cast<unsigned long long>(word & 0xffffffff));
  }
  if (field <= DigestField::kLossScale || field == DigestField::kClipFactor) {
    return printed("%.9g", std::bit_cast<double>(word));
  }
  return std::to_string(static_cast<std::int64_t>(word));
}

}  // namespace ddpscope
