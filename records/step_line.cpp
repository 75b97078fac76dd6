#include "records/step_line.h"

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace ddpscope {
namespace {
using Json = nlohmann::ordered_json;

constexpr std::string_view kBegin = R"({"record":"step",)";
constexpr std::array<std::string_view, 9> kStepMembers = {"step",         "wall_ms", "overhead_us",
                                                          "collectives",  "seq",     "host_reads",
                                                          "time_unix_ns", "loss",    "grad_norm"};
enum StepMember : std::size_t {
  kStep,
  kWall,
  kOverhead,
  kCollectives,
  kSeq,
  kHostReads,
  kTime,
  kLoss,
  kNorm,
  kNone
};

/// Stops where a line says what only the whole reader judges.
class PlainStep final : public nlohmann::json_sax<Json> {
 public:
  std::optional<StepRecord> record() const {
    return seen_[kStep] ? std::optional(record_) : std::nullopt;
  }

  bool null() override { return !is_ours(); }
  bool boolean(bool /*value*/) override { return !is_ours(); }
  bool number_integer(std::int64_t value) override { return take(value); }
  bool number_unsigned(std::uint64_t value) override {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return !is_ours() || (value <= kMost && take(static_cast<std::int64_t>(value)));
  }
  bool number_float(double value, const std::string& /*text*/) override { return take(value); }
  bool string(std::string& /*value*/) override { return !is_ours(); }
  bool binary(Json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*members*/) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*elements*/) override { return open(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    member_ = kStep;
    while (member_ != kNone && kStepMembers[member_] != name) member_ = StepMember(member_ + 1);
    if (name == "record") return ++records_ == 1;
    return member_ == kNone || !std::exchange(seen_[member_], true);
  }
  bool parse_error(std::size_t /*place*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool is_ours() const { return depth_ == 1 && member_ != kNone; }
  bool take(std::int64_t value) {
    if (!is_ours()) return true;
    if (is_whole() && value < 0) return false;
    if (member_ == kStep) record_.step = value;
    if (member_ == kCollectives) record_.collectives = value;
    if (member_ == kSeq) record_.seq = value;
    if (member_ == kHostReads) record_.host_reads = value;
    if (member_ == kTime) record_.time_unix_ns = value;
    return is_whole() || take(static_cast<double>(value));
  }
  bool take(double value) {
    if (!is_ours()) return true;
    if (member_ == kWall) record_.wall_ms = value;
    if (member_ == kOverhead) record_.overhead_us = value;
    if (member_ == kLoss) record_.loss = value;
    if (member_ == kNorm) record_.gradient_norm = value;
    return !is_whole();
  }
  bool is_whole() const {
    return member_ == kStep || (member_ >= kCollectives && member_ <= kTime);
  }
  bool open() {
    if (is_ours()) return false;
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  int records_ = 0;
  StepMember member_ = kNone;
  std::array<bool, kNone> seen_ = {};
  StepRecord record_;
};
}  // namespace

std::optional<StepRecord> step_of_plain_line(std::string_view line) {
  if (!line.starts_with(kBegin)) return std::nullopt;
  PlainStep plain;
  return Json::sax_parse(line, &plain) ? plain.record() : std::nullopt;
}

}  // namespace ddpscope
