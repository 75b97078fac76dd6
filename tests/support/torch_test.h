#pragma once

// For programs that use ddpscope as its users do: the public header and nothing from the inside.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch.h"

namespace ddpscope::test {

/// Where this process reports to; removed at exit, after ddpscope has finished.
const std::string& report_dir();
/// Settings that report there, without console text.
Options quiet();
/// The lines of the rank file that are records of this kind, empty where there is no file.
std::vector<std::string> records(std::string_view kind, const std::string& dir = report_dir());
/// The value of a fact that is a text; "" if there is none.
std::string text_fact(const Finding& finding, const std::string& key);

/// The first finding of this id; null if there is none.
const Finding* find(const std::vector<Finding>& findings, const std::string& id);
/// The same, where there must be one.
const Finding& only(const std::vector<Finding>& all, const std::string& id);

/// A finding at or above warning: `id severity module_path subject cause op`, `-` for what is
/// empty. Exactly these must exist now, and when the process has ended.
void check_findings(std::vector<std::string> expected);
/// The same of what is decided only when the process ends.
void expect_at_exit(std::vector<std::string> expected);
/// No error and no warning, now and at exit, of a session that saw `models` and `steps` or more.
void check_silent(std::size_t models = 1, std::size_t steps = 4);

/// What became of `program` in a child of its own.
struct Outcome {
  int exit_code = -1;  ///< -1: a signal ended it
  int signal = 0;      ///< that one
  std::string said;    ///< on stderr
};
/// Runs `program` in a forked child, which ends as if `main` had returned its result. Only before
/// anything was attached.
Outcome in_child(const std::function<int()>& program);

/// `zero_grad`, backward of `loss`, `step`, so many times.
void train(torch::optim::Optimizer& optimizer, const std::function<at::Tensor()>& loss,
           int steps = 8);
/// The same by a closure that each `step` calls.
void train_by_closure(torch::optim::Optimizer& optimizer, const std::function<at::Tensor()>& loss,
                      int steps);

inline at::Tensor input() { return torch::randn({5, 8}); }

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Linear(8, 16))),
        second(register_module("second", torch::nn::Linear(16, 4))) {}
  at::Tensor forward(const at::Tensor& input) { return second(first(input).relu()); }
  at::Tensor loss() { return forward(input()).square().mean(); }
  torch::nn::Linear first;
  torch::nn::Linear second;
};
TORCH_MODULE(Net);

/// `body` trains; what becomes of `side` is the test's matter.
struct SideImpl : torch::nn::Module {
  at::Tensor main_loss() { return body(input()).square().mean(); }
  torch::nn::Linear body = register_module("body", torch::nn::Linear(8, 8));
  torch::nn::Linear side = register_module("side", torch::nn::Linear(8, 4));
};
TORCH_MODULE(Side);

}  // namespace ddpscope::test
