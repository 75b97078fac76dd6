// What hooks promise beside their calls: errors, ends, order, refusals.
#include "tests/plugin/hook_log.h"
#include "tests/support/torch_test.h"

namespace ddpscope::test {
namespace {
using torch::nn::Linear;
using torch::nn::ReLU;
using torch::nn::Sequential;

// What an std::invalid_argument said.
template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("A forward that throws has a begin and no end") {
  HookLog log;
  Linear layer(8, 4);
  HookHandle before = register_forward_pre_hook(layer, log.before());
  const HookHandle after = register_forward_hook(layer, log.after());
  CHECK_THROWS_AS(layer(torch::randn({2, 3})), c10::Error);
  CHECK(log.take() == Lines{"<"});
  layer(torch::randn({2, 8}));
  CHECK(log.take() == Lines{"<", ">"});
  before.remove();
  layer(torch::randn({2, 8}));
  CHECK(log.take() == Lines{">"});
}

TEST_CASE("What a callback throws reaches the caller of forward") {
  struct Mine {};
  HookLog log;
  Linear layer(8, 4);
  const HookHandle watched = register_forward_hook(layer, log.after());
  {
    const HookHandle hook = register_forward_pre_hook(layer, [](const auto&) { throw Mine(); });
    CHECK_THROWS_AS(layer(torch::randn({2, 8})), Mine);
    CHECK(log.size() == 0);
  }
  {
    const HookHandle hook = register_forward_hook(layer, [](const ForwardCall&) { throw Mine(); });
    CHECK_THROWS_AS(layer(torch::randn({2, 8})), Mine);
    CHECK(log.take() == Lines{">"});
  }
  layer(torch::randn({2, 8}));
  CHECK(log.take() == Lines{">"});
}

TEST_CASE("Hooks run in order of registration") {
  HookLog log;
  Sequential net(Linear(4, 4));
  const HookHandle first = register_forward_hook(net->ptr(0), log.after("first"));
  const HookHandle second = register_module_hook(net, {.after = log.after("second")});
  const HookHandle third = register_forward_hook(net->ptr(0), log.after("third"));
  net->forward(torch::randn({2, 4}));
  CHECK(log.take() == Lines{"first>", "second>0", "third>"});
}

TEST_CASE("A hook may remove itself and others while it runs") {
  HookLog log;
  Linear layer(4, 4);
  HookHandle mine;
  HookHandle other;
  const HookHandle kept = register_forward_hook(layer, log.after("kept"));
  mine = register_forward_hook(layer, [&](const ForwardCall&) {
    log.add("mine");
    mine.remove();
    mine.remove();
    other.remove();
  });
  other = register_forward_hook(layer, log.after("other"));
  layer(torch::randn({2, 4}));
  CHECK(log.take() == Lines{"kept>", "mine"});
  layer(torch::randn({2, 4}));
  CHECK(log.take() == Lines{"kept>"});
}

TEST_CASE("What a callback calls fires no hooks") {
  Linear layer(4, 4);
  int calls = 0;
  const HookHandle hook = register_forward_hook(layer, [&](const ForwardCall& call) {
    ++calls;
    layer(call.inputs[0]);
  });
  layer(torch::randn({2, 4}));
  CHECK(calls == 1);
}

TEST_CASE("A handle may end its hook or release it or hand it on") {
  HookLog log;
  Linear layer(4, 4);
  const at::Tensor input = torch::randn({2, 4});
  { const HookHandle hook = register_forward_hook(layer, log.after("ended")); }
  register_forward_hook(layer, log.after("released")).release();
  HookHandle moved = register_forward_hook(layer, log.after("moved"));
  HookHandle holder = std::move(moved);
  moved.remove();
  layer(input);
  CHECK(log.take() == Lines{"released>", "moved>"});
  holder = register_forward_hook(layer, log.after("next"));
  layer(input);
  CHECK(log.take() == Lines{"released>", "next>"});
}

TEST_CASE("A hook never fires for another module at the same address") {
  HookLog log;
  alignas(torch::nn::LinearImpl) std::byte place[sizeof(torch::nn::LinearImpl)];
  auto* const first = new (place) torch::nn::LinearImpl(4, 4);
  HookHandle hook = register_forward_hook(*first, log.after());
  first->forward(torch::randn({2, 4}));
  CHECK(log.take() == Lines{">"});
  first->~LinearImpl();
  auto* const second = new (place) torch::nn::LinearImpl(4, 4);
  second->forward(torch::randn({2, 4}));
  CHECK(log.size() == 0);
  hook.remove();
  second->~LinearImpl();
}

TEST_CASE("A handle outlives its module") {
  HookLog log;
  HookHandle hook;
  HookHandle tree;
  {
    Net net;
    hook = register_forward_hook(net->first, log.after());
    tree = register_module_hook(net, log.both());
  }
  hook.remove();
  tree.remove();
  CHECK(log.size() == 0);
}

TEST_CASE("Clones and copies carry no hooks") {
  HookLog log;
  torch::nn::LinearImpl layer(4, 4);
  const HookHandle hook = register_forward_hook(layer, log.after());
  torch::nn::LinearImpl copy(layer);
  copy.forward(torch::randn({2, 4}));
  const auto clone = std::dynamic_pointer_cast<torch::nn::LinearImpl>(layer.clone());
  clone->forward(torch::randn({2, 4}));
  CHECK(log.size() == 0);
  layer.forward(torch::randn({2, 4}));
  CHECK(log.take() == Lines{">"});
}

TEST_CASE("What has no single tensor to replace is refused by its type") {
  const auto replace = [](const ForwardCall& call) { return call.outputs[0]; };
  const auto register_for = [&](const HookTarget& target) {
    return refusal_of([&] { register_forward_hook(target, replace).remove(); });
  };
  CHECK(register_for(torch::nn::LSTM(4, 4)) ==
        "register_forward_hook: the output of torch::nn::LSTMImpl cannot be replaced: its forward "
        "does not return one tensor");
  CHECK(register_for(Net()) ==
        "register_forward_hook: the output of ddpscope::test::NetImpl cannot be replaced: its "
        "forward is not seen exactly");
  CHECK(register_for(torch::nn::BatchNorm1d(4)).empty());
}

TEST_CASE("Nothing to hook and nothing to call are refused by name") {
  HookLog log;
  const std::shared_ptr<torch::nn::LinearImpl> null;
  const Linear empty(nullptr);
  Linear layer(4, 4);
  CHECK(refusal_of([&] { register_forward_hook(null, log.after()).remove(); }) ==
        "register_forward_hook: the pointer is null");
  CHECK(refusal_of([&] { register_backward_hook(empty, [](const auto&) {}).remove(); }) ==
        "register_backward_hook: the holder is empty");
  CHECK(refusal_of([&] { register_forward_pre_hook(empty, log.before()).remove(); }) ==
        "register_forward_pre_hook: the holder is empty");
  CHECK(refusal_of([&] { register_module_hook(null, log.both()).remove(); }) ==
        "register_module_hook: the pointer is null");
  CHECK(refusal_of([&] { hook_coverage(empty); }) == "hook_coverage: the holder is empty");
  CHECK(refusal_of([&] { register_forward_pre_hook(layer, nullptr).remove(); }) ==
        "register_forward_pre_hook: no callback");
  CHECK(refusal_of([&] { register_module_hook(layer, {}).remove(); }) ==
        "register_module_hook: no callback");
}
}  // namespace ddpscope::test
