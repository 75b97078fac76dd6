#pragma once

#include "records/rank_file.h"

namespace ddpscope {

/// One with frames of a library around those of the program, one of the program alone.
inline std::vector<Site> sample_sites() {
  const std::string torch = "/opt/torch/lib/libtorch_cpu.so";
  return {{"saved",
           {{"at::native_batch_norm", "aten/Operators.cpp", 7, torch, 0x99, "", "c0de", true},
            {"Encoder::forward", "src/model.cpp", 88, "bin/train", 0x1f20, "bn1(x);", "beef"},
            {"main", "src/main.cpp", 12, "bin/train", 0x1100, "train(net);", "beef"},
            {"__libc_start_main", "", 0, "/lib/libc.so.6", 0x55, "", "", true}}},
          {"changed", {{"sync_buffers", "src/ddp.cpp", 41, "bin/train", 0x2a00, "", "beef"}}}};
}

/// One finding with every member set.
inline Finding sample_finding() {
  return {
      .id = "norm-buffer-overwritten",
      .severity = Severity::kError,
      .confidence = Confidence::kHigh,
      .evidence_status = EvidenceStatus::kEstablished,
      .causal_role = CausalRole::kInitiating,
      .rank = 1,
      .step = 12,
      .phase = Phase::kBackward,
      .model = "net",
      .module_path = "encoder.bn1",
      .subject = "running_mean",
      .op = "aten::copy_",
      .what = "running_mean was overwritten after forward saved it: saved at version 3, now 4",
      .why = "the second forward of this step ran before the backward of the first",
      .fixes = {{"ddpscope::SyncBatchNorm2d", Applicability::kNeedsDecision},
                {"run one concatenated forward", Applicability::kSafe},
                {"sync buffers once per step", Applicability::kLikely}},
      .facts = {{"cause", std::string("broadcast")},
                {"saved_version", std::int64_t{3}},
                {"ratio", 0.5},
                {"registered", true},
                {"shape", std::vector<FactScalar>{std::int64_t{64}, std::int64_t{3}}}},
      .sites = sample_sites(),
      .first_step = 12,
      .last_step = 12,
      .occurrences = 1,
      .ranks = {},
      .caused_by = "",
      .fingerprint = "00c0ffee00c0ffee",
      .suppressed = false,
  };
}

inline RunRecord sample_run(std::int64_t rank, std::int64_t world_size) {
  return {.run_id = "run-a",
          .tool_version = "",
          .torch_version = "",
          .cuda = "",
          .nccl = "",
          .rank = rank,
          .local_rank = rank,
          .world_size = world_size,
          .host = "node0",
          .device = "cpu",
          .pid = 100 + rank,
          .started = "2030-01-01T00:00:00Z",
          .command = {"./train", "--epochs", "3"},
          .settings = {{"level", {"stacks", "environment"}}},
          .checks = {"norm-buffer-overwritten", "optim-unstepped", "grad-missing"},
          .blocked = {{"collective-order", "the gate is not first on the link line"}},
          .sources = {{"op", "live"}}};
}

inline SummaryRecord sample_summary() {
  return {.counts_by_id = {{"norm-buffer-overwritten", 1}},
          .errors = 1,
          .warnings = 0,
          .notes = 0,
          .steps = 120,
          .passed = {"optim-unstepped", "grad-missing"},
          .failed = {},
          .blocked = {{"collective-order", "the gate is not first on the link line"}},
          .events_dropped = 0,
          .overhead_percent = 1.25,
          .overhead_percent_first = 6.5,
          .overhead = {{"grad-missing",
                        {12.5, 0.25, CostShare{40, 1.5}, CostShare{10, 0.125}, 0.5, 16}}},
          .watched = WatchedCost{.share = 0.5, .pairs = 9, .resting_ms = 4, .extra_percent = 2},
          .clean_exit = true};
}

inline ModelRecord sample_model() {
  return {.name = "net",
          .class_name = "Net",
          .parameters = 12,
          .elements = 4096,
          .trainable = 12,
          .buffers = 3,
          .modules = 7,
          .digest = "abcd",
          .tree = {{.path = "", .class_name = "Net"},
                   {.path = "body", .class_name = "torch::nn::SequentialImpl"},
                   {.path = "body.0",
                    .class_name = "torch::nn::LinearImpl",
                    .parameters = 2,
                    .trainable = 0,
                    .elements = 1056},
                   {.path = "head",
                    .class_name = "torch::nn::LinearImpl",
                    .parameters = 2,
                    .trainable = 1,
                    .elements = 330}}};
}

/// Three steps of 20 ms.
inline std::vector<StepRecord> sample_steps() {
  std::vector<StepRecord> steps;
  for (std::int64_t step = 1; step <= 3; ++step) {
    const std::int64_t end_ns = 1'500'000'000 + step * 20'000'000;
    steps.push_back({.step = step,
                     .wall_ms = 20,
                     .overhead_us = 300.0 / step,
                     .time_unix_ns = end_ns,
                     .loss = 1.5 / step,
                     .gradient_norm = 4});
  }
  return steps;
}

/// Rank 0 with one cascade and one note, rank 1 with the cause; ranks 2 and 3 are absent.
inline std::vector<RankFile> sample_files() {
  Finding cascade = sample_finding();
  cascade.id = "numeric-nonfinite-loss";
  cascade.causal_role = CausalRole::kCascade;
  cascade.rank = 0;
  cascade.step = cascade.first_step = 13;
  cascade.last_step = 20;
  cascade.occurrences = 8;
  cascade.module_path = "head";
  cascade.what = "the loss is NaN";
  cascade.why = "";
  cascade.sites = {{"used", {}, SiteState::kEvicted}};
  cascade.fixes.clear();
  cascade.caused_by = sample_finding().fingerprint;
  cascade.fingerprint = "1111111111111111";
  Finding note = cascade;
  note.id = "perf-sync-calls";
  note.severity = Severity::kNote;
  note.step = 3;
  note.what = "the host waits 4 times per step for <device> \"0\" & others";
  note.caused_by = "";
  note.fingerprint = "2222222222222222";
  RankFile first = {.path = "out/rank-0.jsonl", .run = sample_run(0, 4)};
  first.models = {sample_model()};
  first.findings = {cascade, note};
  first.suppressions = {
      {"ci.txt", 2, "perf-*:until=2029-12-31", "2029-12-31", SuppressionState::kExpired},
      {"ci.txt", 3, "grad-missing", "", SuppressionState::kUnused}};
  first.summary = sample_summary();
  first.steps = sample_steps();
  RankFile second = {.path = "out/rank-1.jsonl", .run = sample_run(1, 4)};
  second.models = {sample_model()};
  second.findings = {sample_finding()};
  second.steps = {{.step = 1, .wall_ms = 20}, {.step = 12, .wall_ms = 90}};
  second.truncated = true;
  return {first, second};
}

}  // namespace ddpscope
