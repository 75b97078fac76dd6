# What is said of several ranks while they train; included by CMakeLists.txt.
# add_live_test(<check> <sample> <ranks> [BUG <bug> [PLACE <place>]] [IDS <id>...]
#   [OVER store|folders] ARGUMENTS <argument>...)
function(add_live_test check sample ranks)
  cmake_parse_arguments(L "" "BUG;KIND;PLACE;OVER" "IDS;ARGUMENTS" ${ARGN})
  set(kind ${check})
  if(L_KIND)
    string(APPEND kind .${L_KIND})
  endif()
  set(bug)
  if(L_BUG)
    string(APPEND kind .${L_BUG})
    set(bug --bug ${L_BUG} "--place=${L_PLACE}" --ids ${L_IDS})
  endif()
  set(over)
  if(L_OVER)
    string(APPEND kind .${L_OVER})
    set(over --over ${L_OVER})
  endif()
  add_script_test(live.${sample}.${kind}.${ranks} ${ranks} check_live.py --check ${check}
    --tool $<TARGET_FILE:ddpscope_cli> --program $<TARGET_FILE:ddpscope_sample_${sample}>
    --prefix-judge $<TARGET_FILE:prefix_judge> --expected ${samples}/${sample}/expected.txt
    --out ${CMAKE_CURRENT_BINARY_DIR}/live/${sample}.${kind}.${ranks} --ranks ${ranks} ${bug} ${over}
    -- ${L_ARGUMENTS})
endfunction()

# What differs between two ranks of four, and what two pairs could hide.
foreach(ranks 2 4)
  add_live_test(found loops ${ranks} BUG rate-of-its-own
    IDS rank-optimizer-differs rank-parameters-differ ARGUMENTS --way accumulate)
  add_live_test(found loops ${ranks} BUG same-data IDS data-same-on-ranks ARGUMENTS --way accumulate)
  add_live_test(found loops ${ranks} BUG maximum-on-one-rank
    IDS collective-mismatch grad-reduced-wrong-scale ARGUMENTS --way accumulate)
  # Nothing is averaged, so that no rank waits for another: the first step that both still have
  # when they are compared may be any.
  add_live_test(found loops ${ranks} BUG averages-not-asked-for IDS grad-not-reduced
    ARGUMENTS --way repeat)
  add_live_test(found loops ${ranks} BUG last-part-alone
    IDS grad-accumulation-unsynced grad-not-reduced rank-parameters-differ
    ARGUMENTS --way accumulate)
  add_live_test(found loops ${ranks} BUG clipped-on-first
    IDS clip-before-reduce grad-not-reduced rank-parameters-differ ARGUMENTS --way evaluate)
  add_live_test(found loops ${ranks} BUG flipped-bit
    IDS grad-reduced-wrong-scale rank-parameters-differ ARGUMENTS --way evaluate)
  foreach(bug_and_id unsynced-parameters:rank-parameters-differ order-by-rank:rank-model-differs)
    string(REPLACE ":" ";" bug_and_id ${bug_and_id})
    list(GET bug_and_id 0 bug)
    list(GET bug_and_id 1 id)
    add_live_test(found digits ${ranks} BUG ${bug} IDS ${id}
      ARGUMENTS ${digits_data} --epochs 100000)
  endforeach()
  add_live_test(found tagger ${ranks} BUG mean-per-rank IDS loss-rank-weights)
endforeach()
add_live_test(found loops 2 BUG copy-not-returned
  IDS grad-not-reduced rank-parameters-differ ARGUMENTS --way accumulate)
add_live_test(found loops 2 BUG sum-not-divided
  IDS grad-reduced-wrong-scale ARGUMENTS --way evaluate)
add_live_test(found loops 2 BUG divided-twice
  IDS grad-reduced-wrong-scale ARGUMENTS --way evaluate)
add_live_test(found loops 2 BUG parts-divided-twice
  IDS grad-reduced-wrong-scale ARGUMENTS --way accumulate)
add_live_test(found loops 2 BUG clipped-each
  IDS clip-before-reduce grad-reduced-wrong-scale ARGUMENTS --way evaluate)
add_live_test(found loops 2 BUG divided-before-wait
  IDS grad-used-while-reducing ARGUMENTS --way evaluate)
add_live_test(found loops 2 BUG slow-rank IDS perf-straggler ARGUMENTS --way evaluate)
foreach(bug_and_id unsynced-buffers:rank-buffers-differ rate-by-rank:rank-optimizer-differs
    listed-gradients:grad-reduced-wrong-scale)
  string(REPLACE ":" ";" bug_and_id ${bug_and_id})
  list(GET bug_and_id 0 bug)
  list(GET bug_and_id 1 id)
  add_live_test(found digits 2 BUG ${bug} IDS ${id} ARGUMENTS ${digits_data} --epochs 100000)
endforeach()
add_live_test(found tagger 2 BUG spoilt-batch PLACE "rank 1 step 6 "
  IDS numeric-nonfinite-gradient)
foreach(way accumulate shard join pair evaluate meet reduce repeat)
  add_live_test(silent loops 2 KIND ${way} ARGUMENTS --way ${way})
endforeach()
foreach(way join pair)
  add_live_test(silent loops 4 KIND ${way} ARGUMENTS --way ${way})
endforeach()
foreach(way summed scaled equal)
  add_live_test(silent tagger 2 KIND ${way} ARGUMENTS --way ${way})
endforeach()
add_live_test(silent digits 2 ARGUMENTS ${digits_data} --epochs 100000)
add_live_test(stopped loops 3 ARGUMENTS --way accumulate)
add_live_test(killed loops 3 ARGUMENTS --way accumulate)
add_live_test(two loops 2 BUG rate-of-its-own
  IDS rank-optimizer-differs rank-parameters-differ ARGUMENTS --way accumulate)
foreach(over store folders)
  add_live_test(found loops 2 BUG rate-of-its-own OVER ${over}
    IDS rank-optimizer-differs rank-parameters-differ ARGUMENTS --way accumulate)
  add_live_test(found loops 2 BUG sum-not-divided OVER ${over}
    IDS grad-reduced-wrong-scale ARGUMENTS --way evaluate)
  add_live_test(found loops 4 BUG same-data OVER ${over}
    IDS data-same-on-ranks ARGUMENTS --way accumulate)
  foreach(way accumulate join reduce)
    add_live_test(silent loops 2 KIND ${way} OVER ${over} ARGUMENTS --way ${way})
  endforeach()
endforeach()

# Two hosts without a common folder, and a network between them that fails.
add_script_test(live.loops.hosts 2 check_hosts.py --tool $<TARGET_FILE:ddpscope_cli>
  --program $<TARGET_FILE:ddpscope_sample_loops> --out ${CMAKE_CURRENT_BINARY_DIR}/live/hosts
  -- --way evaluate --steps 240)
set_tests_properties(live.loops.hosts PROPERTIES SKIP_RETURN_CODE 77)
