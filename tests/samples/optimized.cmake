# Lines stay right where more is inlined. The shared header is compiled with other options.
add_executable(ddpscope_sample_gates_o2 ${samples}/gates/main.cpp)
target_compile_options(ddpscope_sample_gates_o2 PRIVATE -O2 -g)
target_include_directories(ddpscope_sample_gates_o2 PRIVATE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
target_link_libraries(ddpscope_sample_gates_o2 PRIVATE
  ddpscope_build ddpscope_sample_support ddpscope_sample_without)
list_bugs(gates bugs)
list(REMOVE_ITEM bugs rest-of-epoch few-pairs)  # need ranks
foreach(bug IN LISTS bugs)
  add_findings_test(gates_o2 ${bug} 1 -- --steps 45)
endforeach()
