// Whose file it is: links, umask, folders of others, and processes that start at once.
#include "records/exclusive_open.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>
#include <functional>
#include <set>

#include "records/jsonl_reader.h"
#include "records/jsonl_writer.h"
#include "records/report_dir.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::exclusive_open_test {
namespace {

namespace fs = std::filesystem;

RunRecord run_of(std::int64_t pid) {
  RunRecord run = sample_run(0, 1);
  run.pid = pid;
  run.started = "2099-01-01T00:00:00Z";
  return run;
}

mode_t mode_of(const std::string& path) {
  struct stat info = {};
  ::stat(path.c_str(), &info);
  return info.st_mode & 0777;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What `task` says of success, in a child that may do to itself what it wants.
bool in_child(const std::function<bool()>& task) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(task() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("modes do not depend on the umask", "[records]") {
  const TemporaryDir dir;
  const bool written = in_child([&] {
    ::umask(0777);
    return JsonlWriter::open(dir / "a/b", run_of(1)).error.empty() &&
           write_file_atomically(dir / "a/b/report.html", "x").empty();
  });
  CHECK(written);
  CHECK(mode_of(dir / "a") == 0700);
  CHECK(mode_of(dir / "a/b") == 0700);
  CHECK(mode_of(dir / "a/b/rank-0.jsonl") == 0600);
  CHECK(mode_of(dir / "a/b/report.html") == 0600);
}

TEST_CASE("a rank file that is a link or a folder is refused and stays", "[records]") {
  const TemporaryDir dir;
  const std::string path = dir / "rank-0.jsonl";
  std::ofstream(dir / "victim") << "kept";
  fs::create_symlink(dir / "victim", path);
  CHECK(contains(open_exclusively(dir.path(), run_of(1)).error, "no regular file"));
  CHECK(fs::is_symlink(path));
  CHECK(fs::file_size(dir / "victim") == 4);
  fs::remove(path);
  fs::create_directory(path);
  CHECK(contains(open_exclusively(dir.path(), run_of(1)).error, "no regular file"));
  CHECK(fs::is_directory(path));
}

TEST_CASE("an older folder that is a link is refused", "[records]") {
  const TemporaryDir dir;
  fs::create_directories(dir / "o");
  fs::create_directory(dir / "elsewhere");
  std::ofstream(dir / "o/rank-0.jsonl") << "stale\n";
  fs::create_symlink(dir / "elsewhere", dir / "o.1");
  CHECK(contains(open_exclusively(dir / "o", run_of(1)).error, "symbolic link"));
  CHECK(contains(move_aside(dir / "o"), "symbolic link"));
  CHECK(fs::is_empty(dir / "elsewhere"));
}

TEST_CASE("a link above the report folder is followed", "[records]") {
  const TemporaryDir dir;
  fs::create_directory(dir / "home");
  fs::create_symlink(dir / "home", dir / "link");
  CHECK(open_exclusively(dir / "link/out", run_of(1)).error == "");
  CHECK(fs::exists(dir / "home/out/rank-0.jsonl"));
}

TEST_CASE("a way through a folder of another user in a shared folder is refused", "[records]") {
  if (::geteuid() != 0) DDPSCOPE_SKIP("only root can make a folder of another user");
  const TemporaryDir dir;
  ::chmod(dir.path().c_str(), 01777);
  fs::create_directories(dir / "theirs/below");
  fs::create_directories(dir / "ours");
  fs::create_symlink(dir / "ours", dir / "lure");
  for (const char* name : {"theirs", "lure"}) {
    REQUIRE(::lchown((dir / name).c_str(), 4242, 4242) == 0);
  }
  for (const std::string path : {"theirs/below/out", "theirs/out", "theirs", "lure/out", "lure"}) {
    const ExclusiveFile file = open_exclusively(dir / path, run_of(1));
    CHECK(contains(file.error, "another user made"));
  }
  CHECK_FALSE(fs::exists(dir / "theirs/out"));
  CHECK(fs::is_empty(dir / "ours"));
  CHECK(open_exclusively(dir / "ours/out", run_of(1)).error == "");
}

TEST_CASE("only the own stale file moves", "[records]") {
  const TemporaryDir dir;
  const std::vector<std::string> names = {"rank-0.jsonl", "rank-1.jsonl", "report.html",
                                          "weights.pt"};
  fs::create_directory(dir / "o");
  for (const auto& name : names) std::ofstream(dir / ("o/" + name)) << "earlier";
  CHECK(open_exclusively(dir / "o", run_of(1)).error == "");
  CHECK(fs::exists(dir / "o.1/rank-0.jsonl"));
  CHECK(std::distance(fs::directory_iterator(dir / "o.1"), {}) == 1);
  for (const auto& name : names) CHECK(fs::exists(dir / ("o/" + name)));
}

TEST_CASE("with the stale file of a rank go its ring and what it told of a hang", "[records]") {
  const TemporaryDir dir;
  const bool beside_a_file = GENERATE(true, false);
  fs::create_directory(dir / "o");
  if (beside_a_file) std::ofstream(dir / "o/rank-0.jsonl") << "earlier";
  for (const std::string name : {"rank-0.ring", "rank-0.flight.json", "rank-1.ring"}) {
    std::ofstream(dir / ("o/" + name)) << "earlier";
  }
  CHECK(open_exclusively(dir / "o", run_of(1)).error == "");
  CHECK(fs::exists(dir / "o.1/rank-0.ring"));
  CHECK(fs::exists(dir / "o.1/rank-0.flight.json"));
  CHECK_FALSE(fs::exists(dir / "o/rank-0.ring"));
  CHECK_FALSE(fs::exists(dir / "o/rank-0.flight.json"));
  CHECK(fs::exists(dir / "o/rank-1.ring"));
}

TEST_CASE("nothing moves aside while its owner lives", "[records]") {
  const TemporaryDir dir;
  const auto opened = JsonlWriter::open(dir / "o", run_of(::getppid()));
  REQUIRE(opened.error == "");
  RunRecord run = sample_run(0, 1);
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  run.host = host;
  run.pid = ::getppid();
  run.started = "2099-01-01T00:00:00Z";
  const auto other = JsonlWriter::open(dir / "p", run);
  CHECK(move_aside(dir / "o") == "");  // it says another host: nobody knows whether it lives
  CHECK(contains(move_aside(dir / "p"), "still writes there"));
  CHECK(fs::exists(dir / "p/rank-0.jsonl"));
  CHECK_FALSE(fs::exists(dir / "p.1"));
}

TEST_CASE("a file never takes the number of a standard stream", "[records]") {
  const TemporaryDir dir;
  const bool above = in_child([&] {
    for (const int stream : {0, 1, 2}) ::close(stream);
    const ExclusiveFile made = open_exclusively(dir / "o", run_of(1));
    return made.file.get() > STDERR_FILENO;
  });
  CHECK(above);
}

struct Pipe {
  Pipe() { REQUIRE(::pipe(ends) == 0); }
  void wait() const {
    char byte = 0;
    static_cast<void>(::read(ends[0], &byte, 1));
  }
  void tell() const { static_cast<void>(::write(ends[1], "x", 1)); }
  void close_writer() const { ::close(ends[1]); }
  int ends[2];
};

/// A process that opens its file once `go` is closed, tells it, and lives until `stay` is closed.
pid_t start_rank(const std::string& dir, const Pipe& go, const Pipe& opened, const Pipe& stay) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  go.close_writer();
  stay.close_writer();
  go.wait();
  const auto file = JsonlWriter::open(dir, run_of(::getpid()));
  if (file.writer != nullptr) file.writer->write_summary(sample_summary());
  opened.tell();
  stay.wait();
  ::_exit(file.error.empty() ? 0 : 1);
}

/// The processes whose runs the folders below `parent` hold, each complete.
std::set<std::int64_t> owners_in(const std::string& parent, const std::string& except) {
  std::set<std::int64_t> owners;
  for (const auto& entry : fs::directory_iterator(parent)) {
    if (entry.path() == except) continue;
    const ReadResult read = read_rank_file(entry.path() / "rank-0.jsonl");
    REQUIRE(std::holds_alternative<RankFile>(read));
    CHECK(std::get<RankFile>(read).summary);
    owners.insert(std::get<RankFile>(read).run.pid);
  }
  return owners;
}

TEST_CASE("processes that start at once as one rank keep a file each", "[records]") {
  const TemporaryDir dir;
  const bool with_stale = GENERATE(false, true);
  const std::string out = dir / "o";
  if (with_stale) {
    fs::create_directory(out);
    std::ofstream(out + "/rank-0.jsonl") << "of an earlier run\n";
  }
  const Pipe go;
  const Pipe opened;
  const Pipe stay;
  std::set<pid_t> children;
  for (int i = 0; i < 12; ++i) children.insert(start_rank(out, go, opened, stay));
  go.close_writer();
  for (std::size_t i = 0; i < children.size(); ++i) opened.wait();
  stay.close_writer();
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(owners_in(dir.path(), out + ".1") ==
        std::set<std::int64_t>(children.begin(), children.end()));
  CHECK(fs::exists(out + ".1") == with_stale);
}

}  // namespace
}  // namespace ddpscope::test::exclusive_open_test
