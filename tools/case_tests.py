"""The tests that show an abuse case by another name than `case_NN_…`, for tools/cases.py."""

# Tests whose names carry no number.
ABOUT = "python/tests/test_hosted_about.py"

OTHERS = {
    7: [
        ("crates/crypto/src/kex.rs", "x25519_points_of_low_order"),
        ("crates/crypto/src/kex.rs", "x25519_keys_have_one_encoding"),
        ("crates/crypto/src/kex.rs", "p256_keys_off_the_curve"),
        ("crates/crypto/src/kex.rs", "public_keys_of_wrong_length"),
    ],
    8: [
        ("crates/crypto/src/seal.rs", "opens_with_the_same_key_and_header_only"),
        ("crates/crypto/src/seal.rs", "every_changed_bit_is_noticed"),
    ],
    9: [
        ("crates/crypto/src/seal.rs", "no_key_and_nonce_come_twice"),
        ("crates/crypto/src/seal.rs", "the_audit_sees_a_repeated_pair"),
        ("crates/crypto/src/seal.rs", "compile_fail"),
    ],
    10: [
        ("crates/crypto/src/mask/tests.rs", "nist_sp_800_38a"),
        ("crates/crypto/src/mask/tests.rs", "backends_agree"),
        ("crates/crypto/src/mask/mod.rs", "compile_fail"),
        ("crates/crypto/src/kdf.rs", "every_input_separates"),
        ("crates/protocol/src/protocols/secagg/tests/laws.rs", "masks_cancel_for_every_survivor_set"),
    ],
    11: [("crates/protocol/src/core/round/mod.rs", "other_bounds_are_another_context")],
    13: [
        ("crates/crypto/src/roster/tests.rs", "a_self_made_certificate"),
        ("crates/crypto/src/roster/tests.rs", "a_forged_certificate"),
        ("crates/crypto/src/roster/tests.rs", "a_revoked_certificate"),
        ("crates/crypto/src/roster/tests.rs", "a_name_twice"),
        ("crates/crypto/src/roster/tests.rs", "a_key_twice"),
    ],
    23: [
        ("crates/sharing/src/shamir/point.rs", "zero_is_no_point"),
        ("crates/sharing/src/shamir/tests/privacy.rs", "the_point_zero_would_give_the_secret_away"),
        ("crates/sharing/src/shamir/tests/laws.rs", "equal_points_are_refused"),
        ("crates/sharing/src/shamir/tests/laws.rs", "thresholds_out_of_range_are_refused"),
        ("crates/sharing/src/shamir/tests/laws.rs", "no_share_holds_a_limb_of_the_secret"),
    ],
    24: [
        ("crates/encode/src/tests/limits.rs", "specifications_that_break_a_rule_are_refused_with_it"),
        ("crates/protocol/src/protocols/secagg/parameters/tests.rs", "the_failing_bound_is_named"),
        ("crates/protocol/src/protocols/secagg/parameters/tests.rs", "infeasible_bounds_are_found_quickly"),
        ("fuzz/fuzz_targets/job_spec.rs", "fuzz_target"),
    ],
    25: [
        (
            "crates/sharing/src/shamir/tests/privacy.rs",
            "every_coalition_below_t_sees_every_view_equally_often",
        ),
        ("crates/sharing/src/shamir/tests/privacy.rs", "drawn_polynomials_reach_every_view_of_every_limb"),
        ("crates/sharing/src/shamir/tests/privacy.rs", "shares_below_the_threshold_look_uniform"),
    ],
    29: [
        (
            "crates/protocol/src/protocols/ramp/tests/columns.rs",
            "wrong_sums_are_left_out_where_there_are_enough",
        ),
        ("crates/protocol/src/protocols/secagg/tests/keys.rs", "too_many_wrong_shares_end_the_round"),
    ],
    26: [
        ("crates/encode/src/tests/limits.rs", "nan_and_infinity_are_refused_wherever_they_stand"),
        ("crates/encode/src/tests/limits.rs", "the_width_holds_the_largest_sum"),
        ("crates/encode/src/tests/limits.rs", "sums_of_all_largest_and_all_smallest_words_do_not_wrap"),
        ("crates/encode/src/tests/limits.rs", "fixed_point_sums_do_not_wrap_at_the_largest_clip"),
        ("fuzz/fuzz_targets/encoder.rs", "fuzz_target"),
    ],
    27: [
        ("crates/protocol/tests/robustness.rs", "damaged_messages_to_the_server"),
        ("crates/protocol/tests/robustness.rs", "damaged_messages_to_a_party"),
        ("fuzz/fuzz_targets/client_machine.rs", "fuzz_target"),
        ("fuzz/fuzz_targets/server_machine.rs", "fuzz_target"),
        ("fuzz/fuzz_targets/frames.rs", "fuzz_target"),
        ("fuzz/fuzz_targets/snapshot.rs", "fuzz_target"),
        ("fuzz/fuzz_targets/words.rs", "fuzz_target"),
        ("fuzz/fuzz_targets/shares.rs", "fuzz_target"),
        ("fuzz/fuzz_targets/roster.rs", "fuzz_target"),
        ("fuzz/fuzz_targets/certificates.rs", "fuzz_target"),
    ],
    32: [
        ("python/tests/test_serving.py", "test_a_party_on_a_new_revocation_list_is_in_no_further_round"),
        ("python/tests/test_operator.py", "test_a_revocation_list_that_ends_fails_no_job"),
        ("python/tests/test_operator.py", "test_a_party_that_is_revoked_hears_it_and_gets_no_further_model"),
    ],
    33: [
        ("crates/protocol/src/protocols/flashe/tests/setup.rs", "a_late_joiner_gets_the_key_from_a_party"),
        ("crates/protocol/src/protocols/flashe/tests/setup.rs", "a_set_up_from_long_ago_spoils_nothing"),
    ],
    41: [
        ("crates/crypto/tests/wiped.rs", "secrets_are_wiped"),
        ("crates/crypto/src/secret.rs", "compile_fail"),
    ],
    43: [
        (
            "python/tests/test_forked.py",
            "test_sessions_and_coordinators_are_refused_in_a_child_while_threads_use_them",
        ),
        ("python/tests/test_forked.py", "test_a_round_is_refused_in_a_child"),
        ("python/tests/test_forked.py", "test_machines_are_refused_in_a_child"),
        ("python/tests/test_forked.py", "test_what_a_child_inherits_is_let_go_of"),
        ("python/tests/test_session.py", "test_a_forked_child_is_told_to_join_itself"),
        ("python/tests/test_session.py", "test_other_threads_run_while_a_party_waits"),
        ("python/tests/test_session.py", "test_ctrl_c_ends_a_wait"),
        ("python/tests/test_session.py", "test_an_exception_in_training_leaves_the_round_to_the_others"),
        ("python/tests/test_session.py", "test_the_interpreter_exits_with_a_live_session"),
        ("python/tests/test_errors.py", "test_an_error_survives_pickle_and_copies"),
        ("python/tests/test_arrays.py", "test_strided_arrays_are_copied_in_c_order"),
        ("python/tests/test_arrays.py", "test_read_only_memory_is_used_in_place"),
        ("python/tests/test_arrays.py", "test_torch_bfloat16_goes_through_float32"),
    ],
    71: [
        ("python/tests/test_audit.py", "test_any_change_is_found_with_its_line"),
        ("python/tests/test_audit.py", "test_a_coordinator_does_not_go_on_with_a_changed_trail"),
    ],
    72: [
        ("python/tests/test_metric_privacy.py", "test_one_corrupt_party_voids_a_metric_and_nothing_else"),
    ],
    73: [
        ("python/tests/test_metric_privacy.py", "test_two_sums_over_one_model_tell_nobodys_metric"),
        ("python/tests/test_metric_privacy.py", "test_without_a_model_the_policy_lifts_it"),
        ("python/tests/test_metric_privacy.py", "test_the_next_model_has_metrics_again"),
        ("python/tests/test_metric_privacy.py", "test_who_stands_alone_is_told_so_across_processes"),
        ("python/tests/test_metric_privacy.py", "test_corrupt_parties_beside_it_are_nobody"),
        ("python/tests/test_metric_privacy.py", "test_of_weights_only_the_sum_is_known"),
        ("python/tests/test_metric_privacy.py", "test_own_weight_is_nobody_else"),
        ("python/tests/test_metric_privacy.py", "test_words_that_stay_closed_tell_nobody_anything"),
    ],
    74: [
        ("python/tests/test_first_model.py", "test_zeros_are_zeros_at_every_party"),
        ("python/tests/test_first_model.py", "test_the_giver_knows_what_it_gave"),
        ("python/tests/test_first_model.py", "test_nobody_else_is_named_as_the_giver"),
        ("python/tests/test_first_model.py", "test_one_that_stalls_is_passed_over"),
        ("python/tests/test_first_model.py", "test_where_all_stall_the_reason_is_true"),
        ("python/tests/test_first_model.py", "test_a_giver_gives_once_over_a_connection"),
    ],
    75: [
        ("python/tests/test_training_texts.py", "test_every_text_of_a_page_is_escaped"),
        ("python/tests/test_training_texts.py", "test_the_end_of_a_run_is_text"),
        ("python/tests/test_training_texts.py", "test_nothing_in_the_data_ends_its_script"),
        ("python/tests/test_training_texts.py", "test_a_terminal_shows_names_and_does_nothing_else"),
        ("python/tests/test_training_texts.py", "test_line_ends_within_a_reason_are_read_back"),
        ("python/tests/test_training_texts.py", "test_no_cell_is_a_formula"),
        ("python/tests/test_training_texts.py", "test_a_damaged_state_is_refused_by_name"),
        ("python/tests/test_training_texts.py", "test_the_state_is_for_its_owner_and_follows_no_link"),
        ("python/tests/test_training_texts.py", "test_another_run_does_not_go_on_here"),
        ("python/tests/test_training_texts.py", "test_one_process_uses_a_folder"),
        ("python/tests/test_training_texts.py", "test_rounds_after_the_state_are_run_again"),
        ("python/tests/test_training_texts.py", "test_whole_numbers_stay_whole"),
        ("python/tests/test_training_texts.py", "test_tensors_have_names_that_can_be_seen"),
    ],
    76: [
        (
            "python/tests/test_hosted_about.py",
            "test_parties_that_were_told_different_things_are_in_no_sum_together",
        ),
        (ABOUT, "test_a_party_with_another_content_is_in_no_sum"),
        (
            "python/tests/test_hosted_about.py",
            "test_a_machine_that_goes_on_to_another_step_leaves_the_one_before",
        ),
    ],
}
