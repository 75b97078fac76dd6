// A network with a mistake: a vector registers nothing, so no optimizer gets its layers.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <vector>

struct NetImpl : torch::nn::Module {
  NetImpl() {
    for (int i = 0; i < 2; ++i) hidden.emplace_back(8, 8);
    head = register_module("head", torch::nn::Linear(8, 1));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (auto& layer : hidden) x = torch::relu(layer(x));
    return head(x);
  }
  std::vector<torch::nn::Linear> hidden;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Net);

int main() {
  torch::manual_seed(1);
  Net net;
  ddpscope::attach_diagnostics(net);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const auto x = torch::randn({32, 8});
    torch::mse_loss(net(x), x.sum(1, /*keepdim=*/true)).backward();
    optimizer.step();
  }
}
