#pragma once

#include <ddpscope/ops/communicator.h>

#include <string>

namespace ddpscope {

struct Settings;

/// The setting `sync_batch_norm`: batch norms of attached models run over all ranks.
///
/// Note [When batch norms are synchronised]
/// At the first call of a layer in training after which a group is known, the ranks compare their
/// lists of layers, by one small collective of that group. Equal: the layers of the list run over
/// the group from this call on, and no others ever; else all stay local on all ranks. Until then
/// they are local, too. So what a rank exchanges follows from its program alone.

/// Once, when the session starts: the operators' exchanges are noted, and aten::batch_norm is taken
/// over where the setting is on.
void start_operators(const Settings& settings, std::int64_t world_size);

/// The group that the program gives, for every layer. Nothing where the setting is off.
void set_group_of_norms(const CommunicatorPtr& communicator);

/// A model was attached on this thread: where all were detached, layers are compared anew.
void norms_attached();
/// Its layers run as ever again; with the last model the operator is removed.
void norms_detached();

/// The process ends: lets go of the group. Layers run as ever.
void end_sync_norms() noexcept;

}  // namespace ddpscope
