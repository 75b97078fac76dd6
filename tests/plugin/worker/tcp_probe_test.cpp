#include "plugin/tcp_probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "records/file_descriptor.h"
#include "tests/support/catch.h"

namespace ddpscope::test::tcp_probe_test {
namespace {
constexpr char kHere[] = "127.0.0.1";

/// A port of this host that is taken.
struct Port {
  explicit Port(bool listens) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    REQUIRE(::bind(socket.get(), any, size) == 0);
    REQUIRE(::getsockname(socket.get(), any, &size) == 0);
    if (listens) REQUIRE(::listen(socket.get(), 1) == 0);
    number = ::ntohs(address.sin_port);
  }
  FileDescriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t number = 0;
};
}  // namespace

TEST_CASE("A port at which somebody listens is reached", "[tcp_probe]") {
  const Port port(true);
  CHECK(why_not_reached(kHere, port.number, 1000).empty());
}

TEST_CASE("A port at which nobody listens is not reached, and why is said", "[tcp_probe]") {
  const Port port(false);
  CHECK(why_not_reached(kHere, port.number, 1000) ==
        "127.0.0.1 port " + std::to_string(port.number) + ": Connection refused");
}

TEST_CASE("A host that nobody has is not reached", "[tcp_probe]") {
  CHECK(why_not_reached("no-such-host.invalid", 1, 1000).starts_with("no-such-host.invalid: "));
}

}  // namespace ddpscope::test::tcp_probe_test
