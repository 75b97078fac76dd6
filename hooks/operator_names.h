#pragma once

#include <string>
#include <string_view>

namespace ddpscope {

/// The operator that a function of LibTorch calls: `aten::add_` of `at::_ops::add__Tensor::call`;
/// "" of any other function. Not after the end of `main` and its handlers.
std::string operator_called_by(std::string_view function);

}  // namespace ddpscope
