# fmt as a static library of our own, ddpscope_fmt: by its headers alone each file that formats
# takes 2.5 s longer to compile, and its shared library would be one more in the user's process.
find_package(fmt REQUIRED)
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(ddpscope_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/compiled_fmt.cpp)
  target_include_directories(ddpscope_fmt SYSTEM PUBLIC
    $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(ddpscope_fmt PRIVATE ddpscope_build)
  set_target_properties(ddpscope_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON)
else()  # its templates are other ones
  add_library(ddpscope_fmt INTERFACE)
  target_link_libraries(ddpscope_fmt INTERFACE fmt::fmt-header-only)
endif()
