// What the report folder does to a program: nothing. What it holds, and how it is named.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/plugin/twin_runs.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test {
namespace {
namespace fs = std::filesystem;

// Has one error from step 2 on.
struct FaultyImpl : torch::nn::Module {
  at::Tensor loss() { return (body(torch::randn({5, 8})) * scale).square().mean(); }
  torch::nn::Linear body = register_module("body", torch::nn::Linear(8, 8));
  at::Tensor scale = torch::ones({8}, torch::requires_grad());
};
TORCH_MODULE(Faulty);

int train_faulty(int steps = 40) {
  Faulty net;
  attach_diagnostics(net);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  train(
      optimizer, [&] { return net->loss(); }, steps);
  return 0;
}

void use_settings(const std::string& settings) { setenv("DDPSCOPE", settings.c_str(), 1); }

std::int64_t count(const std::string& text, const std::string& part) {
  std::int64_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string all_text_in(const std::string& dir) {
  std::string text;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    std::ifstream file(entry.path(), std::ios::binary);
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

void limit_files_to(rlim_t bytes) {
  const rlimit limit{bytes, RLIM_INFINITY};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

volatile std::sig_atomic_t limit_signals = 0;
void count_limit_signal(int) { limit_signals = limit_signals + 1; }
}  // namespace

TEST_CASE("A folder that cannot be written costs one line and findings go to stderr") {
  const TemporaryDir dir;
  std::ofstream(dir / "file") << "in the way";
  fs::create_directory(dir / "real");
  fs::create_symlink(dir / "real", dir / "link");
  const std::vector<std::string> paths = {dir / "file", dir / "file/below", dir / "link",
                                          std::string("/proc/none"), dir / std::string(300, 'x')};
  for (const std::string& path : paths) {
    INFO(path);
    const Outcome outcome = in_child([&] {
      use_settings("console=quiet:report_dir=" + path);
      return train_faulty();
    });
    CHECK(outcome.exit_code == 0);
    CHECK(count(outcome.said, "training continues") == 1);
    CHECK(count(outcome.said, "ddpscope: ") == 1);
    CHECK(count(outcome.said, "[module-unregistered]") == 1);
  }
}

TEST_CASE("A full folder costs one line and no signal reaches the program") {
  const TemporaryDir dir;
  const std::int64_t bytes = GENERATE(1, 9'000);
  const Outcome outcome = in_child([&] {
    use_settings("console=quiet:report_dir=" + (dir / "o"));
    limit_files_to(static_cast<rlim_t>(bytes));
    return train_faulty(60);
  });
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.signal == 0);
  CHECK(count(outcome.said, "training continues") == 1);
  CHECK(count(outcome.said, "ddpscope: ") == 1);
}

TEST_CASE("The program's own handling of a file limit stays its own") {
  const TemporaryDir dir;
  const Outcome outcome = in_child([&] {
    use_settings("console=quiet:report_dir=" + (dir / "o"));
    std::signal(SIGXFSZ, count_limit_signal);
    limit_files_to(100);
    train_faulty();
    if (limit_signals != 0) return 1;
    std::ofstream own(dir / "own");
    own << std::string(1000, 'x') << std::flush;
    return limit_signals == 1 ? 0 : 2;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("A report file that fills up leaves the findings to stderr") {
  const TemporaryDir dir;
  const Outcome outcome = in_child([&] {
    use_settings("console=quiet:overhead=1000:report_dir=" + (dir / "o"));
    limit_files_to(12'000);
    Net net;
    attach_diagnostics(net);
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    train(
        optimizer, [&] { return net->loss(); }, 8'000);
    const at::Tensor loose = torch::ones({4}, torch::requires_grad());
    train(
        optimizer, [&] { return net->loss() * loose.sum(); }, 200);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(count(outcome.said, "File too large") + count(outcome.said, "No space left") == 1);
  CHECK(count(outcome.said, "[module-unregistered]") == 1);
  CHECK(records("run", dir / "o").size() == 1);  // and every line of the file can be read
}

TEST_CASE("A full disk costs one line") {
  const TemporaryDir dir;
  const std::string disk = dir / "disk";
  fs::create_directory(disk);
  const std::string mount = "mount -t tmpfs -o size=16k tmpfs '" + disk + "' 2>/dev/null";
  if (std::system(mount.c_str()) != 0) DDPSCOPE_SKIP("no permission to mount a small disk");
  const Outcome outcome = in_child([&] {
    use_settings("console=quiet:report_dir=" + disk + "/o");
    return train_faulty(4000);
  });
  std::system(("umount -l '" + disk + "'").c_str());
  CHECK(outcome.exit_code == 0);
  CHECK(count(outcome.said, "No space left on device") == 1);
  CHECK(count(outcome.said, "ddpscope: ") == 1);
}

TEST_CASE("A closed stderr and a pipe that nobody reads are no fault") {
  const TemporaryDir dir;
  const bool closed = GENERATE(true, false);
  const Outcome outcome = in_child([&] {
    use_settings("console=full:log_level=trace:report_dir=" + (dir / "o"));
    int ends[2];
    if (pipe(ends) != 0) return 9;
    close(ends[0]);
    if (closed) close(STDERR_FILENO);
    if (!closed) dup2(ends[1], STDERR_FILENO);
    std::signal(SIGPIPE, count_limit_signal);
    train_faulty();
    if (limit_signals != 0) return 1;
    std::fputs("of the program\n", stderr);  // not into a file of ours
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.signal == 0);
  CHECK(records("summary", dir / "o").size() == 1);
}

TEST_CASE("A program that changes its folder reports where it began") {
  const std::string folder = (fs::current_path() / ("out-" + std::to_string(getpid()))).string();
  const TemporaryDir dir;
  const Outcome outcome = in_child([&] {
    use_settings("console=brief:report_dir=" + fs::path(folder).filename().string() + "/%r-%p");
    Faulty net;
    attach_diagnostics(net);
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    train(optimizer, [&] { return net->loss(); });
    if (chdir("/") != 0) return 9;
    std::ofstream(dir / "pid") << getpid();
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  std::string pid;
  std::ifstream(dir / "pid") >> pid;
  const std::string out = folder + "/0-" + pid;
  CHECK(records("summary", out).size() == 1);
  CHECK(fs::exists(out + "/report.html"));
  CHECK(outcome.said.find("report: " + out + "/report.html") != std::string::npos);
  fs::remove_all(folder);
}

TEST_CASE("A folder that vanishes while it is used costs one line") {
  const TemporaryDir dir;
  const Outcome outcome = in_child([&] {
    use_settings("console=quiet:report_dir=" + (dir / "o"));
    Net net;
    attach_diagnostics(net);
    torch::optim::SGD optimizer(net->parameters(), 0.01);
    train(optimizer, [&] { return net->loss(); });
    fs::remove_all(dir / "o");
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(count(outcome.said, "\n") == 1);
}

TEST_CASE("Files belong to their user alone whatever the umask") {
  const TemporaryDir dir;
  const mode_t mask = GENERATE(0, 0777);
  const Outcome outcome = in_child([&] {
    umask(mask);
    use_settings("console=quiet:report_dir=" + (dir / "a/b"));
    return train_faulty();
  });
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.said == "");
  const auto mode = [](const std::string& path) {
    struct stat info = {};
    return stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
  };
  CHECK(mode(dir / "a") == 0700);
  CHECK(mode(dir / "a/b") == 0700);
  CHECK(mode(dir / "a/b/rank-0.jsonl") == 0600);
  CHECK(mode(dir / "a/b/report.html") == 0600);
}

TEST_CASE("What stands in the environment stays out of the files") {
  const TemporaryDir dir;
  const Outcome outcome = in_child([&] {
    setenv("HF_TOKEN", "a-secret-of-the-environment", 1);
    setenv("WANDB_API_KEY", "another-secret-of-the-environment", 1);
    use_settings("console=full:report_dir=" + (dir / "o"));
    return train_faulty();
  });
  CHECK(outcome.exit_code == 0);
  CHECK(all_text_in(dir / "o").find("secret-of-the-environment") == std::string::npos);
  CHECK(outcome.said.find("secret-of-the-environment") == std::string::npos);
}

}  // namespace ddpscope::test
