// Programs that throw, fork, leave or are killed in the middle of training: all of it as without
// ddpscope.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "tests/plugin/twin_runs.h"

namespace ddpscope::test {
namespace {
struct Unusual {
  int code;
};

// What `work` throws: its type and its text.
std::string thrown_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const Unusual& unusual) {
    return "Unusual " + std::to_string(unusual.code);
  } catch (const c10::Error& error) {
    return std::string(typeid(error).name()) + ": " + error.what_without_backtrace();
  } catch (const std::exception& error) {
    return std::string(typeid(error).name()) + ": " + error.what();
  }
  return "nothing";
}

int wait_for(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Net watched_net() {
  Net net;
  attach_diagnostics(net, quiet());
  return net;
}

// A forward that fails and one that does not.
void try_forwards(const Notes& notes, Net& net) {
  notes.text(thrown_by([&] { net->forward(torch::ones({2, 3})); }));
  notes.bits(net->forward(torch::ones({2, 8})));
}

struct UsesNetAtItsEnd {
  Notes notes;
  Net net;
  ~UsesNetAtItsEnd() { try_forwards(notes, net); }
};
}  // namespace

TEST_CASE("Exceptions of a forward keep type and text and training goes on") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net = watched_net();
    for (int i = 0; i < 3; ++i) {
      train_noted(notes, net, 2);
      notes.text(thrown_by([&] { net->forward(torch::ones({5, 9})); }));
      notes.text(thrown_by([&] { net->forward(torch::ones({5, 8}, torch::kLong)); }));
      notes.text(thrown_by([&] { net->loss().item<float>() == 0 ? 0 : throw Unusual{i}; }));
      notes.text(thrown_by([&] { TORCH_CHECK_INDEX(false, "index ", i); }));
      notes.text(thrown_by([&] { net->register_module("a.b", torch::nn::Linear(1, 1)); }));
    }
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("Exceptions of a backward keep type and text and training goes on") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net = watched_net();
    for (int i = 0; i < 3; ++i) {
      train_noted(notes, net, 2);
      notes.text(thrown_by([&] { net->forward(torch::ones({5, 8})).backward(); }));
      notes.text(thrown_by([&] {
        const at::Tensor loss = net->loss();
        loss.register_hook([i](const at::Tensor&) { throw std::length_error(std::to_string(i)); });
        loss.backward();
      }));
      notes.text(thrown_by([&] {
        const at::Tensor loss = net->loss();
        loss.backward();
        loss.backward();
      }));
    }
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("A forked child trains plainly and exits with its own code") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net = watched_net();
    train_noted(notes, net);
    for (int code = 21; code < 24; ++code) {
      std::fflush(nullptr);
      const pid_t child = fork();
      if (child == 0) {
        Net own = watched_net();
        notes.text(thrown_by([&] { train_noted(notes, net); }));
        notes.text(thrown_by([&] { train_noted(notes, own); }));
        std::exit(code);
      }
      notes.text(std::to_string(wait_for(child)));
      train_noted(notes, net);
    }
    return 3;
  });
  CHECK(outcome.exit_code == 3);
  CHECK(records("summary").size() == 1);
}

TEST_CASE("A child that is forked inside a backward goes on by itself") {
  const Outcome outcome = twin_runs([](const Notes& notes) {
    Net net = watched_net();
    train_noted(notes, net);
    pid_t child = -1;
    const at::Tensor loss = net->loss();
    loss.register_hook([&](const at::Tensor&) { child = fork(); });
    loss.backward();
    if (child == 0) {
      notes.text(thrown_by([&] { train_noted(notes, net); }));
      std::exit(31);
    }
    notes.text(std::to_string(wait_for(child)));
    train_noted(notes, net);
    return 0;
  });
  CHECK(outcome.exit_code == 0);
  CHECK(records("summary").size() == 1);
}

TEST_CASE("An exit inside a forward or on another thread keeps its code") {
  const bool elsewhere = GENERATE(false, true);
  const Outcome outcome = twin_runs([elsewhere](const Notes& notes) {
    Net net = watched_net();
    train_noted(notes, net);
    if (elsewhere) {
      std::thread([] { std::exit(41); }).join();
    } else {
      struct Leaving : torch::nn::Module {
        at::Tensor forward(const at::Tensor& input) { std::exit((input.sum(), 41)); }
      } leaving;
      leaving.forward(net->loss());
    }
    return 0;
  });
  CHECK(outcome.exit_code == 41);
  CHECK(records("summary").size() == 1);
}

TEST_CASE("A model is used while the objects of a process or a thread are destroyed") {
  const bool of_thread = GENERATE(false, true);
  const Outcome outcome = twin_runs([of_thread](const Notes& notes) {
    Net net = watched_net();
    train_noted(notes, net, 1);
    if (of_thread) {
      std::thread([&] {
        thread_local UsesNetAtItsEnd last{notes, net};
        try_forwards(notes, net);
      }).join();
    } else {
      try_forwards(notes, net);
      static UsesNetAtItsEnd last{notes, net};
    }
    return 0;
  });
  CHECK(outcome.exit_code == 0);
}

TEST_CASE("A quick exit in a backward runs its handlers and keeps its code") {
  static const Notes* written = nullptr;
  const Outcome outcome = twin_runs([](const Notes& notes) {
    written = &notes;
    std::at_quick_exit([] { written->text("the handler ran"); });
    Net net = watched_net();
    train_noted(notes, net);
    const at::Tensor loss = net->loss();
    loss.register_hook([](const at::Tensor&) { std::quick_exit(42); });
    loss.backward();
    return 0;
  });
  CHECK(outcome.exit_code == 42);
}

TEST_CASE("Signals end a program as they did") {
  const int signal = GENERATE(SIGABRT, SIGTERM, SIGINT, SIGKILL);
  const Outcome outcome = twin_runs([signal](const Notes& notes) {
    Net net = watched_net();
    train_noted(notes, net);
    std::signal(signal, SIG_DFL);  // not what the test's own library does with it
    raise(signal);
    return 0;
  });
  CHECK(outcome.signal == signal);
}

}  // namespace ddpscope::test
