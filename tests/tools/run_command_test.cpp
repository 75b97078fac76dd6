#include <fstream>

#include "records/launch_file.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"
#include "tests/tools/run_tool.h"

using namespace ddpscope;

TEST_CASE("run gives every rank its environment and prefixes its lines", "[tools]") {
  const TemporaryDir dir;
  const auto run = run_shell("ddpscope run --nproc 2 --master-port 4321 --out " + (dir / "o") +
                             " -- sh -c 'echo $RANK/$WORLD_SIZE $MASTER_PORT $DDPSCOPE'");
  CHECK(run.says("[rank 0] 0/2 4321 report_dir=" + (dir / "o") + "\n"));
  CHECK(run.says("[rank 1] 1/2 4321 "));
  CHECK(run.says("OMP_NUM_THREADS="));
  CHECK(run.says("no rank wrote a record into " + (dir / "o") + "; nothing was diagnosed"));
  CHECK(run.code == 4);
}

TEST_CASE("run follows the config_file that DDPSCOPE names, and --out before it", "[tools]") {
  const TemporaryDir dir;
  std::ofstream(dir / "job.conf") << "report_dir=" << (dir / "from-file") << "\nfail_on=note\n";
  const std::string command = "DDPSCOPE=config_file=" + (dir / "job.conf") + " ddpscope run ";
  const std::string program = " -- sh -c 'echo $DDPSCOPE'";
  CHECK(run_shell(command + program).says("report_dir=" + (dir / "from-file") + "\n"));
  CHECK(std::filesystem::exists(dir / "from-file"));
  CHECK(run_shell(command + "--out " + (dir / "o") + program).says("report_dir=" + (dir / "o")));
  std::ofstream(dir / "job.conf") << "fial_on=note\n";
  const auto wrong = run_shell(command + program);
  CHECK(wrong.code == 2);
  CHECK(wrong.says("fial_on"));
}

TEST_CASE("run gives its ranks one run id and each launch another", "[tools]") {
  const TemporaryDir dir;
  const std::string launch = "ddpscope run --nproc 2 --out " + (dir / "o") +
                             " -- sh -c 'echo $DDPSCOPE_RUN_ID' | sed -n 's/^.rank ..//p'";
  CHECK(run_shell(launch + " | sort -u | wc -l").says("\n1\n"));
  CHECK(run_shell("{ " + launch + "; " + launch + "; } | sort -u | wc -l").says("\n2\n"));
}

TEST_CASE("run bears a limit of files, which its ranks meet as they would alone", "[tools]") {
  const TemporaryDir dir;
  const std::string write = "head -c 4096 /dev/zero >" + (dir / "x");
  const auto run = run_shell("ulimit -f 2; ddpscope run --out " + (dir / "o") +
                             " -- sh -c 'head -c 4096 /dev/zero; kill -l 25; exec " + write + "'");
  CHECK(run.says("the output of a rank can no longer be stored: its log cannot be written"));
  CHECK(run.says("XFSZ"));
  CHECK(run.code == 128 + 25);
}

TEST_CASE("run says the verdict and returns the program's code where it writes no report",
          "[tools]") {
  const TemporaryDir dir;
  const auto program = [&](int code) {
    return run_shell("rm -rf " + (dir / "o") + "; ddpscope run --out " + (dir / "o") +
                     " -- sh -c 'cp " DDPSCOPE_KEPT_DIR "/finished/rank-0.jsonl " + (dir / "o") +
                     " && mkdir " + (dir / "o/report.html") + " && exit " + std::to_string(code) +
                     "'");
  };
  const auto failed = program(9);
  CHECK(failed.code == 9);
  CHECK(failed.says("checks: "));
  CHECK(failed.says("ddpscope: error: " + (dir / "o/report.html") + ": "));
  CHECK(std::filesystem::exists(dir / "o/report.json"));
  CHECK(program(0).code == 3);
}

