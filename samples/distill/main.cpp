// A wide teacher learns to tell the arms of a spiral apart, then a narrow student learns from the
// teacher's answers and from its features. `--bug NAME` plants one of the mistakes marked BUG.
#include <ddpscope/ddpscope.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>
#include <numbers>

#include "samples/support/arguments.h"

namespace distill {

constexpr std::int64_t kArms = 3;
constexpr double kTemperature = 2;

const samples::BugNames kBugs = {"adapter-under-guard", "teacher-optimized", "no-zero-grad",
                                 "no-eval"};

struct Answer {
  torch::Tensor features;
  torch::Tensor logits;
};

struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t width) {
    stem = register_module("stem", torch::nn::Linear(2, width));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
    hidden = register_module("hidden", torch::nn::Linear(width, width));
    dropout = register_module("dropout", torch::nn::Dropout(0.1));
    head = register_module("head", torch::nn::Linear(width, kArms));
  }

  Answer forward(const torch::Tensor& points) {
    auto x = torch::relu(norm(stem(points)));
    x = dropout(torch::relu(hidden(x)));
    return {x, head(x)};
  }

  torch::nn::Linear stem{nullptr}, hidden{nullptr}, head{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Net);

struct StudentImpl : torch::nn::Module {
  StudentImpl(std::int64_t width, std::int64_t teacher_width) {
    net = register_module("net", Net(width));
    adapter = register_module("adapter", torch::nn::Linear(width, teacher_width));
  }
  Net net{nullptr};
  torch::nn::Linear adapter{nullptr};  ///< from the student's features to the teacher's
};
TORCH_MODULE(Student);

struct Points {
  torch::Tensor places;
  torch::Tensor arms;
};

Points draw_points() {
  constexpr std::int64_t kPoints = 192;
  const auto arms = torch::randint(kArms, {kPoints});
  const auto radius = torch::rand({kPoints});
  const auto angle = 3 * radius + arms * (2 * std::numbers::pi / kArms);
  const auto places = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
  return {places + 0.02 * torch::randn_like(places), arms};
}

void report(const char* who, Net net, const samples::Arguments& arguments) {
  torch::NoGradGuard guard;
  if (!arguments.has("no-eval")) net->eval();  // BUG
  const Points points = draw_points();
  const auto right = net->forward(points.places).logits.argmax(1).eq(points.arms);
  std::printf("%s: accuracy %.1f %%\n", who, 100 * right.to(torch::kFloat32).mean().item<double>());
}

void train_teacher(Net& teacher, const samples::Arguments& arguments) {
  torch::optim::Adam optimizer(teacher->parameters(), 0.01);
  teacher->train();
  for (std::int64_t step = 0; step < arguments.steps; ++step) {
    const Points points = draw_points();
    optimizer.zero_grad();
    torch::cross_entropy_loss(teacher(points.places).logits, points.arms).backward();
    optimizer.step();
  }
  report("teacher", teacher, arguments);
}

torch::Tensor student_loss(Net& teacher, Student& student, const samples::Arguments& arguments) {
  const Points points = draw_points();
  const Answer given = student->net(points.places);
  Answer wanted;
  torch::Tensor adapted;
  {
    torch::NoGradGuard guard;
    wanted = teacher(points.places);
    if (arguments.has("adapter-under-guard")) adapted = student->adapter(given.features);  // BUG
  }
  if (!adapted.defined()) adapted = student->adapter(given.features);
  const auto soft = [](const torch::Tensor& logits) {
    return torch::log_softmax(logits / kTemperature, 1);
  };
  const auto divergence = torch::nn::functional::kl_div(
      soft(given.logits), soft(wanted.logits),
      torch::nn::functional::KLDivFuncOptions().reduction(torch::kBatchMean).log_target(true));
  return divergence + 0.1 * torch::mse_loss(adapted, wanted.features);
}

void train_student(Net& teacher, Student& student, const samples::Arguments& arguments) {
  auto parameters = student->parameters();
  if (arguments.has("teacher-optimized")) parameters = teacher->parameters();  // BUG
  torch::optim::Adam optimizer(parameters, 0.01);
  teacher->eval();
  student->train();
  for (std::int64_t step = 0; step < arguments.steps; ++step) {
    if (!arguments.has("no-zero-grad")) optimizer.zero_grad();  // BUG
    student_loss(teacher, student, arguments).backward();
    optimizer.step();
  }
  report("student", student->net, arguments);
}

}  // namespace distill

int main(int argc, char** argv) try {
  const auto arguments = samples::parse(argc, argv, distill::kBugs, {.steps = 100});
  if (arguments.only_lists) return 0;
  torch::set_num_threads(1);
  torch::manual_seed(arguments.seed);
  distill::Net teacher(48);
  distill::Student student(12, 48);
  if (arguments.diagnostics) {
    ddpscope::attach_diagnostics(teacher);
    ddpscope::attach_diagnostics(student);
  }
  distill::train_teacher(teacher, arguments);
  distill::train_student(teacher, student, arguments);
  return 0;
} catch (const std::exception& error) {
  std::cerr << "distill: " << error.what() << "\n";
  return 2;
}
