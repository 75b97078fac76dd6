#pragma once

#include <set>
#include <string>
#include <vector>

#include "checks/archive_log.h"
#include "checks/subtree.h"
#include "model/finding.h"

namespace ddpscope {

/// The findings of checkpoint-load.
Finding load_reshaped(const ArchiveVisit& visit,
                      const std::vector<const ArchiveTensorEvent*>& reshaped,
                      const RunState& state);
/// `changed`: the tensors that the load changed, of those it should have changed.
Finding load_changed_few(const ArchiveVisit& visit, const std::set<TensorId>& changed,
                         const RunState& state);
Finding save_incomplete(const ArchiveVisit& visit, const std::vector<const TensorState*>& loose);
/// All of the group have a part of their name that loading does not read.
Finding save_unreadable(const ArchiveVisit& visit, const TensorGroup& group);

}  // namespace ddpscope