TEST_CASE("run returns the program's own code where its records are gone", "[tools]") {
  const TemporaryDir dir;
  const auto run = run_shell("ddpscope run --out " + (dir / "o") + " -- sh -c 'rm -r " +
                             (dir / "o") + "; exit 9'");
  CHECK(run.code == 9);
}

TEST_CASE("run returns the program's own code", "[tools]") {
  const TemporaryDir dir;
  const auto out = " --out " + (dir / "o") + " -- ";
  CHECK(run_shell("ddpscope run" + out + "sh -c 'exit 9'").code == 9);
  CHECK(run_shell("ddpscope run" + out + "sh -c 'kill -TERM $$'").code == 143);
  const auto absent = run_shell("ddpscope run" + out + "/nonexistent/program");
  CHECK(absent.code == 127);
  CHECK(absent.says("cannot start /nonexistent/program: No such file or directory"));
  CHECK(run_shell("ddpscope run" + out + "/").code == 126);
}

TEST_CASE("run names the rank that failed first and its last error line", "[tools]") {
  const TemporaryDir dir;
  const auto run = run_shell("ddpscope run --nproc 2 --out " + (dir / "o") +
                             " -- sh -c '[ $RANK = 1 ] && { echo bad >&2; exit 3; }; sleep 60'");
  CHECK(run.code == 3);
  CHECK(run.says("rank 1 failed first: exit code 3 after "));
  CHECK(run.says("its last error line: bad"));
}

TEST_CASE("run says that the port it chose was taken, and of no port that the user named",
          "[tools]") {
  const bool is_named = GENERATE(false, true);
  const TemporaryDir dir;
  const std::string port = is_named ? "--master-port 4321 " : "";
  const auto run = run_shell("ddpscope run " + port + "--out " + (dir / "o") +
                             " -- sh -c 'echo Error: EADDRINUSE >&2; exit 3'");
  CHECK(run.code == 3);
  CHECK(run.says("was free when it was chosen, and is taken now") != is_named);
}

TEST_CASE("run takes no line of ddpscope for a rank's last error line", "[tools]") {
  const TemporaryDir dir;
  const std::string start = "ddpscope run --out " + (dir / "o") + " -- sh -c '";
  const std::string told =
      "{ echo \"rank 0 step 4 head: warning: a [grad-missing]\"; echo \"  why: b\"; "
      "echo \"ddpscope: 1 error\"; } >&2; exit 3'";
  CHECK(run_shell(start + "echo bad >&2; " + told).says("its last error line: bad\n"));
  const auto silent = run_shell(start + told);
  CHECK(silent.says("rank 0 failed first: exit code 3 after "));
  CHECK_FALSE(silent.says("its last error line"));
}

TEST_CASE("run leaves how each rank ended in launch.json", "[tools]") {
  const TemporaryDir dir;
  run_shell("ddpscope run --nproc 2 --out " + (dir / "o") +
            " -- sh -c '[ $RANK = 1 ] && kill -KILL $$; sleep 60'");
  const auto result = read_launch_file(dir / "o/launch.json");
  REQUIRE(std::holds_alternative<LaunchRecord>(result));
  const auto& ranks = std::get<LaunchRecord>(result).ranks;
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].signal == "SIGTERM");
  CHECK(ranks[0].stopped);
  CHECK(ranks[1].signal == "SIGKILL");
  CHECK_FALSE(ranks[1].stopped);
}

TEST_CASE("run passes arguments after -- unchanged", "[tools]") {
  const TemporaryDir dir;
  const auto run = run_shell("ddpscope run --out " + (dir / "o") + " -- echo list -- --help 'a b'");
  CHECK(run.says("[rank 0] list -- --help a b\n"));
}

TEST_CASE("run passes SIGTERM to the ranks", "[tools]") {
  const TemporaryDir dir;
  const auto run = run_shell(
      "'" DDPSCOPE_TOOL "' run --out " + (dir / "o") +
      " -- sh -c 'trap \"echo got it; exit 5\" TERM; echo ready; while :; do sleep 0.1; done' & "
      "sleep 1; kill -TERM $!; wait $!");
  CHECK(run.says("[rank 0] got it"));
  CHECK(run.says("SIGTERM (signal 15) received and passed to the ranks"));
  CHECK(run.code == 5);
}

