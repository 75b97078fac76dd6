#include "config/env.h"

#include <cstdlib>
#include <map>
#include <string>

#include "tests/support/catch.h"

using namespace ddpscope;  // NOLINT(google-build-using-namespace)

namespace {
using Variables = std::map<std::string, std::string>;

RankEnvironment ranks_of(const Variables& variables) {
  return rank_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}
}  // namespace

TEST_CASE("the environment tells unset from empty", "[config]") {
  setenv("DDPSCOPE_ENV_TEST", "", 1);
  CHECK(environment("DDPSCOPE_ENV_TEST") == "");
  unsetenv("DDPSCOPE_ENV_TEST");
  CHECK_FALSE(environment("DDPSCOPE_ENV_TEST").has_value());
}

TEST_CASE("without variables there is one rank", "[config]") {
  const auto ranks = ranks_of({});
  CHECK(ranks.rank == 0);
  CHECK(ranks.world_size == 1);
  CHECK(ranks.local_rank == 0);
  CHECK(ranks.source == "none");
  CHECK(ranks.messages.empty());
}

TEST_CASE("each launcher's variables are read in their order", "[config]") {
  Variables all = {
      {"RANK", "1"},           {"WORLD_SIZE", "8"},           {"SLURM_PROCID", "2"},
      {"SLURM_NTASKS", "8"},   {"SLURM_STEP_ID", "0"},        {"OMPI_COMM_WORLD_RANK", "3"},
      {"PMI_RANK", "4"},       {"OMPI_COMM_WORLD_SIZE", "8"}, {"PMI_SIZE", "8"},
      {"LOCAL_RANK", "5"},     {"SLURM_LOCALID", "6"},        {"OMPI_COMM_WORLD_LOCAL_RANK", "7"},
      {"MPI_LOCALRANKID", "0"}};
  CHECK(ranks_of(all).rank == 1);
  CHECK(ranks_of(all).source == "RANK/WORLD_SIZE");
  CHECK(ranks_of(all).local_rank == 5);
  all.erase("RANK");
  all.erase("WORLD_SIZE");
  all.erase("LOCAL_RANK");
  CHECK(ranks_of(all).rank == 2);
  CHECK(ranks_of(all).local_rank == 6);
  all.erase("SLURM_STEP_ID");
  all.erase("SLURM_LOCALID");
  CHECK(ranks_of(all).rank == 3);
  CHECK(ranks_of(all).local_rank == 7);
  all.erase("OMPI_COMM_WORLD_RANK");
  all.erase("OMPI_COMM_WORLD_SIZE");
  all.erase("OMPI_COMM_WORLD_LOCAL_RANK");
  CHECK(ranks_of(all).rank == 4);
  CHECK(ranks_of(all).world_size == 8);
  CHECK(ranks_of(all).source == "PMI_RANK/PMI_SIZE");
  CHECK(ranks_of(all).local_rank == 0);
  CHECK(ranks_of(all).messages.empty());
}

TEST_CASE("a launch is told by what its launcher gives every host", "[config]") {
  Variables all = {{"PMIX_NAMESPACE", "19"},
                   {"SLURM_JOB_ID", "7"},
                   {"SLURM_STEP_ID", "0"},
                   {"TORCHELASTIC_RUN_ID", "night"},
                   {"TORCHELASTIC_RESTART_COUNT", "2"},
                   {"MASTER_PORT", "29500"}};
  CHECK(ranks_of(all).launch == "pmix:19");
  all.erase("PMIX_NAMESPACE");
  CHECK(ranks_of(all).launch == "slurm:7.0:");
  all["SLURM_RESTART_COUNT"] = "1";
  CHECK(ranks_of(all).launch == "slurm:7.0:1");
  all.erase("SLURM_STEP_ID");  // a shell in an allocation
  CHECK(ranks_of(all).launch == "torchrun:night:2:29500");
  all["TORCHELASTIC_RUN_ID"] = "none";
  CHECK(ranks_of(all).launch == "");
  CHECK(ranks_of({}).launch == "");
}

TEST_CASE("the ranks of this host are counted by launcher or by the master's address", "[config]") {
  Variables all = {{"RANK", "1"},
                   {"WORLD_SIZE", "8"},
                   {"LOCAL_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                   {"MPI_LOCALNRANKS", "2"},
                   {"MASTER_ADDR", "127.0.0.1"}};
  CHECK(ranks_of(all).local_world_size == 4);
  all["LOCAL_WORLD_SIZE"] = "9";  // more than there are
  CHECK(ranks_of(all).local_world_size == 3);
  all.erase("OMPI_COMM_WORLD_LOCAL_SIZE");
  CHECK(ranks_of(all).local_world_size == 2);
  all.erase("MPI_LOCALNRANKS");
  CHECK(ranks_of(all).local_world_size == 8);
  all["MASTER_ADDR"] = "node7";
  CHECK(ranks_of(all).local_world_size == 1);
  CHECK(ranks_of(all).messages.empty());
}

TEST_CASE("values that are no use are not used and one line says so", "[config]") {
  struct Case {
    Variables variables;
    std::string message;
  };
  const Case cases[] = {
      {{{"RANK", "x"}, {"WORLD_SIZE", "2"}},
       R"(RANK="x" is not a rank from 0 to 1; RANK/WORLD_SIZE is not used)"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}},
       R"(RANK="-1" is not a rank from 0 to 1; RANK/WORLD_SIZE is not used)"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}},
       R"(RANK="2" is not a rank from 0 to 1; RANK/WORLD_SIZE is not used)"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}},
       R"(WORLD_SIZE="0" is not a whole number of ranks from 1 to 1048576; )"
       R"(RANK/WORLD_SIZE is not used)"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "99999999999999999999"}},
       R"(WORLD_SIZE="99999999999999999999" is not a whole number of ranks from 1 to 1048576; )"
       R"(RANK/WORLD_SIZE is not used)"},
      {{{"RANK", "0"}}, "WORLD_SIZE is not set; RANK/WORLD_SIZE is not used"},
      {{{"WORLD_SIZE", "4"}, {"RANK", " "}}, "RANK is not set; RANK/WORLD_SIZE is not used"},
      {{{"LOCAL_RANK", "1\x1b"}},
       R"(LOCAL_RANK="1\x1b" is not a local rank from 0 to 0; it is not used)"},
  };
  for (const auto& one : cases) {
    const auto ranks = ranks_of(one.variables);
    CHECK(ranks.messages == std::vector<std::string>{one.message});
    CHECK(ranks.rank == 0);
    CHECK(ranks.world_size == 1);
    CHECK(ranks.local_rank == 0);
  }
}

TEST_CASE("a pair that is no use leaves the place to the next", "[config]") {
  const auto ranks = ranks_of({{"RANK", "9"},
                               {"WORLD_SIZE", "4"},
                               {"PMI_RANK", "1"},
                               {"PMI_SIZE", "4"},
                               {"LOCAL_RANK", "9"},
                               {"MPI_LOCALRANKID", "1"}});
  CHECK(ranks.rank == 1);
  CHECK(ranks.source == "PMI_RANK/PMI_SIZE");
  CHECK(ranks.local_rank == 1);
  CHECK(ranks.messages.size() == 2);
}
