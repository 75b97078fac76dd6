#include "plugin/worker.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "config/glob.h"
#include "model/clock.h"
#include "plugin/crash_note.h"
#include "plugin/log.h"
#include "records/report_dir.h"
#include "report/report_writer.h"

namespace ddpscope {
namespace {
using std::chrono::milliseconds;
constexpr auto kIdle = milliseconds(20);
constexpr std::size_t kBatch = 512;
constexpr auto kLastBatch = milliseconds(2'000);
constexpr int kQuietRounds = 2;  // the training threads stand still, or compute for long

}  // namespace

Worker::Worker(WorkerOptions options)
    : options_(std::move(options)),
      queue_(kQueueEvents),
      judge_(options_.judge,
             [this](const Finding& finding) { found(finding, finding.occurrences == 1); }),
      host_(options_.local_ranks),
      ranks_(options_.run, options_.settings, options_.where),
      live_compare_(options_.run, options_.settings),
      step_compare_(options_.run, options_.settings),
      metrics_(options_.run, options_.settings) {
  if (calls() != nullptr) digest_.emplace(digest_sinks(), options_.settings.exchange_every);
  if (calls() != nullptr) graph_.emplace(digest_sinks().blob);
  const std::string& path = options_.settings.suppressions;
  if (!path.empty()) suppressions_ = SuppressionList(read_suppressions(path), today_utc());
  take_declarations();
}

// Of every model that comes.
void Worker::take_declarations() {
  for (const DeclaredGlob& one : split_declarations(options_.settings.declare)) {
    judge(std::make_unique<DeclarationEvent>(
        DeclarationEvent{.path_glob = std::string(one.path_glob), .kind = std::string(one.kind)}));
  }
}

void Worker::start() {
  open_file();
  takes_turns_ = starts_in_turns();
  if (!takes_turns_) start_thread();
  if (options_.store.is_given || options_.settings.exchange == Exchange::kStore) start_exchange();
}

void Worker::open_file() {
  const std::int64_t max_bytes = (options_.settings.max_report_mb << 20) - ranks_.bytes();
  auto opened = JsonlWriter::open(options_.settings.report_dir, options_.run, max_bytes);
  if (!opened.notice.empty()) log_warning(opened.notice);
  if (opened.writer == nullptr) {
    log_error(opened.error + ". Findings go to stderr; training continues.");
    return;
  }
  writer_ = std::move(opened.writer);
  files_.push_back(writer_->path());
  crash_note::open(writer_->descriptor());
  const std::string& path = writer_->path();
  const std::string problem = ranks_.open(path.substr(0, path.rfind('/')));
  if (!problem.empty()) return log_warning(problem);
  step_compare_.begin(ranks_.dir(), steady_ns());
}

void Worker::loop() {
  while (!stop_.load(std::memory_order_acquire)) {
    if (wants_thread_.exchange(false)) say_what_waits();
    watch_ranks();
    if (metrics_.is_due(steady_ns())) {
      const std::lock_guard lock(mutex_);
      write_metrics(false);
    }
    if (judge_batch()) {
      quiet_rounds_ = 0;
      continue;
    }
    if (++quiet_rounds_ == kQuietRounds) settle();
    std::unique_lock lock(wake_mutex_);
    wake_.wait_for(lock, kIdle);
  }
  const std::lock_guard lock(wake_mutex_);
  left_loop_ = true;
  drained_.notify_all();
}

// Unless it is stuck in what it judges.
bool Worker::leaves_loop() {
  if (!thread_.joinable()) return true;
  std::unique_lock lock(wake_mutex_);
  wake_.notify_all();
  return drained_.wait_for(lock, kLastBatch, [this] { return left_loop_; });
}

void Worker::take(Event&& event) noexcept {
  if (judge_broke_) return last_place_.saw(event);
  try {
    if (late_values_.concerns(event)) {
      last_place_.saw_early(event);
      late_values_.put(std::move(event));
      while (late_values_.take(event)) judge(event);
    } else {
      judge(event);
      last_place_.saw(event);
    }
  } catch (const std::exception& error) {
    judge_broke_ = true;
    log_error(std::string("the judge failed: ") + error.what() +
              ". Nothing more is judged; training continues.");
  }
}

void Worker::judge(const Event& event) {
  if (const auto* cycle = std::get_if<CycleEndEvent>(&event)) {
    judge_.consume(std::make_unique<HostCountsEvent>(host_.read(cycle->at)));
    if (auto memory = device_.read(cycle->at)) judge_.consume(std::move(memory));
  }
  judge_.consume(event);
  if (digest_) digest_->saw(event, judge_.state());
  if (graph_) graph_->saw(event, judge_.state());
  step_values_.saw(event);
  if (const auto* tree = std::get_if<std::unique_ptr<TreeEvent>>(&event)) {
    model_changed(**tree);
    if (device_.see(**tree, options_.run) && writer_ != nullptr) writer_->write_run(options_.run);
  } else if (const auto* end = std::get_if<TreeEndEvent>(&event)) {
    model_ended(*end);
  } else if (const auto* cycle = std::get_if<CycleEndEvent>(&event)) {
    cycle_ended(*cycle);
  } else if (const auto* step = std::get_if<RestedStepEvent>(&event)) {
    write_step(*step);
  } else if (const auto* call = std::get_if<std::unique_ptr<CollectiveEvent>>(&event)) {
    tell_site(**call);
  } else if (const auto* waits = std::get_if<std::unique_ptr<DeviceWaitsEvent>>(&event)) {
    host_reads_ += (*waits)->host_reads;
  }
}

bool Worker::judge_batch() {
  std::uint64_t judged = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t dropped = queue_.dropped();
    if (dropped > dropped_told_) {
      take(DroppedEvent{.count = dropped - std::exchange(dropped_told_, dropped)});
    }
    Event event;
    while (judged < kBatch && !stop_.load(std::memory_order_relaxed) && queue_.take(event)) {
      ++judged;
      take(std::move(event));
    }
    last_place_.publish(judge_.state());
    put_late_progress();
  }
  const std::lock_guard lock(wake_mutex_);
  judged_ += judged;
  drained_.notify_all();
  return judged > 0;
}

bool Worker::drain(milliseconds limit) {
  const std::uint64_t target = queue_.put_count();
  if (takes_turns_.load()) {
    judge_here();
    if (!has_unsaid() || !end_turns()) return true;
  }
  std::unique_lock lock(wake_mutex_);
  wake_.notify_all();
  return drained_.wait_for(lock, limit, [&] {
    return unsaid_.empty() && judged_ + static_cast<std::uint64_t>(queue_.dropped()) >= target;
  });
}

void Worker::finish(milliseconds limit, const RunCosts& costs) {
  leaves_.store(true, std::memory_order_relaxed);
  put(ExitEvent{.rested = rested(costs)});
  const bool drained = drain(limit);
  takes_turns_ = false;  // no thread starts from here on
  stop_.store(true, std::memory_order_release);
  if (!drained) leave_unjudged(limit);
  if (!leaves_loop()) {  // what is on disk stays, nothing waits for it
    write_overdue_progress();
    thread_.detach();
    return;
  }
  if (thread_.joinable()) thread_.join();
  say_what_waits();
  const std::lock_guard lock(mutex_);
  if (std::exchange(finished_, true)) return;
  ranks_.end();
  for (const Finding& finding : judge_.findings()) {  // the counts as they are at the end
    if (finding.occurrences > 1) found(finding, /*is_first=*/false);
  }
  write_models();
  SummaryRecord record = summary(costs);
  add_unjudged(record);
  tell_idle_declarations();
  if (writer_ != nullptr) {
    for (const SuppressionRecord& line : suppressions()) writer_->write_suppression(line);
    writer_->write_summary(record);
    writer_->sync();
    tell_if_cut_off();
  }
  write_metrics(true);
  write_reports(record);
}

void Worker::found(const Finding& original, bool is_first) {
  Finding finding = original;
  write_models();
  suppressions_.decide(finding);
  if (is_first) leave_spreading(finding);
  const bool written = writer_ != nullptr && writer_->write_finding(finding);
  tell_if_cut_off();
  if (!finding.suppressed && int(finding.severity) > worst_.load()) {
    worst_line_ = render_place_line(finding);
    worst_line_.pop_back();  // the end of the line
    worst_.store(int(finding.severity));
  }
  if (!written && is_first && finding.severity > Severity::kNote) {
    say(render_finding(finding));
  } else {
    print(finding, is_first);
  }
}

bool Worker::prints_live() const {
  const Console console = options_.settings.console;
  return console != Console::kQuiet &&
         (options_.run.rank == 0 || console == Console::kFull || speaks_);
}

// Without a launcher nobody else tells of an error on a rank but 0.
bool Worker::speaks_for_failed(const Finding& finding) {
  const bool may_speak = options_.settings.console != Console::kQuiet && !options_.launched;
  if (!may_speak || finding.severity != Severity::kError) return false;
  return first_to_fail_.is_it(options_.run.run_id);
}

void Worker::print(const Finding& finding, bool is_first) {
  if (!is_first || finding.suppressed) return;
  if (!prints_live()) speaks_ = speaks_for_failed(finding);
  if (!prints_live()) return;
  const FindingStyle style{.colour = isatty(STDERR_FILENO) != 0, .with_model = models_.size() > 1};
  const bool brief = options_.settings.console == Console::kBrief;
  const std::string text =
      brief ? render_place_line(finding, style) : render_finding(finding, style);
  say(text);
}

// Once, when the file takes nothing more.
void Worker::tell_if_cut_off() {
  if (writer_ == nullptr || told_cut_off_ || !(writer_->failed() || writer_->full())) return;
  told_cut_off_ = true;
  const std::string why =
      writer_->failed() ? writer_->failure() : writer_->path() + ": max_report_mb is reached";
  log_error(why + ". Findings go to stderr; training continues.");
}

void Worker::write_progress(ProgressRecord record) {
  leaves_.store(true, std::memory_order_relaxed);
  // Never waits long: the process is dying, and the worker may hold the lock for good.
  std::unique_lock lock(mutex_, std::defer_lock);
  for (int i = 0; i < 100 && !lock.try_lock(); ++i) usleep(1000);
  if (lock.owns_lock()) return put_progress(std::move(record));
  const std::lock_guard wake_lock(wake_mutex_);
  late_progress_ = std::move(record);
}

void Worker::put_progress(ProgressRecord record) {
  if (writer_ == nullptr) return;
  last_place_.fill(record);
  writer_->write_progress(record);
  writer_->sync();
}

std::optional<ProgressRecord> Worker::take_late_progress() {
  const std::lock_guard wake_lock(wake_mutex_);
  return std::exchange(late_progress_, std::nullopt);
}

void Worker::put_late_progress() {
  if (auto record = take_late_progress()) put_progress(*std::move(record));
}

void Worker::write_overdue_progress() {
  if (const auto record = take_late_progress()) crash_note::write_line(line_of(*record));
}

}  // namespace ddpscope
