"""Parts of the fuzzer and of the crash matrix: valid inputs, damage, targets, and what counts as a finding."""
