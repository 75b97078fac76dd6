// A correct program of a user. Linked in several ways by CMakeLists.txt.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

int main() {
  torch::nn::Linear net(4, 2);
  ddpscope::attach_diagnostics(net);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int i = 0; i < 4; ++i) {
    optimizer.zero_grad();
    net(torch::randn({3, 4})).square().mean().backward();
    optimizer.step();
  }
  return static_cast<int>(ddpscope::flush().errors);
}
