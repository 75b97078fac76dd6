#include "records/jsonl_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "records/jsonl_reader.h"
#include "tests/support/catch.h"
#include "tests/support/report_sample.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope::test::jsonl_writer_test {
namespace {

namespace fs = std::filesystem;

RunRecord run_of(std::int64_t pid) {
  RunRecord run = sample_run(0, 1);
  run.pid = pid;
  return run;
}

mode_t mode_of(const std::string& path) {
  struct stat info = {};
  ::stat(path.c_str(), &info);
  return info.st_mode & 0777;
}

TEST_CASE("folder and file belong to their user alone", "[records]") {
  const TemporaryDir dir;
  const auto opened = JsonlWriter::open(dir / "a/b/", run_of(1));
  REQUIRE(opened.error == "");
  CHECK(opened.writer->path() == dir / "a/b/rank-0.jsonl");
  CHECK(mode_of(dir / "a/b") == 0700);
  CHECK(mode_of(opened.writer->path()) == 0600);
}

TEST_CASE("a stale file moves aside", "[records]") {
  const TemporaryDir dir;
  std::ofstream(dir / "rank-0.jsonl") << "of an earlier run\n";
  const auto opened = JsonlWriter::open(dir.path(), run_of(::getpid()));
  REQUIRE(opened.error == "");
  CHECK(opened.notice == "");
  CHECK(fs::exists(dir.path() + ".1/rank-0.jsonl"));
  CHECK(opened.writer->path() == dir / "rank-0.jsonl");
  fs::remove_all(dir.path() + ".1");
}

TEST_CASE("the file of a living process is left alone", "[records]") {
  const TemporaryDir dir;
  const auto first = JsonlWriter::open(dir / "out", run_of(::getppid()));
  const auto second = JsonlWriter::open(dir / "out", run_of(::getpid()));
  REQUIRE(second.error == "");
  const std::string other = dir / "out." + std::to_string(::getpid());
  CHECK(second.writer->path() == other + "/rank-0.jsonl");
  CHECK(second.notice.find("is in use by process") != std::string::npos);
  CHECK(std::holds_alternative<RankFile>(read_rank_file(first.writer->path())));
}

TEST_CASE("a symbolic link is refused as folder and as file", "[records]") {
  const TemporaryDir dir;
  fs::create_directory(dir / "real");
  fs::create_symlink(dir / "real", dir / "link");
  CHECK(JsonlWriter::open(dir / "link", run_of(1)).error.find("symbolic link") !=
        std::string::npos);
  CHECK(JsonlWriter::open(dir / "link/", run_of(1)).writer == nullptr);
  fs::create_symlink(dir / "victim", dir / "real/rank-0.jsonl");
  const auto opened = JsonlWriter::open(dir / "real", run_of(1));
  CHECK_FALSE(fs::exists(dir / "victim"));
}

TEST_CASE("a folder of another user in a shared folder is refused", "[records]") {
  if (::geteuid() != 0) DDPSCOPE_SKIP("only root can make a folder of another user");
  const TemporaryDir dir;
  ::chmod(dir.path().c_str(), 01777);
  fs::create_directory(dir / "out");
  REQUIRE(::chown((dir / "out").c_str(), 4242, 4242) == 0);
  CHECK(JsonlWriter::open(dir / "out", run_of(1)).error.find("another user") != std::string::npos);
}

TEST_CASE("beyond max_bytes only findings are written, then one line says so", "[records]") {
  const TemporaryDir dir;
  const auto probe = JsonlWriter::open(dir / "probe", run_of(1));
  const std::int64_t max_bytes = probe.writer->bytes_written() + 20'000;
  const auto opened = JsonlWriter::open(dir / "out", run_of(1), max_bytes);
  JsonlWriter& writer = *opened.writer;
  while (writer.write_step({.step = 1})) {
  }
  CHECK(writer.bytes_written() <= max_bytes);
  CHECK(writer.write_finding(sample_finding()));
  while (writer.write_finding(sample_finding())) {
  }
  CHECK_FALSE(writer.failed());
  CHECK_FALSE(writer.write_finding(sample_finding()));
  CHECK(writer.write_summary(sample_summary()));
  const auto file = std::get<RankFile>(read_rank_file(writer.path()));
  CHECK(file.notes.at(0) == "the file reached max_report_mb; later findings are absent");
  CHECK(file.summary);
}

TEST_CASE("once a record found no room below max_bytes, no smaller one follows it", "[records]") {
  const TemporaryDir dir;
  const auto opened = JsonlWriter::open(dir / "out", run_of(1), 20'000);
  JsonlWriter& writer = *opened.writer;
  CHECK(writer.write_step({.step = 1}));
  CHECK_FALSE(writer.write_model({.name = std::string(30'000, 'x')}));
  CHECK_FALSE(writer.write_step({.step = 2}));
  CHECK(writer.write_finding(sample_finding()));
}

TEST_CASE("a full disk is said once and ends writing", "[records]") {
  FileDescriptor full(::open("/dev/full", O_WRONLY));
  if (!full) DDPSCOPE_SKIP("no /dev/full");
  JsonlWriter writer(std::move(full), "out/rank-0.jsonl", 1 << 20);
  CHECK_FALSE(writer.write_finding(sample_finding()));
  CHECK(writer.failed());
  CHECK(writer.failure().find("No space left on device") != std::string::npos);
}

TEST_CASE("what finds no room any more is followed by the reason", "[records]") {
  const TemporaryDir dir;
  const std::string path = dir / "rank-0.jsonl";
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 8192, .rlim_max = 8192};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
    const auto opened = JsonlWriter::open(dir.path(), sample_run(0, 2));
    for (int i = 0; i < 100 && opened.writer->write_finding(sample_finding()); ++i) continue;
    ::_exit(opened.writer->failed() && !opened.writer->write_summary({}) ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  const auto file = std::get<RankFile>(read_rank_file(path));
  CHECK(file.ran_out);
  CHECK_FALSE(file.truncated);
  CHECK(file.notes.at(0) == "the rank could write no more: File too large");
}

TEST_CASE("a file that has the number of the closed one is left alone", "[records]") {
  const TemporaryDir dir;
  auto opened = JsonlWriter::open(dir.path(), run_of(1));
  REQUIRE(opened.error == "");
  const int number = opened.writer->descriptor();
  const std::string other = dir / "other";
  REQUIRE(::dup2(::open(other.c_str(), O_RDWR | O_CREAT, 0600), number) == number);
  REQUIRE(::write(number, "of the program", 14) == 14);
  CHECK_FALSE(opened.writer->write_finding(sample_finding()));
  CHECK_FALSE(opened.writer->sync());
  CHECK(opened.writer->failed());
  CHECK(opened.writer->failure() == dir / "rank-0.jsonl: the program closed this file");
  opened.writer.reset();
  CHECK(fs::file_size(other) == 14);
  CHECK(::close(number) == 0);
}

TEST_CASE("secrets are cut out of the command", "[records]") {
  using Command = std::vector<std::string>;
  CHECK(redact_command({"--token", "x", "-v"}) == Command{"--token", "***", "-v"});
  CHECK(redact_command({"--api-key=x"}) == Command{"--api-key=***"});
  CHECK(redact_command({"--hub_token", "x", "--password", "y"}) ==
        Command{"--hub_token", "***", "--password", "***"});
  CHECK(redact_command({"--secret", "--epochs", "3"}) == Command{"--secret", "--epochs", "3"});
  CHECK(redact_command({"AWS_SECRET_ACCESS_KEY=x"}) == Command{"AWS_SECRET_ACCESS_KEY=***"});
  CHECK(redact_command({"--id", "AKIAABCDEFGHIJKLMNOP"}) == Command{"--id", "***"});
  CHECK(redact_command({"http://u:p@h/x"}) == Command{"http://u:***@h/x"});
  CHECK(redact_command({"https://u:p@h/x?token=t"}) == Command{"https://u:***@h/x?token=***"});
  CHECK(redact_command({"--peers=https://u:p@g,https://v:q@h/@", "https://h/a:b@c"}) ==
        Command{"--peers=https://u:***@g,https://v:***@h/@", "https://h/a:b@c"});
  CHECK(redact_command({"password=x y", "hunter2"}) == Command{"password=***", "hunter2"});
  CHECK(redact_command({"--env=HF_TOKEN=x", "-e", "DB_PASS=y"}) ==
        Command{"--env=HF_TOKEN=***", "-e", "DB_PASS=***"});
  CHECK(redact_command({"https://h/x?a=1&token=x&b=2"}) == Command{"https://h/x?a=1&token=***"});
  CHECK(redact_command({"{\"api_key\": \"x\"}"}) == Command{"{\"api_key\":***"});
  CHECK(redact_command({"--header", "Authorization: Basic eA=="}) ==
        Command{"--header", "Authorization:***"});
  CHECK(redact_command({"--Auth", "x", "--id", "eyJhbGciOiJIUzI1NiJ9.e30.x"}) ==
        Command{"--Auth", "***", "--id", "***"});
  CHECK(redact_command({"--addr=host:29500", "--lr=1e-3", "a:b=c", "--monkey=1"}) ==
        Command{"--addr=host:29500", "--lr=1e-3", "a:b=c", "--monkey=1"});
  CHECK(redact_command({"--tokenizer", "gpt2", "--max-tokens", "8"}) ==
        Command{"--tokenizer", "gpt2", "--max-tokens", "8"});
}

}  // namespace
}  // namespace ddpscope::test::jsonl_writer_test
