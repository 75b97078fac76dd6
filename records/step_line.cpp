#include "records/step_line.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace ddpscope {
namespace {
using Json = nlohmann::ordered_json;

constexpr std::string_view kBegin = R"({"record":"step",)";

/// Stops where a line says what only the whole reader judges.
class PlainStep final : public nlohmann::json_sax<Json> {
 public:
  std::optional<std::int64_t> step() const { return step_; }

  bool null() override { return !is_step(); }
  bool boolean(bool /*value*/) override { return !is_step(); }
  bool number_integer(std::int64_t value) override { return take(value); }
  bool number_unsigned(std::uint64_t value) override {
    if (!is_step()) return true;
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return value <= kMost && take(static_cast<std::int64_t>(value));
  }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return !is_step(); }
  bool string(std::string& /*value*/) override { return !is_step(); }
  bool binary(Json::binary_t& /*value*/) override { return false; }
  bool start_object(std::size_t /*members*/) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*elements*/) override { return open(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    at_step_ = name == "step";
    const bool again = name == "record" && ++records_ > 1;
    return !again && !(at_step_ && step_.has_value());
  }
  bool parse_error(std::size_t /*place*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool is_step() const { return depth_ == 1 && at_step_; }
  bool take(std::int64_t value) {
    if (is_step()) step_ = value;
    return true;
  }
  bool open() {
    if (is_step()) return false;
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  int records_ = 0;
  bool at_step_ = false;
  std::optional<std::int64_t> step_;
};
}  // namespace

std::optional<std::int64_t> step_of_plain_line(std::string_view line) {
  if (!line.starts_with(kBegin)) return std::nullopt;
  PlainStep plain;
  return Json::sax_parse(line, &plain) ? plain.step() : std::nullopt;
}

}  // namespace ddpscope
