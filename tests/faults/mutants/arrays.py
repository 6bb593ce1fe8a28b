"""Mutants of arrays and sweeps: quoting, bytes, variables, and how many run at once."""

from collections.abc import Sequence

from tests.faults.mutants.mutant import Edit, Mutant

PLACES = "tests/unit/test_placeholders.py"
PARAMETERS = "tests/unit/test_parameters.py"
CONTRACT = "tests/contract/test_arrays.py"
NODE = "tests/node/test_arrays.py"

MUTANTS: Sequence[Mutant] = (
    Mutant(
        name="arrays-quotes-in-quotes",
        broken="A value with a quote in it ends the quotes that it is put into.",
        edits=[Edit(old="""text.replace("'", "'\\"'\\"'")""", new="text", inside="quoted")],
        tests=[f"{PLACES}::test_quotes_that_are_over_are_in_no_way"],
    ),
    Mutant(
        name="arrays-values-in-quotes",
        broken="A value takes a place inside quotes, where it ends them.",
        edits=[
            Edit(
                old="if context != _PLAIN:",
                new="if context != _PLAIN and not inner:",
                inside="shell_template",
            )
        ],
        tests=[f"{PLACES}::test_no_value_goes_where_it_would_not_be_one_word"],
    ),
    Mutant(
        name="arrays-odd-bytes-lost",
        broken="Bytes of the name of a file that aren't UTF-8 reach no program.",
        edits=[
            Edit(
                old='text.encode("utf-8", "surrogateescape")',
                new='text.encode("utf-8", "replace")',
                inside="as_bytes",
            )
        ],
        tests=[f"{PARAMETERS}::test_variables_carry_the_bytes"],
    ),
    Mutant(
        name="arrays-variables-lost",
        broken="A run doesn't get the parameters of its job as variables.",
        edits=[Edit(old="**variables(job.parameters),", new="", inside="spec_of")],
        tests=[f"{NODE}::test_every_run_has_its_variables"],
    ),
    Mutant(
        name="arrays-all-at-once",
        broken="More jobs of an array run at once than its key says.",
        edits=[
            Edit(
                old="limits.has_slots or _have_limits(lines[name])",
                new="limits.has_slots",
                inside="Limiting.admit",
            )
        ],
        tests=[
            f"{CONTRACT}::TestOwnLimits::test_the_same_name_counts_together_whenever_it_comes[sqlite]"
        ],
    ),
    Mutant(
        name="arrays-place-kept",
        broken="The end of a run of an array brings the next of it back only by chance.",
        edits=[Edit(old="frees_keys = _have_limits(of_it)", new="frees_keys = False")],
        tests=[f"{CONTRACT}::TestOwnLimits::test_they_come_in_their_order[sqlite]"],
    ),
    Mutant(
        name="arrays-share-by-their-limit",
        broken="Two arrays of one customer get two shares of a queue.",
        edits=[
            Edit(
                old="if key[:1] != OWN or own_limit(key) is None:",
                new="if key:",
                inside="sharing_key",
            )
        ],
        tests=[f"{CONTRACT}::TestOwnLimits::test_they_share_by_the_keys_that_were_given[sqlite]"],
    ),
)
