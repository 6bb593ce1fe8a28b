"""The page about reliability shows the results that are kept beside it, and nothing else."""

from tests.faults.campaign import CAMPAIGNS
from tests.faults.mutants import MUTANTS
from tests.faults.table import PAGE, RESULTS, read, renewed


def test_the_page_shows_what_was_measured() -> None:
    page = PAGE.read_text()
    assert renewed(page, read(RESULTS)) == page


def test_every_campaign_was_measured() -> None:
    measured = {(result["campaign"], result["store"]) for result in read(RESULTS)}
    wanted = {(name, store) for name, one in CAMPAIGNS.items() for store in one.stores}
    assert wanted <= measured


def test_every_mutant_is_on_the_page() -> None:
    page = PAGE.read_text()
    assert [mutant.name for mutant in MUTANTS if f"| {mutant.name} |" not in page] == []
