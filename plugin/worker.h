#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "checks/judge.h"
#include "config/settings.h"
#include "config/suppressions.h"
#include "model/cost_governor.h"
#include "model/event_sink.h"
#include "model/hot_code.h"
#include "plugin/device_of_rank.h"
#include "plugin/event_queue.h"
#include "plugin/first_costs.h"
#include "plugin/first_to_fail.h"
#include "plugin/host_counts.h"
#include "plugin/last_place.h"
#include "plugin/late_values.h"
#include "plugin/live_compare.h"
#include "plugin/metrics_file.h"
#include "plugin/rank_digest.h"
#include "plugin/rank_watch.h"
#include "plugin/step_compare.h"
#include "plugin/step_values.h"
#include "plugin/store_exchange.h"
#include "plugin/training_graph.h"
#include "records/jsonl_writer.h"
#include "report/merged_report.h"

namespace ddpscope {

/// Where this rank finds the store that it shares with the others.
struct StorePlace {
  std::int64_t rank = 0;
  std::string run_id;
  std::string dir;  ///< of the report
  std::int64_t timeout_ms = 5000;
};
struct StoreAccess {
  std::function<std::unique_ptr<SharedStore>(const StorePlace&)> open;  ///< may be empty
  bool is_given = false;                                                ///< by the program
};

/// What the session tells the worker at the start.
struct WorkerOptions {
  RunRecord run;
  Settings settings;
  JudgeOptions judge;
  bool launched = false;         ///< by `ddpscope run`, which prints the verdict itself
  bool takes_turns = false;      ///< as long as the program has one thread and nothing is found
  std::int64_t local_ranks = 1;  ///< of this run on this host
  bool has_own_folder = false;   ///< the name of `report_dir` has the rank or the process in it
  RankWatch::Where where = nullptr;
  DeviceReaders devices;
  StoreAccess store;
};

/// What is known at the end and only to the session.
struct RunCosts {
  double wall_ms = 0;  ///< of the run
  std::int64_t steps = 0;
  std::int64_t full_cycles = 0;      ///< at the start; `coverage` is that of the cycles after them
  std::int64_t structure_every = 1;  ///< of how many cycles one was watched at last
  std::int64_t values_every = 1;     ///< and with values
  CostGovernor::Coverage coverage;
  CostGovernor::Difference difference;
  std::optional<double> overhead_percent;
  std::optional<double> overhead_percent_first;
  std::string faulted_source;
  bool clean_exit = true;
};

inline constexpr std::size_t kQueueEvents = 1 << 16;

/// The share of a program's time that turns take. Of the one thread that takes them.
class TurnCost {
 public:
  /// A turn that took so much of its core has ended; true where turns take too large a share.
  bool is_high(std::int64_t taken_ns, std::int64_t now_ns) noexcept;

 private:
  std::int64_t turns_ = 0;
  std::int64_t since_ns_ = 0;
  std::int64_t taken_ns_ = 0;
};

/// Judges events and writes the rank file: on one thread per rank, or, where `takes_turns` allows
/// it, in turns on the training thread. A second thread costs a program that has one: malloc of
/// glibc takes locks from then on.
class Worker final : public EventSink {
 public:
  explicit Worker(WorkerOptions options);

  DDPSCOPE_HOT void put(Event&& event) noexcept override;
  void take_turn() noexcept override;
  /// Where hooks note collectives; null in a run of one rank.
  CallLog* calls() noexcept { return ranks_.ring(); }
  const RunRecord& run() const { return options_.run; }
  /// Opens the rank file; starts the thread where turns are not enough.
  void start();
  /// Waits until everything that was put before is judged and written, at most `limit`.
  bool drain(std::chrono::milliseconds limit);
  /// Judges what is left, writes the summary and the reports, and ends the thread.
  void finish(std::chrono::milliseconds limit, const RunCosts& costs);
  /// Compares ranks over a store from now on; false where it does so already or is not to.
  bool start_exchange();
  /// Waits at most for `exchange_timeout_ms`.
  void stop_exchange() { exchange_.stop(); }
  /// Writes why this rank ends and where it stands; for a process that is about to die. A worker
  /// that is busy writes it as soon as it can.
  void write_progress(ProgressRecord record);
  /// Tells the other ranks of a step that has not ended.
  void settle();
  /// What the worker has not come to of that is written past it, without a place.
  void write_overdue_progress();

  Findings findings();
  /// Counts of findings that are not suppressed, by severity.
  std::array<std::int64_t, 3> counts();
  std::vector<std::string> files();
  /// True once a finding at or above this severity exists.
  bool has_at_least(Severity severity) const noexcept { return worst_.load() >= int(severity); }
  /// The first such finding as one line.
  std::string first_line_of_worst();

