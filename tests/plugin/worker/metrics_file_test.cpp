#include "plugin/metrics_file.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "plugin/worker.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::metrics_file_test {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string path_of(std::int64_t rank, std::int64_t world_size, const std::string& pattern) {
  RunRecord run;
  run.rank = rank;
  run.world_size = world_size;
  Settings settings;
  settings.metrics_file = pattern;
  return MetricsFile(run, settings).path();
}

TEST_CASE("Ranks that share the name of a metrics file leave it to rank 0", "[worker]") {
  CHECK(path_of(1, 2, "/m/%r.prom") == "/m/1.prom");
  CHECK(path_of(0, 2, "/m/x.prom") == "/m/x.prom");
  CHECK(path_of(1, 2, "/m/x.prom").empty());
  CHECK(path_of(0, 1, "").empty());
  CHECK(path_of(0, 1, "x.prom").front() == '/');
}

TEST_CASE("Metrics are due each five seconds and told once where they cannot be written",
          "[worker]") {
  const TemporaryDir dir;
  Settings settings;
  settings.metrics_file = dir / "absent/x.prom";
  MetricsFile file({}, settings);
  constexpr std::int64_t kSecond = 1'000'000'000;
  CHECK(file.is_due(kSecond));
  CHECK_FALSE(file.is_due(5 * kSecond));
  CHECK(file.is_due(6 * kSecond));
  CHECK_FALSE(file.write({}).empty());
  CHECK(file.write({}).empty());
}

TEST_CASE("A worker leaves its metrics where a collector can read them", "[worker]") {
  const TemporaryDir dir;
  WorkerOptions options;
  options.settings.report_dir = dir / "out";
  options.settings.metrics_file = dir / "x.prom";
  options.settings.console = Console::kQuiet;
  Worker worker(options);
  worker.start();
  worker.put(CycleEndEvent{.at = {.step = 3, .cycle = 3}, .wall_ms = 250});
  worker.finish(std::chrono::seconds(60), {});
  const std::string text = read(dir / "x.prom");
  CHECK(text.find("ddpscope_steps_total{rank=\"0\",run_id=\"\"} 3\n") != std::string::npos);
  CHECK(text.find("ddpscope_step_seconds{rank=\"0\",run_id=\"\"} 0.25\n") != std::string::npos);
  CHECK(text.find("ddpscope_ended{rank=\"0\",run_id=\"\"} 1\n") != std::string::npos);
  struct stat info = {};
  REQUIRE(::stat((dir / "x.prom").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0644);
}

}  // namespace
}  // namespace ddpscope::test::metrics_file_test
