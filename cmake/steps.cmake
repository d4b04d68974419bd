# Which tests belong to which step of tools/test. A test is in every step, and in
# `make check`, unless it stands here: * is any text. A step's build leaves out what
# is not in it (ATTEND_STEP); the label `check` marks what make check runs.

# Slow, and nothing that the normal step does not see.
set(not_in_address cli_shipped cli_bench cli_design cli_device test_observe_each)

# One thread does these, or they are slow and others take the same paths.
set(not_in_thread
  test_text_[^t]* test_text_trained test_draw test_picture test_definition*
  test_predict test_json test_convert test_data* test_plot test_observe_each
  test_svd test_study* test_escape test_hash
  cli_pull* cli_tokenize cli_explain cli_train cli_train_kill cli_train_resume
  cli_train_average cli_train_sides cli_design cli_view_run cli_shipped cli_bench
  cli_compare_runs cli_rouge cli_errors cli_help cli_extract cli_study cli_book
  cli_embed cli_eval cli_fill cli_show cli_memory cli_summarize cli_summarize_long
  cli_setup cli_control cli_device cli_view_tensors test_numpy_file cli_intervene cli_attribute
  cli_first_contact)

# No kernel of their own, or those that verify --all and --invariance call too:
# slow to emulate. test_parallel: the emulator cannot start threads after a fork.
# test_settings, test_machine, cli_device: nor keep account of the addresses that the trapping device reserves.
set(not_in_neon test_parallel test_settings test_bench
  test_predict test_definition_sweep test_lens* test_trace* test_observe_each
  test_session_after_failure test_linear_bits test_linear_state test_linear_plan
  test_linear_observe test_direct_bits test_data* test_training* test_design*
  test_plot test_text_train test_text_trained test_text_corpus test_text_bombs
  test_state test_optimizer test_model_forms test_pairs test_reading
  test_summaries test_sessions test_model_sides test_model_roles test_model_memory
  test_model_start test_copy_head test_study* test_svd test_linear test_direct
  test_properties test_learn_golden test_tasks_embed test_tasks_evaluate test_tasks_fill
  test_intervene* test_attribute test_machine
  cli_explain cli_memory cli_train_kill cli_train_resume cli_design cli_device cli_shipped
  cli_tokenize_train cli_bench cli_eval cli_compare* cli_help cli_errors cli_rouge
  cli_extract cli_summar* cli_study cli_book cli_model_golden cli_intervene cli_attribute
  cli_first_contact)

# Models, generation, training and traces on the trapping device, and no others.
set(in_trap
  test_model_golden test_model_bits test_model_forms test_model_roles test_generate
  test_decode_golden test_beams test_learn_golden test_learn_save test_optimizer
  test_precision test_training test_training_save test_trace test_trace_file test_hooks
  test_settings test_copy_head test_session_after_failure test_lens test_design_learn
  test_tasks_embed test_tasks_evaluate test_tasks_fill test_intervene test_attribute)

# The same on a GPU, by tools/test-gpu: those that need no tokenizers.
set(in_gpu ${in_trap})
set(not_in_gpu test_tasks_*)

# Minutes on two cores are enough while working: the largest sweeps, kills, the
# network's stand-ins, crowds and the browser wait for make test.
set(not_in_check
  browser* trap_* test_linear test_linear_bits test_exp2 test_definition_sweep
  test_lens_long test_text_bombs example_08*
  cli_verify cli_train_kill cli_pull cli_pull_npm cli_view_hostile
  cli_view_clients cli_view_run cli_book cli_bench cli_shipped cli_summarize_long
  cli_train_average cli_train_sides cli_data_* cli_demo cli_memory cli_explain)

# in_step(STEP NAME RESULT)
function(in_step step name result)
  set(${result} ON PARENT_SCOPE)
  if(DEFINED in_${step})
    list(FIND in_${step} ${name} at)
    if(at LESS 0)
      set(${result} OFF PARENT_SCOPE)
    endif()
  endif()
  foreach(pattern ${not_in_${step}})
    string(REPLACE "*" ".*" pattern "${pattern}")
    if(name MATCHES "^${pattern}$")
      set(${result} OFF PARENT_SCOPE)
    endif()
  endforeach()
endfunction()
