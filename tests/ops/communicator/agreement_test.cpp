#include "ops/communicator/agreement.h"

#include "tests/ops/thread_group.h"
#include "tests/support/catch.h"

namespace ddpscope::test::agreement_test {
namespace {
using Lines = std::vector<std::string>;
using Found = std::optional<communicator::Disagreement>;

std::vector<Found> compare(const std::vector<Lines>& lists) {
  return on_ranks(static_cast<int>(lists.size()), [&](int rank, const CommunicatorPtr& group) {
    return communicator::compare_lines(*group, lists[static_cast<std::size_t>(rank)], at::kCPU);
  });
}
}  // namespace

TEST_CASE("ranks with the same lines agree, also with none", "[norm]") {
  for (const Lines& lines : {Lines{}, Lines{"bn1 eps=1e-05"}, Lines(100, "bn")}) {
    for (const Found& found : compare({lines, lines, lines})) CHECK(!found.has_value());
  }
}

TEST_CASE("all ranks are told the first line that differs, and what each has there", "[norm]") {
  const auto founds = compare({{"a", "b", "c"}, {"a", "b", "c"}, {"a", "B", "C"}});
  for (const Found& found : founds) {
    REQUIRE(found.has_value());
    CHECK(found->index == 1);
    CHECK(found->lines == Lines{"b", "b", "B"});
  }
}

TEST_CASE("a list that ends earlier differs where it ends", "[norm]") {
  const auto founds = compare({{"a"}, {"a", "b"}});
  CHECK(founds[0]->index == 1);
  CHECK(founds[0]->lines == Lines{"", "b"});
  CHECK(compare({{}, {"a"}})[1]->index == 0);
}

TEST_CASE("lines of the same letters in another cut differ", "[norm]") {
  CHECK(compare({{"ab", "c"}, {"a", "bc"}})[0]->index == 0);
}

TEST_CASE("a long line is told cut, with every byte as it is", "[norm]") {
  const std::string odd(300, '\xff');
  const auto founds = compare({{odd}, {odd + "x"}});
  CHECK(founds[1]->lines[0] == odd.substr(0, 256));
  CHECK(founds[1]->lines[1] == odd.substr(0, 256));
}

}  // namespace ddpscope::test::agreement_test
