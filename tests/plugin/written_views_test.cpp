// Views that autograd cannot rebase, written in place.
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
struct Gate : torch::nn::Module {
  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 8));
};

std::string this_file(int line) { return "written_views_test.cpp:" + std::to_string(line); }
}  // namespace

TEST_CASE("A view of several that is written in place is named with both sites") {
  Gate net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor x = net.first(input());
  const int made = __LINE__ + 1;
  auto parts = x.chunk(2, 1);
  CHECK_THROWS_AS(parts[0].mul_(2), c10::Error);
  expect_at_exit({"autograd-multiview-inplace error - - - aten::mul_",
                  "module-operator-failed error - - - aten::mul_"});
  const auto all = findings();
  CHECK(text_fact(only(all, "autograd-multiview-inplace"), "creator_site") == this_file(made));
}

TEST_CASE("A view that was made with grad mode off and is written is named with its line") {
  Gate net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor x = net.first(input());
  at::Tensor row;
  const int made = __LINE__ + 3;
  {
    const torch::NoGradGuard guard;
    row = x[0];
  }
  CHECK_THROWS_AS(row.add_(1), c10::Error);
  expect_at_exit({"autograd-multiview-inplace error - - - aten::add_",
                  "module-operator-failed error - - - aten::add_"});
  const auto all = findings();
  CHECK(text_fact(only(all, "autograd-multiview-inplace"), "creator_site") == this_file(made));
}

TEST_CASE("A part of a view of several is told with what made the several") {
  Gate net;
  attach_diagnostics(net, quiet());
  net.train();
  const at::Tensor x = net.first(input());
  const int made = __LINE__ + 1;
  const auto rows = x.unbind(0);
  CHECK_THROWS_AS(rows[2].slice(0, 1, 3).zero_(), c10::Error);
  expect_at_exit({"autograd-multiview-inplace error - - - aten::zero_",
                  "module-operator-failed error - - - aten::zero_"});
  const auto all = findings();
  const Finding& found = only(all, "autograd-multiview-inplace");
  CHECK(found.what == "a part of view 2 of 5 made by aten::unbind is written in place, [2]");
  CHECK(text_fact(found, "creator_site") == this_file(made));
}

}  // namespace ddpscope::test
