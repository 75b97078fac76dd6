#pragma once

#include <string>
#include <vector>

#include "checks/run_state.h"
#include "model/archive_event.h"

namespace ddpscope {

/// What one archive did to the tensors of one attached model.
struct ArchiveVisit {
  std::uint64_t archive = 0;
  const ModelState* model = nullptr;
  std::vector<const ArchiveTensorEvent*> read;
  std::vector<const ArchiveTensorEvent*> missing;
  std::vector<TensorId> asked_for;  ///< what was read or is missing
  std::vector<const ArchiveTensorEvent*> written;
};

/// Keeps what was read from and written to archives until the next forward, backward or exit.
class ArchiveLog {
 public:
  void add(const ArchiveTensorEvent& event);
  bool empty() const { return events_.empty(); }
  /// By archive and model; tensors that no attached model registers are left out. Where an archive
  /// held none of its names, and at most one tensor of another was read, a name that was asked for
  /// without a tensor stands for what is registered under it, or in the module of that name.
  std::vector<ArchiveVisit> visits(const RunState& state) const;
  void clear() { events_.clear(); }

 private:
  std::vector<ArchiveTensorEvent> events_;
};

/// The registered tensors below the deepest module that holds everything a load spoke of.
std::vector<const TensorState*> expected_by(const ArchiveVisit& visit, const RunState& state);
/// The first part of a registered path that the archive's language cannot read; or "".
std::string unreadable_part(const std::string& path);

}  // namespace ddpscope
