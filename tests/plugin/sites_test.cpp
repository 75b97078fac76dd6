// Where in the program findings happened.
#include <algorithm>

#include "tests/support/torch_test.h"

namespace ddpscope::test {

TEST_CASE("A finding has the frames of its sites") {
  Net net;
  attach_diagnostics(net, quiet());
  const at::Tensor saved = torch::sigmoid(net->forward(torch::randn({5, 8})).square().mean());
  saved.add_(1);
  CHECK_THROWS_AS(saved.backward(), c10::Error);
  const auto all = findings();
  const Finding* found = find(all, "autograd-inplace-saved");
  REQUIRE(found != nullptr);
  const auto& site = found->sites.back();
  CHECK(site.role == "changed");
  const auto own = std::ranges::find(site.frames, false, &Frame::library);
  REQUIRE(own != site.frames.end());
  CHECK_FALSE(own->function.empty());
  CHECK_FALSE(own->build_id.empty());
  CHECK(own->offset > 0);
  CHECK(own->module.find("libtorch") == std::string::npos);
  CHECK(std::ranges::any_of(site.frames, &Frame::library));
}

TEST_CASE("A finding about a loss has the line that calls it") {
  Net net;
  attach_diagnostics(net, quiet());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  const at::Tensor labels = torch::arange(8).remainder(4);
  const auto is_line_known = [](const std::string& id) {
    const auto all = findings();
    const Finding* found = find(all, id);
    return found != nullptr && found->sites.size() == 1 && found->sites[0].role == "called";
  };
  train(optimizer, [&] {
    const at::Tensor out = net->forward(torch::randn({8, 8}));
    return torch::mse_loss(out.slice(1, 0, 1), torch::ones({8})) +
           torch::cross_entropy_loss(torch::softmax(out, 1), labels);
  });
  CHECK(is_line_known("loss-broadcast"));
  CHECK(is_line_known("loss-double-softmax"));
  const at::Tensor out = net->forward(torch::randn({8, 8}));
  CHECK_THROWS_AS(torch::cross_entropy_loss(out, labels + 4), c10::Error);
  CHECK(is_line_known("loss-target-range"));
}

}  // namespace ddpscope::test