TEST_CASE("run blames no rank for the signal that it was given itself", "[tools]") {
  const TemporaryDir dir;
  const auto run = run_shell("'" DDPSCOPE_TOOL "' run --nproc 2 --out " + (dir / "o") +
                             " -- sh -c 'echo ready >&2; exec sleep 60' & "
                             "sleep 1; kill -TERM $!; wait $!");
  CHECK(run.code == 143);
  CHECK(run.says("the run was ended by SIGTERM (signal 15), which ddpscope run was given"));
  CHECK_FALSE(run.says("failed"));
  CHECK_FALSE(run.says("its last error line"));
}

TEST_CASE("ranks end when the launcher is killed", "[tools]") {
  const TemporaryDir dir;
  const auto run = run_shell(
      "'" DDPSCOPE_TOOL "' run --out " + (dir / "o") + " -- sh -c 'echo $$ > " + (dir / "pid") +
      "; exec sleep 60' & sleep 1; kill -KILL $!; sleep 0.5; rank=$(cat " + (dir / "pid") +
      ") && grep -s 'State:.[^Z]' /proc/$rank/status || echo \"rank ${rank:+ended}\"");
  CHECK(run.says("rank ended"));
}

TEST_CASE("run leaves an off word alone and says so", "[tools]") {
  const TemporaryDir dir;
  const auto run = run_shell("DDPSCOPE=off '" DDPSCOPE_TOOL "' run --out " + (dir / "o") +
                             " -- sh -c 'echo =$DDPSCOPE='");
  CHECK(run.says("[rank 0] =off="));
  CHECK(run.says("ran undiagnosed"));
  CHECK(run.code == 0);
}

TEST_CASE("run refuses wrong settings before it starts anything", "[tools]") {
  const TemporaryDir dir;
  const auto started = " run --out " + (dir / "o") + " -- echo started";
  auto run = run_shell("DDPSCOPE=chekcs=x '" DDPSCOPE_TOOL "'" + started);
  CHECK(run.code == 2);
  CHECK(run.says("did you mean \"checks\"?"));
  CHECK(!run.says("started"));
  run = run_shell("DDPSCOPE=suppressions=/nonexistent '" DDPSCOPE_TOOL "'" + started);
  CHECK(run.code == 2);
  CHECK(run.says("error: DDPSCOPE: suppressions=\"/nonexistent\" is not a readable file"));
  run = run_shell("DDPSCOPE=report_dir=x%r '" DDPSCOPE_TOOL "' run -- echo started");
  CHECK(run.code == 2);
  CHECK(run.says("--out"));
}

TEST_CASE("run refuses a folder that the settings of its ranks cannot carry", "[tools]") {
  const TemporaryDir dir;
  const auto run_into = [&dir](const std::string& name) {
    return run_shell("cd " + dir.path() + " && ddpscope run --out \"$(printf '" + name +
                     "')\" -- echo started");
  };
  const auto two_lines = run_into("a\\nb");
  CHECK(two_lines.code == 2);
  CHECK(two_lines.says(" is not text without control characters"));
  CHECK_FALSE(two_lines.says("started"));
  CHECK(run_into("c ").says("error: --out: report_dir cannot end in a blank"));
  CHECK(std::filesystem::is_empty(dir.path()));
  CHECK(run_into("a:%%b c").says("started"));
}

TEST_CASE("run moves an earlier report aside", "[tools]") {
  const TemporaryDir dir;
  const auto line = "ddpscope run --out " + (dir / "o") + " -- echo ";
  run_shell(line + "first");
  run_shell(line + "second");
  std::string text;
  std::getline(std::ifstream(dir / "o.1/rank-0.log") >> std::ws, text);
  CHECK(text == "first");
}
