"""What a parameter's value changes in the texts of a study."""

import pytest

from chunkfit.files.errors import UsageError
from chunkfit.scheduler.cost.named_costs import policy_cost, true_cost
from chunkfit.scheduler.policies import policy
from chunkfit.scheduler.simulation.sensitivity import PARAMETERS, Texts, parameter

SERVE = "slidingserve:sorter=no"


def changed(name, text, value, belief="sloweave", truth="same"):
    return parameter(name).set(Texts(text, belief, truth), value)


@pytest.mark.parametrize(
    ("name", "text", "value", "option", "expected"),
    [
        ("margin", "sloweave:prefills=1", "0.05", "margin", (0.05,) * 4),
        ("alpha", SERVE, "0.5", "urgency", 0.5),
        ("alpha-ms", "qoserve", "4ms", "alpha_ms", 4.0),
        ("window", SERVE, "20", "throughput_decay", 0.95),
        ("window", "qoserve", "200", "throughput_decay", 0.995),
        ("B", SERVE, "1024", "token_budget", 1024),
        ("B", "fixed-64", "1024", "chunk_tokens", 1024),
        ("B", "sloweave", "1024", "chunk_tokens", 1024),
    ],
)
def test_an_option_of_the_policy_is_set_and_the_rest_stays(name, text, value, option, expected):
    found = changed(name, text, value)
    assert policy(found.policy).options[option] == expected
    assert dict(policy(found.policy).options) == {**policy(text).options, option: expected}
    assert (found.belief, found.truth) == ("sloweave", "same")


def test_a_bias_is_of_the_belief_alone():
    found = changed("bias", "sloweave", "0.9x", "curved:factor=2x", "same:noise=3%")
    assert policy_cost(found.belief).name == "curved:factor=0.9x"
    assert true_cost(found.truth, found.belief).name == "curved:noise=3%"


def test_noise_is_of_the_truth_alone():
    found = changed("noise", "sloweave", "3%", "curved", "same:factor=1.1x")
    assert found.belief == "curved"
    assert true_cost(found.truth, found.belief).name == "curved:factor=1.1x,noise=3%"
    assert true_cost(changed("noise", "sloweave", "0%", "curved").truth, "curved").name == "curved"


@pytest.mark.parametrize(
    ("name", "text", "value", "message"),
    [
        ("margin", "full", "0.1", "no margin to vary"),
        ("B", "full", "256", "no token_budget or chunk_tokens to vary"),
        ("window", "qoserve", "0", "whole number of iterations"),
        ("beta", "full", "1", "parameter 'beta' is unknown; expected one of: margin, of sloweave"),
    ],
)
def test_what_cannot_be_varied_is_refused(name, text, value, message):
    with pytest.raises(UsageError, match=message):
        changed(name, text, value)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_values_tried_unless_others_are_asked_for_can_be_meant(name):
    texts = {"margin": "sloweave", "alpha-ms": "qoserve"}
    for value in parameter(name).values:
        found = changed(name, texts.get(name, "slidingserve"), value)
        assert policy(found.policy)
        assert policy_cost(found.belief)
        assert true_cost(found.truth, found.belief)
