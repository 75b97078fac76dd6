#include "exchange/tensor_list.h"

#include <functional>
#include <string>

#include "tests/support/catch.h"

namespace ddpscope {
namespace {
TensorList net() {
  return {.model = "Net",
          .tensors = {
              {.path = "trunk.conv1.weight",
               .dtype = "float32",
               .shape = {8, 3, 3, 3},
               .requires_grad = true},
              {.path = "trunk.conv1.bias", .dtype = "float32", .shape = {8}, .requires_grad = true},
              {.path = "trunk.norm.num_batches_tracked",
               .dtype = "int64",
               .shape = {},
               .is_buffer = true},
              {.path = "mask", .dtype = "bool", .shape = {0, 300}, .is_buffer = true}}};
}

bool equal(const TensorList& a, const TensorList& b) {
  return a.model == b.model && hash_of(a) == hash_of(b) && encode(a) == encode(b);
}
}  // namespace

TEST_CASE("A list of tensors comes back from its bytes", "[exchange]") {
  const auto decoded = decode_tensor_list(encode(net()));
  REQUIRE(decoded.has_value());
  CHECK(equal(*decoded, net()));
  REQUIRE(decoded->tensors.size() == 4);
  CHECK(decoded->tensors[1].path == "trunk.conv1.bias");
  CHECK(decoded->tensors[1].dtype == "float32");
  CHECK(decoded->tensors[1].requires_grad);
  CHECK(decoded->tensors[2].is_buffer);
  CHECK(decoded->tensors[2].dtype == "int64");
  CHECK(decoded->tensors[3].shape == std::vector<std::int64_t>{0, 300});
  CHECK(equal(decode_tensor_list(encode(TensorList{})).value(), TensorList{}));
}

TEST_CASE("Lists of equal tensors have one hash, whatever their label", "[exchange]") {
  TensorList other = net();
  other.model = "Other";
  CHECK(hash_of(other) == hash_of(net()));
  CHECK(hash_of(TensorList{}) != 0);
}

TEST_CASE("The hash of a list covers everything by which ranks may differ", "[exchange]") {
  const auto changes = std::vector<std::function<void(TensorList&)>>{
      [](TensorList& list) { list.tensors[0].path = "trunk.conv2.weight"; },
      [](TensorList& list) { list.tensors[0].dtype = "float64"; },
      [](TensorList& list) {
        list.tensors[0].shape = {8, 3, 9, 1};
      },
      [](TensorList& list) {
        list.tensors[1].shape = {8, 1};
      },
      [](TensorList& list) { list.tensors[3].is_buffer = false; },
      [](TensorList& list) { list.tensors[1].requires_grad = false; },
      [](TensorList& list) { std::swap(list.tensors[0], list.tensors[1]); },
      [](TensorList& list) { list.tensors.pop_back(); },
      [](TensorList& list) {  // one letter moves from the end of a path to the begin of the dtype
        list.tensors[0].path = "trunk.conv1.weigh";
        list.tensors[0].dtype = "tfloat32";
      }};
  for (const auto& change : changes) {
    TensorList other = net();
    change(other);
    CHECK(hash_of(other) != hash_of(net()));
  }
}

TEST_CASE("A hundred thousand parameters need no more than two dozen bytes each", "[exchange]") {
  TensorList list;
  for (int i = 0; i < 100'000; ++i) {
    list.tensors.push_back({.path = "encoder.layers." + std::to_string(i) + ".attention.weight",
                            .dtype = "float32",
                            .shape = {1024, 1024},
                            .requires_grad = true});
  }
  const std::string bytes = encode(list);
  CHECK(bytes.size() < 100'000 * 34);
  CHECK(equal(decode_tensor_list(bytes).value(), list));
}

TEST_CASE("Bytes that no rank wrote are no list", "[exchange]") {
  const std::string bytes = encode(net());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK_FALSE(decode_tensor_list(std::string_view(bytes).substr(0, size)).has_value());
  }
  CHECK_FALSE(decode_tensor_list(bytes + '\0').has_value());
  // Any byte may be wrong: then there is no list, or one that can be written again.
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int wrong = 0; wrong < 256; ++wrong) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(wrong);
      const auto list = decode_tensor_list(damaged);
      if (list.has_value()) CHECK(decode_tensor_list(encode(*list)).has_value());
    }
  }
}

TEST_CASE("A short text cannot ask for much memory", "[exchange]") {
  const auto refused = [](std::string bytes) { return !decode_tensor_list(bytes).has_value(); };
  const std::string huge(9, '\xff');
  CHECK(refused("\x01N" + huge + "\x01"));                          // tensors
  CHECK(refused(std::string("\x01N\x01\x00", 4) + huge + "\x01"));  // a path
  CHECK(
      refused(std::string("\x01N\x01\x00\x00\x01"
                          "f\x7f\x00",
                          9)));  // dimensions
  // Each path repeats the one before it in a few bytes.
  std::string bytes("\x00", 1);
  bytes += "\xa0\x8d\x06";  // 100,000
  bytes += std::string("\x00\x80\x20", 3) + std::string(4096, 'p') + std::string("\x00\x00\x00", 3);
  for (int i = 1; i < 100'000; ++i) bytes += std::string("\x80\x20\x00\x00\x00\x00", 6);
  CHECK(refused(bytes));
}

}  // namespace ddpscope
