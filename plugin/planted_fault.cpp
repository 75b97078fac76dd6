#include "plugin/planted_fault.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "config/env.h"
#include "faults/planting.h"
#include "hooks/outer_hook.h"
#include "plugin/log.h"
#include "plugin/session.h"
#include "records/fault_file.h"

namespace ddpscope {
namespace {
using Clock = std::chrono::steady_clock;
// A fault that found no place in so many steps will find none.
constexpr std::int64_t kStepsToFindAPlace = 8;

/// What stands in the variable, apart by blanks.
struct AskedFault {
  std::string name;                ///< `none`: the steps are measured alone
  std::int64_t after = 0;          ///< complete steps before it begins
  std::int64_t steps = 0;          ///< in which it may be found
  double seconds = 0;              ///< for all
  std::vector<std::string> known;  ///< fingerprints of findings that the program has without it
};

std::optional<AskedFault> asked_fault() {
  const auto text = environment(kFaultVariable);
  if (!text) return std::nullopt;
  std::istringstream words(*text);
  AskedFault asked;
  if (!(words >> asked.name >> asked.after >> asked.steps >> asked.seconds)) return std::nullopt;
  for (std::string known; words >> known;) asked.known.push_back(known);
  return asked;
}

std::string report_dir_of(Session& session) {
  return std::filesystem::path(session.worker().files().at(0)).parent_path().string();
}

/// This process among those that the fault is in.
struct FaultRank {
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  bool makes_it = true;  ///< the mistake
  bool tells = true;     ///< of all ranks that make it, or else of all
};

FaultRank rank_in(const FaultRow* row, const RunRecord& run) {
  FaultRank here{.rank = run.rank, .ranks = run.world_size};
  const bool is_of_last = row != nullptr && row->ranks == FaultRanks::kLast;
  here.makes_it = !is_of_last || here.rank == here.ranks - 1;
  here.tells = here.rank == (is_of_last ? here.ranks - 1 : 0);
  return here;
}

class FaultWatch final : public FaultObserver {
 public:
  FaultWatch(AskedFault asked, std::string report_dir, const FaultRank& here)
      : asked_(std::move(asked)), report_dir_(std::move(report_dir)), here_(here) {
    if (const FaultRow* row = find_fault(asked_.name)) {
      record_.fault = row->name;
      check_ = row->check;
    }
  }

  void fault_planted(std::int64_t step) override {
    record_.planted_step = step;
    write();  // the fault may end the process
  }

  void steps_completed(std::int64_t steps) override {
    record_.steps = steps;
    Session* const session = Session::running();
    if (session == nullptr) return;
    if (record_.planted_step && here_.ranks == 1) {
      session->drain();
      if (is_found(*session)) record_.found_steps = steps;
    }
    record_.ended = record_.found_steps || steps >= last_step();
    record_.timed_out = !record_.ended && seconds() > asked_.seconds;
    if (record_.ended || record_.timed_out) end(*session);
  }

 private:
  /// Of several ranks the same: none may leave the others alone.
  std::int64_t last_step() const {
    if (here_.ranks > 1) return asked_.after + asked_.steps + kStepsToFindAPlace;
    if (record_.planted_step) return *record_.planted_step + asked_.steps;
    return asked_.after + (check_.empty() ? asked_.steps : kStepsToFindAPlace);
  }

  bool is_found(Session& session) const {
    return std::ranges::any_of(session.worker().findings(), [this](const Finding& finding) {
      return finding.id == check_ && !finding.suppressed &&
             std::ranges::find(asked_.known, finding.fingerprint) == asked_.known.end();
    });
  }

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  void write() {
    if (!here_.tells) return;
    record_.step_ms = record_.steps > 0 ? 1000 * seconds() / double(record_.steps) : 0;
    const std::string error = write_fault_file(report_dir_, record_);
    if (!error.empty()) log_error(error);
  }

  // Not by exit(): the program is in the middle of a step, and what it does at its end is not asked
  // for.
  [[noreturn]] void end(Session& session) {
    session.finish(0);
    write();
    // Others may be in the last call of this step yet.
    if (here_.ranks > 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    _exit(0);
  }

  AskedFault asked_;
  std::string report_dir_;
  FaultRank here_;
  std::string_view check_;
  FaultRecord record_;
  Clock::time_point begin_ = Clock::now();
};
}  // namespace

void prepare_fault_if_asked() {
  if (asked_fault()) remember_hooks();
}

void plant_fault_if_asked() noexcept {
  try {
    auto asked = asked_fault();
    Session* const session = Session::running();
    if (!asked || session == nullptr) return;
    unsetenv(kFaultVariable);
    const FaultRow* const row = find_fault(asked->name);
    const bool from_start = row != nullptr && row->begin == FaultBegin::kFromStart;
    const FaultRank here = rank_in(row, session->worker().run());
    Planting planting{.fault = here.makes_it ? make_fault(asked->name) : nullptr,
                      .after = from_start ? 0 : asked->after,
                      .rank = here.rank,
                      .ranks = here.ranks};
    asked->after = row == nullptr ? asked->after : planting.after;
    planting.observer = new FaultWatch(std::move(*asked), report_dir_of(*session), here);
    plant(std::move(planting));
    if (row != nullptr && here.makes_it) {
      log_warning("this process plants the fault " + std::string(row->name) + " and ends itself");
    }
  } catch (...) {  // then nothing is planted, and nothing found
  }
}

}  // namespace ddpscope
