# The plain samples under each launcher; included by CMakeLists.txt.
# add_launchers_test(<test> <sample> <bug> RUNS <launcher>:<ranks>... ARGUMENTS <argument>...)
# The plain program under each launcher on so many ranks. With ALIKE, for what needs an attach, the
# findings must be those of the other runs alone, not those of the table. With PARTED several ranks
# hang or fail, each time in another way.
function(add_launchers_test test sample bug)
  cmake_parse_arguments(L "ALIKE;PARTED" "CONFIGURATIONS" "RUNS;ARGUMENTS" ${ARGN})
  set(expected --expected ${samples}/${sample}/expected.txt)
  if(L_ALIKE)
    set(expected)
  endif()
  set(parted)
  if(L_PARTED)
    set(parted --parted)
  endif()
  set(only_in)
  if(L_CONFIGURATIONS)
    set(only_in CONFIGURATIONS ${L_CONFIGURATIONS})
  endif()
  set(processors 1)
  if(L_RUNS MATCHES ":[24]")
    set(processors 2)
  endif()
  add_test(NAME ${test}
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/run_script.py check_launchers.py
      --tool $<TARGET_FILE:ddpscope_cli> --preload $<TARGET_FILE:ddpscope_preload>
      --program $<TARGET_FILE:ddpscope_sample_${sample}_plain> ${expected} --bug ${bug} ${parted}
      --out ${CMAKE_CURRENT_BINARY_DIR}/launchers/${test} --runs ${L_RUNS} -- ${L_ARGUMENTS}
    ${only_in})
  set_tests_properties(${test} PROPERTIES
    LABELS ranks TIMEOUT 600 PROCESSORS ${processors} SKIP_RETURN_CODE 77)
endfunction()

# Each launcher on 1, 2 and 4 ranks, and each sample that trains in several processes.
add_launchers_test(launchers.digits digits unregistered-blocks
  RUNS preload:1 run:2 script:4 ARGUMENTS ${digits_data} --steps 12)
add_launchers_test(launchers.chars chars dropped-norm
  RUNS run:1 script:2 preload:4 ARGUMENTS ${chars_text} --steps 8)
add_launchers_test(launchers.gates gates weight-halved
  RUNS script:1 preload:2 run:4 ARGUMENTS --steps 12)
add_launchers_test(launchers.checkpoints checkpoints one-per-round
  RUNS preload:2 ARGUMENTS --steps 6)
add_launchers_test(launchers.wrapped checkpoints one-per-round
  RUNS preload:2 wrapped:2 ARGUMENTS --steps 6)
add_launchers_test(launchers.mpirun checkpoints one-per-round
  RUNS mpirun:1 mpirun:2 mpirun:4 ARGUMENTS --steps 6)
add_launchers_test(launchers.torchrun checkpoints one-per-round
  RUNS preload:2 torchrun:1 torchrun:2 ARGUMENTS --steps 6)

# All mistakes under all launchers: ctest -C launchers -L launchers
# add_all_launchers_tests(<sample> RANKS <n>... ARGUMENTS <argument>... ALIKE <bug>... PARTED <bug>...)
function(add_all_launchers_tests sample)
  cmake_parse_arguments(A "" "" "RANKS;ARGUMENTS;ALIKE;PARTED" ${ARGN})
  set(runs)
  foreach(ranks IN LISTS A_RANKS)
    list(APPEND runs preload:${ranks} run:${ranks} script:${ranks} mpirun:${ranks})
  endforeach()
  list_bugs(${sample} bugs)
  foreach(bug IN LISTS bugs ITEMS none)
    set(as)
    if(bug IN_LIST A_ALIKE)
      set(as ALIKE)
    elseif(bug IN_LIST A_PARTED)
      set(as PARTED)
    endif()
    set(test all_launchers.${sample}.${bug})
    add_launchers_test(${test} ${sample} ${bug} ${as} RUNS ${runs} ARGUMENTS ${A_ARGUMENTS}
      CONFIGURATIONS launchers)
    set_tests_properties(${test} PROPERTIES LABELS launchers)
  endforeach()
endfunction()

add_all_launchers_tests(digits RANKS 1 2 4 ARGUMENTS ${digits_data} --steps 12
  PARTED head-by-rank skipped-batch early-end)
add_all_launchers_tests(chars RANKS 1 2 4 ARGUMENTS ${chars_text} --steps 8 ALIKE late-after averaged-each)
add_all_launchers_tests(gates RANKS 1 2 4 ARGUMENTS --steps 12 PARTED rest-of-epoch)
add_all_launchers_tests(checkpoints RANKS 1 2 4 ARGUMENTS --steps 10)
foreach(sample jit distill finetune rnn numerics losses q_values)
  add_all_launchers_tests(${sample} RANKS 1 ARGUMENTS --steps 45)
endforeach()
add_all_launchers_tests(gan RANKS 1 ARGUMENTS --steps 45 ALIKE generator-not-optimized)
add_all_launchers_tests(actor_critic RANKS 1 ARGUMENTS --steps 45
  ALIKE value-not-in-loss one-optimizer-zeroed)
add_all_launchers_tests(tensors RANKS 1 ARGUMENTS --steps 45 ALIKE forgotten-bias no-zero-grad)
