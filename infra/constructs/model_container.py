"""AWS's LMI container and its settings for vLLM."""

from __future__ import annotations

import json

from aws_cdk import Stack
from aws_cdk import aws_sagemaker as sagemaker

from infra.settings import SageMakerSettings

DLC_ACCOUNT = "763104351884"  # where AWS keeps its deep learning containers, in most regions
_WEIGHTS = "/opt/ml/model"  # where SageMaker puts what it downloads


def model_container(stack: Stack, model: SageMakerSettings) -> sagemaker.CfnModel.ContainerDefinitionProperty:
    """The container: weights from S3 where the settings say so, else from Hugging Face."""
    from_bucket = model.model_bucket_and_prefix is not None
    source = sagemaker.CfnModel.ModelDataSourceProperty(
        s3_data_source=sagemaker.CfnModel.S3DataSourceProperty(
            s3_uri=model.model, s3_data_type="S3Prefix", compression_type="None"
        )
    )
    return sagemaker.CfnModel.ContainerDefinitionProperty(
        image=f"{DLC_ACCOUNT}.dkr.ecr.{stack.region}.{stack.url_suffix}/djl-inference:{model.image}",
        environment=model_variables(model),
        model_data_source=source if from_bucket else None,
    )


def model_variables(model: SageMakerSettings) -> dict[str, str]:
    """vLLM's engine arguments as LMI takes them: OPTION_<ARGUMENT>."""
    variables = {
        "HF_MODEL_ID": _WEIGHTS if model.model_bucket_and_prefix else model.model,
        # vLLM's own asynchronous engine and OpenAI schema, instead of LMI's rolling batch.
        "OPTION_ASYNC_MODE": "true",
        "OPTION_ROLLING_BATCH": "disable",
        "OPTION_ENTRYPOINT": "djl_python.lmi_vllm.vllm_async_service",
        "OPTION_TENSOR_PARALLEL_DEGREE": str(model.tensor_parallel),
        "OPTION_MAX_MODEL_LEN": str(model.context_tokens),
        "OPTION_MAX_ROLLING_BATCH_SIZE": str(model.concurrent_sequences),  # becomes vLLM's max_num_seqs
        "OPTION_ENABLE_PREFIX_CACHING": str(model.prefix_caching).lower(),
        "SERVING_FAIL_FAST": "true",  # a model that does not load fails the deployment instead of answering errors
    }
    if model.speculative_tokens:
        # N-grams need no second model, which a container without a network could not fetch.
        speculation = {"method": "ngram", "num_speculative_tokens": model.speculative_tokens, "prompt_lookup_max": 4}
        variables["OPTION_SPECULATIVE_CONFIG"] = json.dumps(speculation)
    return variables
