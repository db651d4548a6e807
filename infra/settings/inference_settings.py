"""The model of an environment (demo, Bedrock or SageMaker), its prices, and content filters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from evenflow.infra.settings.stack_settings import Settings
from evenflow.stream_core.base.model_prices import ModelPrices
from evenflow.stream_core.base.public_models import parse_models
from evenflow.stream_core.filtering.groups import Group

# As handlers take it: an id or an ARN, and a version.
_GUARDRAIL = (
    r"^([a-z0-9]+|arn:aws(-[^:]+)?:bedrock:[a-z0-9-]{1,20}:[0-9]{12}:guardrail/[a-z0-9]+)"
    r":([1-9][0-9]{0,7}|DRAFT)$"
)
GuardrailName = Annotated[str, Field(pattern=_GUARDRAIL)]
"""`abc123:2` in this account and region, or an ARN and a version."""


class FilterSettings(Settings):
    """Content filters, which handlers apply to answers of any model.

    Args:
        mode: EVENFLOW_FILTERING, for tenants without a mode in their record.
        patterns: EVENFLOW_FILTER_PATTERNS.
        action: EVENFLOW_FILTER_ACTION.
        guardrail: EVENFLOW_FILTER_GUARDRAIL. None: no guardrail judges answers.
    """

    mode: Literal["off", "hold", "retract"] = "off"
    patterns: tuple[Group, ...] = Field(("secrets",), min_length=1)
    action: Literal["redact", "stop"] = "redact"
    guardrail: GuardrailName | None = None

    @property
    def variables(self) -> dict[str, str]:
        """A handler's variables. Those that have the default are left out."""
        variables = {
            "mode": ("EVENFLOW_FILTERING", self.mode),
            "patterns": ("EVENFLOW_FILTER_PATTERNS", ",".join(self.patterns)),
            "action": ("EVENFLOW_FILTER_ACTION", self.action),
            "guardrail": ("EVENFLOW_FILTER_GUARDRAIL", self.guardrail or ""),
        }
        return dict(variables[name] for name in self.model_dump(exclude_defaults=True))


class BedrockSettings(Settings):
    """A cross-region inference profile of Bedrock and its foundation model, and how it is called.

    Args:
        regions: those of a geography's profile (`aws bedrock get-inference-profile` lists them). A
            `global.` profile goes to all commercial regions, whatever is set here.
        max_tokens: EVENFLOW_MODEL_MAX_TOKENS. For each answer that begins, Bedrock reserves this
            number of output tokens of the account's quota. Unset it would reserve the model's
            most, 64,000 for some.
        cache_ttl: EVENFLOW_BEDROCK_CACHE_TTL. None: prompts are not kept.
        service_tier: EVENFLOW_BEDROCK_SERVICE_TIER. None: the account's default.
        guardrail: EVENFLOW_BEDROCK_GUARDRAIL, which Bedrock applies while its model streams.
        guardrail_mode: EVENFLOW_BEDROCK_GUARDRAIL_MODE. None: `sync`, which holds text back until
            the guardrail has read it.
    """

    inference_profile: str = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
    foundation_model: str = "anthropic.claude-haiku-4-5-20251001-v1:0"
    regions: tuple[str, ...] = Field(("us-east-1", "us-east-2", "us-west-2"), min_length=1)
    max_tokens: int = Field(4_096, ge=1)
    cache_ttl: Literal["5m", "1h"] | None = None
    service_tier: Literal["default", "priority", "flex", "reserved"] | None = None
    guardrail: GuardrailName | None = None
    guardrail_mode: Literal["sync", "async"] | None = None

    @model_validator(mode="after")
    def _check_profile(self) -> Self:
        geography, _, model = self.inference_profile.partition(".")
        if not geography or model != self.foundation_model:
            raise ValueError(
                f"inference_profile must be <geography>.{self.foundation_model}, or "
                f"global.{self.foundation_model}; foundation_model is set beside it"
            )
        return self

    @model_validator(mode="after")
    def _check_guardrail_mode(self) -> Self:
        if self.guardrail_mode is not None and self.guardrail is None:
            raise ValueError("guardrail_mode needs guardrail")
        return self

    @property
    def is_global(self) -> bool:
        """Whether answers may be generated in any commercial region."""
        return self.inference_profile.startswith("global.")

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the process that calls the model."""
        variables = {
            "EVENFLOW_MODEL_MAX_TOKENS": str(self.max_tokens),
            "EVENFLOW_BEDROCK_CACHE_TTL": self.cache_ttl,
            "EVENFLOW_BEDROCK_SERVICE_TIER": self.service_tier,
            "EVENFLOW_BEDROCK_GUARDRAIL": self.guardrail,
            "EVENFLOW_BEDROCK_GUARDRAIL_MODE": self.guardrail_mode,
        }
        return {name: value for name, value in variables.items() if value is not None}


class SageMakerSettings(Settings):
    """A GPU endpoint with vLLM in AWS's LMI container.

    Args:
        model: an S3 prefix `s3://bucket/prefix/`, with which the container has no network. Or a
            Hugging Face id of public weights, which every new instance downloads: for trials.
        image: the tag of the LMI container in AWS's repository djl-inference. 0.38.0-lmi29.0.0 has
            vLLM 0.28.0.
        host_image: SageMaker's image of the host. An LMI container for CUDA 13 needs driver 580,
            which this one has.
        tensor_parallel: how many GPUs share the model. `max`: all of the instance.
        concurrent_sequences: how many streams vLLM decodes at once on an instance. Others wait.
        prefix_routing_bytes: requests with the same first bytes go to the same instance, which has
            their prefix in its cache. 0: to the instance with the fewest requests.
        speculative_tokens: how many tokens are guessed ahead per step, from n-grams of the prompt.
            0: none.
        requests_per_instance: the concurrent streams per instance that autoscaling aims at.
        start_seconds: how long the download of the model may take, and then its loading.
    """

    instance_type: str = "ml.g6e.xlarge"
    instances_min: int = Field(1, ge=1)
    instances_max: int = Field(2, ge=1)
    model: str = "Qwen/Qwen3-8B"
    image: str = "0.38.0-lmi29.0.0-cu130"
    host_image: str = "al2023-ami-sagemaker-inference-gpu-4-1"
    tensor_parallel: int | Literal["max"] = "max"
    context_tokens: int = Field(16_384, ge=512)
    concurrent_sequences: int = Field(96, ge=1)
    prefix_caching: bool = True
    prefix_routing_bytes: int = Field(0, ge=0, le=65_536)
    speculative_tokens: int = Field(0, ge=0, le=16)
    requests_per_instance: int = Field(64, ge=1)
    start_seconds: int = Field(1_800, ge=60, le=3_600)

    @property
    def model_bucket_and_prefix(self) -> tuple[str, str] | None:
        """Where the weights are in S3. None: they come from Hugging Face."""
        if not self.model.startswith("s3://"):
            return None
        bucket, _, prefix = self.model.removeprefix("s3://").partition("/")
        return bucket, prefix

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.instances_max < self.instances_min:
            raise ValueError(
                f"instances_max must not be below instances_min ({self.instances_min})"
            )
        if self.requests_per_instance > self.concurrent_sequences:
            raise ValueError(
                f"requests_per_instance must be at most {self.concurrent_sequences}, else streams "
                "wait in vLLM"
            )
        if 0 < self.prefix_routing_bytes < 1_024:
            raise ValueError("prefix_routing_bytes must be 0 or at least 1024, SageMaker's minimum")
        if self.model.startswith("s3://") and not (
            all(self.model_bucket_and_prefix or ()) and self.model.endswith("/")
        ):
            raise ValueError(
                "model must be s3://bucket/prefix/ with the slash at its end, or a Hugging Face id"
            )
        return self


class ModelPrice(Settings):
    """What a model costs, in dollars for a million tokens.

    Args:
        cached: the price of input from the prompt's cache. None: that of other input.
        written: the price of input that is written to that cache. None: that of other input.
    """

    input: float = Field(ge=0, lt=1_000_000)
    output: float = Field(ge=0, lt=1_000_000)
    cached: float | None = Field(None, ge=0, lt=1_000_000)
    written: float | None = Field(None, ge=0, lt=1_000_000)

    def entry(self, model: str) -> str:
        """The model's part of EVENFLOW_MODEL_PRICES."""
        prices = [self.input, self.output]
        if self.cached is not None or self.written is not None:
            cache = (self.cached, self.written)
            prices += [self.input if price is None else price for price in cache]
        return f"{model}={'/'.join(f'{price:.12g}' for price in prices)}"


