from __future__ import annotations

import pytest
from pydantic import ValidationError

from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.stream_core.base.public_models import own_name, parse_models

ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"


def test_public_names_stand_for_those_at_the_server() -> None:
    assert parse_models(f"fast=org/small, own=,gpt-4o,claude={ARN}") == {
        "fast": "org/small",
        "own": "",
        "gpt-4o": "gpt-4o",
        "claude": ARN,
    }


@pytest.mark.parametrize("text", ["=x", "a=b,a=c", ARN, f"{ARN}=x", "team-123456789012=x"])
def test_names_that_name_nothing_or_tell_too_much_are_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="models"):
        HandlerSettings(models=text)


@pytest.mark.parametrize(
    ("model", "name", "public"),
    [
        ("demo", "default", "demo"),
        ("openai", "org/small", "org/small"),
        ("bedrock", ARN, "a1b2c3"),
        ("bedrock", "arn:aws:iam::123456789012:123456789012", "default"),
    ],
)
def test_the_only_model_has_a_name_that_tells_of_no_account(
    model: str, name: str, public: str
) -> None:
    assert own_name(model, name) == public
