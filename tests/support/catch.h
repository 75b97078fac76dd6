#pragma once

// The one place that knows that Catch2 v2 and v3 differ.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#define DDPSCOPE_SKIP(why) SKIP(why)
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#include <iostream>
#define DDPSCOPE_SKIP(why)                     \
  do {                                         \
    std::cout << "skipped: " << (why) << '\n'; \
    return;                                    \
  } while (false)
#endif
