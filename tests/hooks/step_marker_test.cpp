#include "hooks/step_marker.h"

#include "tests/support/catch.h"

namespace ddpscope {

TEST_CASE("Of a step that does not end the first backwards are surveyed", "[survey]") {
  StepMarker marker;
  marker.optimizer_created();
  int surveyed = 0;
  for (int i = 0; i < 40; ++i) {
    surveyed += marker.surveying();
    marker.backward_ended();
  }
  CHECK(surveyed == 16);
  marker.optimizer_stepped(1);
  CHECK(marker.surveying());
  for (int i = 0; i < 15; ++i) marker.backward_ended();
  CHECK(marker.surveying());
}

}  // namespace ddpscope
