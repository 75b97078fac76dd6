// The file named by `suppressions`, and its lines that had no effect.
#include <fstream>

#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
// Two errors: a tensor that is registered nowhere, and a layer that no optimizer holds.
int train_suppressed(const std::string& suppressions) {
  const std::string file = report_dir() + ".suppressions";
  std::ofstream(file) << suppressions;
  const std::string settings = "console=full:suppressions=" + file;
  setenv("DDPSCOPE", (settings + ":report_dir=" + report_dir()).c_str(), 1);
  Side net;
  const at::Tensor scale = torch::ones({8}, torch::requires_grad());
  attach_diagnostics(net);
  torch::optim::SGD optimizer(net->body->parameters(), 0.01);
  train(optimizer, [&] {
    const at::Tensor out = net->body(torch::randn({5, 8})) * scale;
    return out.square().mean() + net->side(out).square().mean();
  });
  unlink(file.c_str());
  return 0;
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}
}  // namespace

TEST_CASE("A run names the suppressions that had no effect when it ends") {
  const Outcome outcome = in_child([] {
    return train_suppressed(
        "module-unregistered # known\n"
        "optim-missing-parameter:module=side:until=2020-12-31 # was to be repaired by then\n"
        "# of another model\n"
        "grad-missing:module=decoder.* # known\n");
  });
  CHECK(outcome.exit_code == 0);
  const std::string file = report_dir() + ".suppressions";
  CHECK(times(outcome.said, "  suppression: ") == 2);
  CHECK(times(outcome.said, "  suppression: " + file +
                                ":2: optim-missing-parameter:module=side:until=2020-12-31: "
                                "expired after 2020-12-31\n") == 1);
  CHECK(times(outcome.said, "  suppression: " + file +
                                ":4: grad-missing:module=decoder.*: matched no finding\n") == 1);
  CHECK(times(outcome.said, "suppressed: 1\n") == 1);
  CHECK(times(outcome.said, "ddpscope: 1 error, ") == 1);
  CHECK(times(outcome.said, "[module-unregistered]") == 0);
  CHECK(records("suppression").size() == 3);
}

TEST_CASE("A run whose suppressions were all used says nothing of them") {
  const Outcome outcome = in_child([] {
    return train_suppressed("module-unregistered # known\noptim-*:module=side # known\n");
  });
  CHECK(outcome.exit_code == 0);
  CHECK(times(outcome.said, "  suppression: ") == 0);
  CHECK(times(outcome.said, "suppressed: 2\n") == 1);
  CHECK(times(outcome.said, "ddpscope: 0 errors, 0 warnings") == 1);
}

}  // namespace ddpscope::test
