#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/finding.h"

namespace ddpscope {

/// A site as one line of JSON; of many frames the innermost.
std::string line_of_json(const Site& site);
/// The inverse; nothing where the text is no site, whoever wrote it.
std::optional<Site> site_in(std::string_view json);

}  // namespace ddpscope
