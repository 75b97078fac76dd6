#pragma once

#include "model/run_record.h"
#include "model/tree_event.h"

namespace ddpscope {

/// Counts and the digest (order, names, shapes, dtypes) of a tree, as the rank file lists them. A
/// tensor that is registered under two names counts once in `elements`.
ModelRecord model_record(const TreeEvent& tree);
/// Its modules, with what each holds itself.
std::vector<ModuleRecord> module_records(const TreeEvent& tree);

}  // namespace ddpscope