class InferenceSettings(Settings):
    """Where tokens come from.

    Args:
        models: EVENFLOW_MODELS, the names by which clients of /v1 ask for models. Empty: the
            foundation model's name, or `default`.
        price: what the model costs. None: answers have no cost, and tenants no budgets in dollars.
        prices: what others cost that `models` or agents name, by the name at their server.
    """

    kind: Literal["demo", "bedrock", "sagemaker"]
    bedrock: BedrockSettings = BedrockSettings()
    sagemaker: SageMakerSettings = SageMakerSettings()
    models: str = ""
    price: ModelPrice | None = None
    prices: dict[str, ModelPrice] = Field(default_factory=dict)

    @field_validator("models")
    @classmethod
    def _checked_models(cls, models: str) -> str:
        parse_models(models)
        return models

    @field_validator("prices")
    @classmethod
    def _checked_prices(cls, prices: dict[str, ModelPrice]) -> dict[str, ModelPrice]:
        for name, price in prices.items():
            if name not in ModelPrices.parse(price.entry(name)).by_model:
                raise ValueError(f"has {name!r}: a name has no space at its ends")
        return prices

    def check_prices(self, agents_models: Iterable[str]) -> None:
        """Check that either all callable models have a price, or none.

        Args:
            agents_models: the models that agents name.

        Raises:
            ValueError: a model has no price, or an unused model has one.
        """
        public = parse_models(self.public_models)
        named = {*public.values(), *(public.get(model, model) for model in agents_models)} - {""}
        if unknown := sorted(self.prices.keys() - named):
            raise ValueError(
                f"inference.prices has {unknown[0]!r}, which neither inference.models nor an agent "
                "names; what the model itself costs is inference.price"
            )
        if self.price is None and self.prices:
            raise ValueError("inference.price must be set beside prices: what the model costs")
        if self.price is not None and (missing := sorted(named - self.prices.keys())):
            raise ValueError(
                f"inference.prices must have {missing[0]!r}, which inference.models or an agent "
                "names: without it, tenants with a budget in dollars can't ask it"
            )

    @property
    def public_models(self) -> str:
        """The value of EVENFLOW_MODELS. It has no ARN and no internal name."""
        if self.models or self.kind == "demo":
            return self.models
        own = self.bedrock.foundation_model if self.kind == "bedrock" else "default"
        return f"{own}="

    def model_prices(self, own: str) -> str:
        """The value of EVENFLOW_MODEL_PRICES. Empty where no model has a price.

        Args:
            own: the model's name in the log.
        """
        named = {own: self.price, **self.prices}
        return ",".join(price.entry(model) for model, price in named.items() if price is not None)
