#include <utility>

#include "ops/communicator/communicator.h"

namespace ddpscope {
namespace {

void check_same_form(const at::Tensor& sum, const at::Tensor& given) {
  TORCH_CHECK(sum.defined(), "the function left an undefined tensor in place of the sum");
  const bool is_same = sum.sizes() == given.sizes() && sum.scalar_type() == given.scalar_type() &&
                       sum.device() == given.device() && sum.is_contiguous();
  TORCH_CHECK(is_same, "the function left ", sum.scalar_type(), " of shape ", sum.sizes(), " on ",
              sum.device(), sum.is_contiguous() ? "" : ", not contiguous,",
              " in place of the sum; it was given ", given.scalar_type(), " of shape ",
              given.sizes(), " on ", given.device());
}

template <class Sum>
class CallbackCommunicator final : public Communicator {
 public:
  CallbackCommunicator(int rank, int size, std::function<Sum> sum)
      : rank_(rank), size_(size), sum_(std::move(sum)) {
    communicator::check_place(rank, size);
    TORCH_CHECK(sum_, "make_communicator: the function that sums is empty");
  }
  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::string name() const override { return "a function of the program"; }
  void all_reduce_sum(at::Tensor& record) override {
    communicator::run("all_reduce_sum", *this, [&] { call(record); });
  }

 private:
  void call(at::Tensor& record) {
    if constexpr (std::is_invocable_v<Sum, at::Tensor&>) {
      const at::Tensor given = record;
      sum_(record);
      check_same_form(record, given);
    } else {
      communicator::sum_on_host(record, [&](at::Tensor& host) {
        sum_(host.mutable_data_ptr<double>(), static_cast<std::size_t>(host.numel()));
      });
    }
  }
  int rank_, size_;
  std::function<Sum> sum_;
};

}  // namespace

inline namespace api0 {

CommunicatorPtr make_host_communicator(int rank, int size,
                                       std::function<void(double*, std::size_t)> sum) {
  using Sum = void(double*, std::size_t);
  return std::make_shared<CallbackCommunicator<Sum>>(rank, size, std::move(sum));
}

CommunicatorPtr make_communicator(int rank, int size, std::function<void(at::Tensor&)> sum) {
  return std::make_shared<CallbackCommunicator<void(at::Tensor&)>>(rank, size, std::move(sum));
}

}  // namespace api0
}  // namespace ddpscope
