#include "tests/plugin/twin_runs.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

namespace ddpscope::test {
namespace {
struct Run {
  Outcome outcome;
  std::string notes;
};

Run run_noted(const std::function<int(const Notes&)>& program, const char* off) {
  const std::string path = report_dir() + ".notes";
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  REQUIRE(file >= 0);
  Run run;
  run.outcome = in_child([&] {
    if (off != nullptr) setenv("DDPSCOPE", off, 1);
    at::set_num_threads(1);  // a pool of threads would not survive a fork
    torch::manual_seed(7);
    return program(Notes(file));
  });
  close(file);
  std::ifstream stream(path, std::ios::binary);
  run.notes = {std::istreambuf_iterator<char>(stream), {}};
  unlink(path.c_str());
  return run;
}
}  // namespace

void Notes::text(const std::string& line) const {
  const std::string whole = line + "\n";
  REQUIRE(write(file_, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size()));
}

void Notes::bits(const at::Tensor& tensor) const {
  if (!tensor.defined()) return text("undefined");
  const at::Tensor flat = tensor.detach().contiguous();
  std::string line = std::to_string(flat.dim()) + ":";
  const auto* bytes = static_cast<const unsigned char*>(flat.data_ptr());
  for (std::size_t i = 0; i < flat.nbytes(); ++i) {
    line += "0123456789abcdef"[bytes[i] >> 4];
    line += "0123456789abcdef"[bytes[i] & 15];
  }
  text(line);
}

void Notes::state_of(const torch::nn::Module& module) const {
  for (const at::Tensor& parameter : module.parameters()) {
    bits(parameter);
    bits(parameter.grad());
  }
  for (const at::Tensor& buffer : module.buffers()) bits(buffer);
  bits(at::globalContext().defaultGenerator(at::kCPU).get_state());
}

void train_noted(const Notes& notes, Net& net, int steps) {
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const at::Tensor loss = net->loss();
    loss.backward();
    optimizer.step();
    notes.bits(loss);
  }
  notes.state_of(*net);
}

Outcome twin_runs(const std::function<int(const Notes&)>& program) {
  unlink((report_dir() + "/rank-0.jsonl").c_str());  // of earlier twins of this test
  const Run plain = run_noted(program, "off");
  CHECK(records("run").empty());
  const Run watched = run_noted(program, nullptr);
  CHECK(records("run").size() == 1);
  CHECK(!plain.notes.empty());
  CHECK(plain.notes == watched.notes);
  CHECK(plain.outcome.exit_code == watched.outcome.exit_code);
  CHECK(plain.outcome.signal == watched.outcome.signal);
  const bool died = watched.outcome.signal != 0;  // what is said of that is another matter
  if (!died) CHECK(plain.outcome.said == watched.outcome.said);
  return watched.outcome;
}

}  // namespace ddpscope::test