 private:
  void open_file();
  void take_declarations();
  bool starts_in_turns() const;
  void start_thread() noexcept;
  bool end_turns() noexcept;
  bool leaves_loop();
  void judge_here() noexcept;
  void say(const std::string& text);
  bool has_unsaid();
  void say_what_waits();
  void loop();
  void take(Event&& event) noexcept;
  void judge(const Event& event);
  bool judge_batch();
  void found(const Finding& finding, bool is_first);
  void model_changed(const TreeEvent& tree);
  void model_ended(const TreeEndEvent& end);
  void write_models();
  void tell_if_cut_off();
  void put_progress(ProgressRecord record);
  std::optional<ProgressRecord> take_late_progress();
  void put_late_progress();
  void cycle_ended(const CycleEndEvent& cycle);
  void write_step(const RestedStepEvent& step);
  void watch_ranks();
  void tell_stall(const ProgressRecord& stall);
  void compare_steps();
  bool is_behind() const;
  MissingRanks::Way way_of_records() const;
  void tell_again(Finding& told, Finding&& now);
  void tell_over_ranks(Findings&& findings);
  Findings all_findings() const;
  RankDigest::Sinks digest_sinks();
  void tell_site(const CollectiveEvent& event);
  void leave_spreading(const Finding& finding);
  void print(const Finding& finding, bool is_first);
  bool prints_live() const;
  bool speaks_for_failed(const Finding& finding);
  SummaryRecord summary(const RunCosts& costs);
  std::int64_t unjudged() const;
  void leave_unjudged(std::chrono::milliseconds limit);
  void add_unjudged(SummaryRecord& record) const;
  void tell_idle_declarations() const;
  std::optional<ExitEvent::Rested> rested(const RunCosts& costs) const;
  std::vector<SuppressionRecord> suppressions() const;
  void write_reports(const SummaryRecord& summary);
  MergedReport own_report(const SummaryRecord& summary, const std::string& folder);
  void write_metrics(bool has_ended);

  WorkerOptions options_;
  EventQueue queue_;
  std::mutex mutex_;  // judge, writer, files
  Judge judge_;
  SuppressionList suppressions_;
  std::unique_ptr<JsonlWriter> writer_;
  /// A model is written once it trains, so that one that got a parent before is not.
  struct Model {
    ModelId id = 0;
    ModelRecord record;
    bool is_written = false;
  };
  std::vector<Model> models_;
  std::vector<std::string> files_;
  std::string worst_line_;
  FirstToFail first_to_fail_;
  bool speaks_ = false;
  std::atomic<int> worst_{-1};
  LastPlace last_place_;
  LateValues late_values_;
  HostCounts host_;
  DeviceOfRank device_{options_.devices};
  RankWatch ranks_;
  LiveCompare live_compare_;
  StepCompare step_compare_;
  StoreExchange exchange_;
  Findings over_ranks_;  // what this rank found for all
  MetricsFile metrics_;
  std::optional<RankDigest> digest_;  // of several ranks
  std::optional<TrainingGraph> graph_;
  std::set<StackId> told_sites_;  // those in the ring
  int quiet_rounds_ = 0;
  std::int64_t dropped_told_ = 0;
  std::int64_t last_step_ = 0;
  std::int64_t host_reads_ = 0;  // of the cycle in progress
  StepValues step_values_;
  CycleEndEvent last_cycle_;
  FirstCosts first_costs_{options_.settings.full_cycles};
  bool finished_ = false;
  std::int64_t left_unjudged_ = 0;  // at the end of the run
  bool judge_broke_ = false;
  bool told_cut_off_ = false;

  std::atomic<bool> stop_{false};
  std::atomic<bool> leaves_{false};  // the program ends
  std::mutex wake_mutex_;
  std::condition_variable wake_;
  std::condition_variable drained_;
  std::uint64_t judged_ = 0;                     // events taken and judged, guarded by wake_mutex_
  bool left_loop_ = false;                       // guarded by wake_mutex_
  std::optional<ProgressRecord> late_progress_;  // guarded by wake_mutex_
  std::string unsaid_;                           // for stderr, guarded by wake_mutex_
  std::atomic<bool> takes_turns_{false};
  std::atomic<bool> wants_thread_{false};
  std::atomic<bool> has_turn_{false};
  TurnCost turn_cost_;
  std::atomic<std::int64_t> waits_since_ns_{0};  // the oldest event that no turn has judged
  std::thread thread_;
};

}  // namespace ddpscope
