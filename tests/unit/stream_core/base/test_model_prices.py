from __future__ import annotations

import pytest

from evenflow.stream_core.base.model_prices import ModelPrices


def test_a_call_costs_by_its_models_prices_for_a_million_tokens() -> None:
    prices = ModelPrices.parse("small=0.15/0.60, eu.vendor.large-v1:0=3/15")
    assert prices.cost("small", 1_000_000, 0) == pytest.approx(0.15)
    assert prices.cost("eu.vendor.large-v1:0", 1_000, 2_000) == pytest.approx(0.033)
    assert prices.cost("unknown", 1_000, 2_000) is None
    assert ModelPrices.parse("").cost("", 1, 1) is None


def test_input_from_a_cache_has_its_own_price() -> None:
    prices = ModelPrices.parse("m=2.50/10/0.25,other=2.50/10")
    assert prices.nanodollars("m", 1_000, 0, 950) == 362_500
    assert prices.nanodollars("other", 1_000, 0, 950) == 2_500_000
    assert prices.nanodollars("m", 5, 0, 100) == 1_250, "more than there was is no refund"


def test_input_that_is_written_to_the_cache_has_its_own_price() -> None:
    prices = ModelPrices.parse("m=3/15/0.30/3.75")
    assert prices.nanodollars("m", 1_000, 0, 500, 400) == 100 * 3_000 + 500 * 300 + 400 * 3_750
    assert prices.nanodollars("m", 1_000, 0, 900, 400) == 900 * 300 + 100 * 3_750
    assert ModelPrices.parse("m=3/15/0.30").nanodollars("m", 10, 0, 0, 10) == 10 * 3_000


def test_the_most_that_a_call_can_cost_is_by_the_dearest_input() -> None:
    prices = ModelPrices.parse("dear=3/15/0.30/3.75,cheap=3/15")
    assert prices.most_nanodollars("dear", 100, 10) == 100 * 3_750 + 10 * 15_000
    assert prices.most_nanodollars("cheap", 100, 10) == 100 * 3_000 + 10 * 15_000
    assert prices.most_nanodollars("unknown", 100, 10) is None


def test_a_cost_fits_into_64_bits_whatever_a_server_counts() -> None:
    prices = ModelPrices.parse("m=999999/999999")
    assert prices.nanodollars("m", 10**12, 10**12) == 10**15


@pytest.mark.parametrize(
    "text",
    [
        "small",
        "=1/2",
        "small=1",
        "small=one/2",
        "small=-1/2",
        "small=nan/1",
        "a=1/2,a=1/3",
        "a=1/2/3/4/5",
        "a=1/2/x",
    ],
)
def test_what_is_no_price_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"has '"):
        ModelPrices.parse(text)
