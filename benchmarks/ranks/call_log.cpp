// What the log of one collective costs the threads that meet it: `call_log FOLDER [steps]` notes
// the calls of a model with 25 parameters as the hooks do, each after other memory was written, so
// that nothing of theirs lies in the nearest caches, as where a call was sent. Nothing is sent.
// Prints medians in ns per call: its issue and the wait for it on the training thread, its end on a
// thread of the backend.
#include <fcntl.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "exchange/rank_ring.h"
#include "hooks/call_names.h"
#include "hooks/capture.h"
#include "hooks/collective_watch.h"
#include "hooks/gradient_table.h"
#include "model/clock.h"
#include "plugin/event_queue.h"
#include "records/file_descriptor.h"

namespace ddpscope {
namespace {
constexpr std::size_t kParameters = 25;
constexpr std::size_t kOtherBytes = 4 << 20;

class NamedGloo final : public c10d::Backend {
 public:
  NamedGloo() : Backend(0, 2) {}
  const std::string getBackendName() const override { return "gloo"; }
};

/// Takes events as the thread that judges does, and drops them.
class Taker {
 public:
  explicit Taker(EventQueue& queue)
      : thread_([this, &queue] {
          Event event;
          while (!done_) {
            while (queue.take(event)) event = {};
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}
  ~Taker() {
    done_ = true;
    thread_.join();
  }
  Taker(const Taker&) = delete;
  Taker& operator=(const Taker&) = delete;

 private:
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

/// Parameters with gradients, as hooks know them after a backward.
std::vector<at::Tensor> trained_parameters(Capture& capture) {
  std::vector<at::Tensor> parameters;
  TreeEvent tree{.model = 1};
  for (std::size_t i = 0; i < kParameters; ++i) {
    parameters.push_back(torch::ones({64}, torch::requires_grad()));
    parameters.back().mutable_grad() = torch::ones({64});
    TensorSlot& slot = capture.tensors().slot(parameters.back());
    gradient_table().put(slot, parameters.back());
    RegisteredTensor registered{.module_path = "layer" + std::to_string(i), .name = "weight"};
    registered.tensor.id = slot.id;
    tree.tensors.push_back(std::move(registered));
  }
  call_names().tree_told(tree);
  return parameters;
}

struct Part {
  const char* name;
  std::vector<std::uint64_t> ticks;

  double median_ns(double ns_per_tick, std::uint64_t empty) {
    auto middle = ticks.begin() + static_cast<std::ptrdiff_t>(ticks.size() / 2);
    std::nth_element(ticks.begin(), middle, ticks.end());
    return ns_per_tick * static_cast<double>(*middle - std::min(*middle, empty));
  }
};

struct Parts {
  Part issue{"issue", {}};
  Part end{"end", {}};
  Part wait{"wait", {}};
};

void note(const c10d::Backend& backend, const at::Tensor& gradient, const void* work,
          Parts& parts) {
  const CallFacts facts{
      .kind = CollectiveKind::kAllReduce, .reduce = ReduceKind::kSum, .tensors = {&gradient, 1}};
  const std::uint64_t begin = ticks();
  {
    LoggedCall call(backend, facts);
    call.returned(work);
  }
  const std::uint64_t issued = ticks();
  call_ended(work, /*failed=*/false);
  const std::uint64_t ended = ticks();
  { const CallWait wait(work); }
  const std::uint64_t waited = ticks();
  parts.issue.ticks.push_back(issued - begin);
  parts.end.ticks.push_back(ended - issued);
  parts.wait.ticks.push_back(waited - ended);
}

std::uint64_t empty_ticks() {
  std::vector<std::uint64_t> found(1001);
  for (std::uint64_t& one : found) {
    const std::uint64_t begin = ticks();
    one = ticks() - begin;
  }
  std::nth_element(found.begin(), found.begin() + 500, found.end());
  return found[500];
}

void measure(const c10d::Backend& backend, const std::vector<at::Tensor>& parameters, int steps) {
  Parts parts;
  std::vector<char> other(kOtherBytes);
  const std::int64_t begin_ns = steady_ns();
  const std::uint64_t begin = ticks();
  for (int step = 0; step < steps; ++step) {
    for (const at::Tensor& parameter : parameters) {
      std::fill(other.begin(), other.end(), static_cast<char>(step));
      note(backend, parameter.grad(), &parameter, parts);
    }
  }
  const double ns_per_tick =
      static_cast<double>(steady_ns() - begin_ns) / static_cast<double>(ticks() - begin);
  const std::uint64_t empty = empty_ticks();
  const double issue = parts.issue.median_ns(ns_per_tick, empty);
  const double wait = parts.wait.median_ns(ns_per_tick, empty);
  std::printf("issue %.0f ns, wait %.0f ns: %.0f ns of the training thread; end %.0f ns\n", issue,
              wait, issue + wait, parts.end.median_ns(ns_per_tick, empty));
}

int run(const std::string& folder, int steps) {
  const FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  RingWriter ring;
  const RingHead head{.run_id = "call_log", .rank = 0, .world_size = 2, .pid = 1};
  const std::string problem = ring.open(opened.get(), head, {});
  if (!problem.empty()) {
    std::fprintf(stderr, "call_log: %s\n", problem.c_str());
    return 1;
  }
  EventQueue queue(1 << 16);
  const Taker taker(queue);
  Capture capture(queue, {.values = false, .calls = &ring, .compares_ranks = true});
  Capture::set_active(&capture);
  const auto backend = c10::make_intrusive<NamedGloo>();
  measure(*backend, trained_parameters(capture), steps);
  Capture::set_active(nullptr);
  return 0;
}
}  // namespace
}  // namespace ddpscope

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: call_log FOLDER [steps]\n");
    return 2;
  }
  return ddpscope::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 400);
}
