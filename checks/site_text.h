#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "checks/run_state.h"
#include "model/finding.h"

namespace ddpscope {

/// `model.cpp:88`, the program's own line of a site; "" if none is known.
std::string line_of(const Site& site);

/// Whether both are known, and are the same lines on the way to the same call.
bool is_one_line(const Site& a, const Site& b);

/// Both, without the innermost frames that they have in common, those of a helper, where others
/// tell them apart.
std::array<Site, 2> told_apart(Site a, Site b);

/// Adds the site to the finding and gives its line; "" and nothing added where no stack was taken.
std::string add_site(std::string_view role, StackId stack, const RunState& state, Finding& finding);

/// The registered tensor whose memory this is, whole or in part; null if there is none.
const TensorState* owner_of(const TensorInfo& tensor, const RunState& state);

/// Place of what was done: path and model of the module that did it, or of the first model.
void place_at(const Doing& doing, const RunState& state, Finding& finding);
/// Place of a registered tensor.
void place_at(const TensorState& owner, const RunState& state, Finding& finding);

/// Files the finding under the module; under the first model where it is not registered.
void place_in(ModuleId module, const RunState& state, Finding& finding);

/// ` in encoder.block2 (model.cpp:88)`, of what is known.
std::string where_text(const Doing& doing, const std::string& line, const RunState& state);

}  // namespace ddpscope
