#pragma once

namespace ddpscope {

using Look = void (*)();

/// Calls `look` below every shape of call that compilers treat differently. The same source is
/// compiled with several sets of options.
namespace shapes_o0 {
void call_all(Look look);
}
namespace shapes_o2 {
void call_all(Look look);
}
namespace shapes_no_pointer {
void call_all(Look look);
}
namespace shapes_vector {
void call_all(Look look);
}

}  // namespace ddpscope
