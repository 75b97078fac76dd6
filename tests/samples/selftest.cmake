# Planted faults, of which a check that needs hundreds of steps sees too few within the budget.
set(selftest check_selftest.py --tool $<TARGET_FILE:ddpscope_cli>)
foreach(kind digits digits_plain)
  add_script_test(sample_${kind}.selftest 1 ${selftest} --way all --missed zero-rate
    --program $<TARGET_FILE:ddpscope_sample_${kind}> -- ${digits_data} --epochs 50)
endforeach()
add_script_test(sample_chars.selftest 1 ${selftest} --way all --missed zero-rate
  --program $<TARGET_FILE:ddpscope_sample_chars> -- ${chars_text} --steps 400)
foreach(way levels short own kept)
  add_script_test(sample_digits.selftest.${way} 1 ${selftest} --way ${way}
    --program $<TARGET_FILE:ddpscope_sample_digits> -- ${digits_data} --epochs 50)
endforeach()
add_script_test(sample_digits.selftest.ranks 2 ${selftest} --way ranks
  --program $<TARGET_FILE:ddpscope_sample_digits> -- ${digits_data} --epochs 50)
add_script_test(sample_loops.selftest.ranks 2 ${selftest} --way ranks
  --program $<TARGET_FILE:ddpscope_sample_loops> -- --way accumulate --steps 400)
