#include "stacks/frame_names.h"

#include <fstream>

#include "stacks/child_output.h"
#include "stacks/source_line.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_dir.h"

namespace ddpscope {
namespace {

Deadline in_ms(int ms) { return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms); }

}  // namespace

TEST_CASE("A function's name fits on a line", "[stacks]") {
  CHECK(short_function("main") == "main");
  CHECK(short_function("Encoder::forward(at::Tensor const&) const") == "Encoder::forward");
  CHECK(short_function("Net<float>::run(int)") == "Net<float>::run");
  CHECK(short_function("std::function<at::Tensor (at::Tensor const&, int)>::operator()(at::Tensor "
                       "const&, int) const") == "std::function<…>::operator()");
  CHECK(short_function("at::Tensor train<Net, std::vector<int>>(Net&)") == "train<…>");
  CHECK(short_function("main::{lambda(std::vector<int> const&)#2}::operator()(int) const") ==
        "main::{lambda#2}::operator()");
  CHECK(short_function("A::f(int) const::{lambda()#1}::operator()() const [clone .isra.0]") ==
        "A::f::{lambda#1}::operator()");
  CHECK(short_function("sample::(anonymous namespace)::hidden(void (*)())") ==
        "sample::(anonymous namespace)::hidden");
  CHECK(short_function("std::ostream& operator<< <int>(std::ostream&, int)") == "operator<<<int>");
  CHECK(short_function("Money::operator bool() const") == "Money::operator bool");
  CHECK(short_function("Box::operator->() const") == "Box::operator->");
  CHECK(short_function("name[abi:cxx11](int)") == "name");
  CHECK(short_function("operator_of(int)") == "operator_of");
  CHECK(short_function("broken<(") == "broken<(");
  CHECK(short_function("").empty());
}

TEST_CASE("What is no mangled name stays as it is", "[stacks]") {
  CHECK(demangle("_ZN3Net7forwardEv") == "Net::forward()");
  CHECK(demangle("main") == "main");
  CHECK(demangle("_Znonsense") == "_Znonsense");
}

TEST_CASE("Libraries are told from the user's code", "[stacks]") {
  CHECK(is_library("/x/lib/libtorch_cpu.so", "", "at::add"));
  CHECK(is_library("/lib/x86_64-linux-gnu/libc.so.6", "", "qsort"));
  CHECK(is_library("/home/u/train", "/usr/include/c++/12/bits/std_function.h", "std::f"));
  CHECK(is_library("/home/u/train", "/opt/libtorch/include/ATen/core/TensorBody.h", "at::f"));
  CHECK(is_library("/home/u/train", "", "_start"));
  CHECK(is_library("/home/u/train", "", "c10::f()"));
  CHECK_FALSE(is_library("/home/u/train", "/home/u/torch/net.cpp", "torch::Mine::forward"));
  CHECK_FALSE(is_library("/home/u/train", "", "main"));
  CHECK_FALSE(is_library("/home/u/libmine.so", "/home/u/mine.cpp", "at_home"));
  CHECK(is_own("/opt/lib/libddpscope.so.0"));
  CHECK(is_own("libddpscope_preload.so"));
  CHECK_FALSE(is_own("/home/ddpscope/train"));
}

TEST_CASE("A source line is shown trimmed, cut, and only as it was built", "[stacks]") {
  const TemporaryDir folder;
  const std::string source = folder / "net.cpp";
  const std::string built = folder / "net";
  std::ofstream(source) << "first\n\t  y = x + 1;  \r\n" << std::string(199, 'a') << "…\n";
  std::ofstream(built) << "x";
  CHECK(source_line(source, 2, built) == "y = x + 1;");
  CHECK(source_line(source, 3, built) == std::string(199, 'a'));
  CHECK(source_line(source, 4, built).empty());
  CHECK(source_line(source, 0, built).empty());
  CHECK(source_line(folder / "none.cpp", 1, built).empty());
  CHECK(source_line(folder.path(), 1, built).empty());
  const auto later = std::filesystem::last_write_time(built) + std::chrono::seconds(2);
  std::filesystem::last_write_time(source, later);
  CHECK(source_line(source, 2, built).empty());
}

TEST_CASE("A child's output is taken, without our library, until the deadline", "[stacks]") {
  setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9/", 1);
  const auto output = child_output({"env"}, in_ms(5000));
  unsetenv("DEBUGINFOD_URLS");
  REQUIRE(output);
  CHECK(output->in_time);
  CHECK(output->text.find("PATH=") != std::string::npos);
  CHECK(output->text.find("DEBUGINFOD_URLS") == std::string::npos);
  const auto begin = std::chrono::steady_clock::now();
  const auto late = child_output({"sleep", "20"}, in_ms(50));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  REQUIRE(late);
  CHECK_FALSE(late->in_time);
  CHECK_FALSE(child_output({"no-such-program-of-ours"}, in_ms(1000)));
}

}  // namespace ddpscope
