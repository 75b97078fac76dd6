#include "records/site_line.h"

#include <nlohmann/json.hpp>

#include "records/line_shape.h"
#include "records/record_json.h"

namespace ddpscope {
namespace {
constexpr std::size_t kMaxFrames = 16;
}  // namespace

std::string line_of_json(const Site& site) {
  Site shown = site;
  if (shown.frames.size() > kMaxFrames) shown.frames.resize(kMaxFrames);
  return to_json(shown).dump();
}

std::optional<Site> site_in(std::string_view json) try {
  if (!shape_problem(json).empty()) return std::nullopt;
  const auto parsed = nlohmann::ordered_json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return std::nullopt;
  Site site = site_from_json(parsed);
  if (site.frames.size() > kMaxFrames) site.frames.resize(kMaxFrames);
  return site;
} catch (const FormatError&) {
  return std::nullopt;
}

}  // namespace ddpscope
