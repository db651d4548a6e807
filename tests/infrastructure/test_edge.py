"""CloudFront: routes, and what passes through them."""

from __future__ import annotations

import json
import subprocess
from fnmatch import fnmatchcase
from typing import Any

import pytest

from evenflow.stream_core.auth.allowed_origins import page_policy
from evenflow.stream_core.http.routes import EDGE_KEY_HEADER, ServedBy, edge_patterns
from tests.infrastructure.synthesis import ROOT, Synthesis

# Ids of policies that AWS manages.
_CACHING_OPTIMIZED = "658327ea-f89d-4fab-a63d-7e88639e58f6"
_CACHING_DISABLED = "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
_ALL_VIEWER = "216adef6-5c7f-47e4-b989-5492eafa07d3"
_ALL_VIEWER_BUT_HOST = "b689b0a8-53d0-40ab-baf2-68738e2966ac"


def _distribution(synthesis: Synthesis) -> dict[str, Any]:
    config: dict[str, Any] = synthesis.only("AWS::CloudFront::Distribution", "edge")[
        "DistributionConfig"
    ]
    return config


def _origins(synthesis: Synthesis) -> dict[str, dict[str, Any]]:
    """`page`, `balancer` or `api` by the origin's id."""
    names = {}
    for origin in _distribution(synthesis)["Origins"]:
        kind = (
            "page"
            if "S3OriginConfig" in origin
            else "balancer"
            if "VpcOriginConfig" in origin
            else "api"
        )
        names[origin["Id"]] = {"kind": kind, **origin}
    return names


def _behavior(synthesis: Synthesis, path: str) -> tuple[str, dict[str, Any]]:
    """Where CloudFront sends a path: the first pattern that fits."""
    config, origins = _distribution(synthesis), _origins(synthesis)
    for behavior in config["CacheBehaviors"]:
        if fnmatchcase(path, behavior["PathPattern"]):
            return origins[behavior["TargetOriginId"]]["kind"], behavior
    default = config["DefaultCacheBehavior"]
    return origins[default["TargetOriginId"]]["kind"], default


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("/", "page"),
        ("/assets/main.js", "page"),
        ("/client.js", "page"),
        ("/evenflow-chat.js", "page"),
        ("/session", "api"),
        ("/chat/message", "balancer"),
        ("/chat/message/r-1", "api"),
        ("/chat/message/r-1/events", "balancer"),
        ("/chat/message/r-1/cancel", "balancer"),
        ("/chat/message/r-1/entries/1/0-9", "balancer"),
        ("/v1/chat/completions", "balancer"),
        ("/v1/realtime", "balancer"),
        ("/v1/responses/resp_1", "balancer"),
        ("/v1/messages", "balancer"),
        ("/api/chat", "balancer"),
        ("/api/chat/c-1/stream", "balancer"),
        ("/agui", "balancer"),
        ("/streams/rsp_1", "balancer"),
        ("/realtime", "balancer"),
        ("/session/ses_1/messages", "balancer"),
        ("/session/ses_1", "balancer"),
        ("/openapi.json", "balancer"),
        ("/asyncapi.json", "balancer"),
        ("/ws", "balancer"),
        ("/metrics", "page"),  # where there is no such thing: 404
        ("/health", "page"),
    ],
)
def test_each_path_has_its_origin(synthesis: Synthesis, path: str, origin: str) -> None:
    assert _behavior(synthesis, path)[0] == origin


@pytest.mark.parametrize(
    "path",
    [
        "/session",
        "/chat/message",
        "/chat/message/r/events",
        "/chat/message/r",
        "/v1/x",
        "/v1/realtime",
        "/api/chat/c/stream",
        "/agui",
        "/realtime",
        "/ws",
    ],
)
def test_what_is_alive_is_neither_cached_nor_compressed_nor_narrowed(
    synthesis: Synthesis, path: str
) -> None:
    origin, behavior = _behavior(synthesis, path)
    assert behavior["CachePolicyId"] == _CACHING_DISABLED
    assert behavior["Compress"] is False
    assert behavior["ViewerProtocolPolicy"] == "https-only"
    assert set(behavior["AllowedMethods"]) == {
        "GET",
        "HEAD",
        "OPTIONS",
        "PUT",
        "PATCH",
        "POST",
        "DELETE",
    }
    # An upgrade needs the Sec-WebSocket-* headers, stickiness the cookies, another origin's page
    # its Origin, and a token passes only where all headers do: so all of them pass.
    assert behavior["OriginRequestPolicyId"] == (
        _ALL_VIEWER if origin == "balancer" else _ALL_VIEWER_BUT_HOST
    )


def test_no_error_is_kept_and_repeated_to_others(synthesis: Synthesis) -> None:
    """CloudFront's guide, "How CloudFront caches HTTP 4xx and 5xx status codes": it may keep
    these, and ignores Cache-Control.
    """
    kept = {
        error["ErrorCode"]: error["ErrorCachingMinTTL"]
        for error in _distribution(synthesis)["CustomErrorResponses"]
    }
    assert kept == dict.fromkeys((400, 403, 404, 405, 414, 416, 500, 501, 502, 503, 504), 0)
    for error in _distribution(synthesis)["CustomErrorResponses"]:
        assert not {"ResponseCode", "ResponsePagePath"} & set(
            error
        )  # the answer itself comes through


def test_the_load_balancer_is_reached_inside_the_vpc(synthesis: Synthesis) -> None:
    (origin,) = (origin for origin in _origins(synthesis).values() if origin["kind"] == "balancer")
    assert "CustomOriginConfig" not in origin
    endpoint = synthesis.only("AWS::CloudFront::VpcOrigin", "edge")["VpcOriginEndpointConfig"]
    assert "LoadBalancer" in json.dumps(endpoint["Arn"])
    assert endpoint["OriginProtocolPolicy"] == "http-only"


def test_origins_may_be_silent_for_longer_than_a_poll_or_a_heartbeat(synthesis: Synthesis) -> None:
    limits = synthesis.settings.limits
    silence = max(
        limits.poll_timeout_max_ms / 1000, limits.sse_heartbeat_seconds, limits.heartbeat_seconds
    )
    for origin in _origins(synthesis).values():
        if origin["kind"] != "page":
            config = origin.get("VpcOriginConfig") or origin["CustomOriginConfig"]
            assert config["OriginReadTimeout"] >= max(30, silence + 5)


def test_the_functions_learn_who_called_and_by_which_address(synthesis: Synthesis) -> None:
    ((name, function),) = synthesis.of_type("AWS::CloudFront::Function", "edge").items()
    (association,) = _behavior(synthesis, "/session")[1]["FunctionAssociations"]
    assert association["EventType"] == "viewer-request"
    assert association["FunctionARN"] == {"Fn::GetAtt": [name, "FunctionARN"]}
    assert function["Properties"]["FunctionConfig"]["Runtime"] == "cloudfront-js-2.0"

    event = {
        "request": {
            "headers": {
                "host": {"value": "chat.example.com"},
                "x-evenflow-host": {"value": "evil.example"},
                "x-evenflow-address": {"value": "192.0.2.66"},
            }
        },
        "viewer": {"ip": "2001:db8::7"},
    }
    program = (
        f"{function['Properties']['FunctionCode']}\n"
        f"console.log(JSON.stringify(handler({json.dumps(event)})))"
    )
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    headers = json.loads(done.stdout)["headers"]
    assert headers["x-evenflow-host"] == {"value": "chat.example.com"}
    assert headers["x-evenflow-address"] == {"value": "2001:db8::7"}


def test_the_functions_are_shown_a_key_that_they_know(synthesis: Synthesis) -> None:
    (api,) = (origin for origin in _origins(synthesis).values() if origin["kind"] == "api")
    (header,) = api["OriginCustomHeaders"]
    assert header["HeaderName"] == EDGE_KEY_HEADER
    _, (begin, secret, end) = header["HeaderValue"]["Fn::Join"]
    assert (begin, end) == ("{{resolve:secretsmanager:", ":SecretString:k1::}}")
    assert "EdgeKeys" in json.dumps(secret)
    told = [
        function["Properties"]["Environment"]["Variables"]["EVENFLOW_EDGE_KEYS_SECRET"]
        for function in synthesis.of_type("AWS::Lambda::Function", "functions").values()
        if "EVENFLOW_EDGE_KEYS_SECRET" in function["Properties"]["Environment"]["Variables"]
    ]
    assert told == [secret] * 2
    # Nobody else is shown it: the load balancer is reached by CloudFront alone.
    assert json.dumps(_distribution(synthesis)).count(EDGE_KEY_HEADER) == 1


def _headers(synthesis: Synthesis, path: str) -> dict[str, Any]:
    """The response headers policy of a path."""
    name = _behavior(synthesis, path)[1]["ResponseHeadersPolicyId"]["Ref"]
    policy: dict[str, Any] = synthesis.of_type("AWS::CloudFront::ResponseHeadersPolicy", "edge")[
        name
    ]["Properties"]
    config: dict[str, Any] = policy["ResponseHeadersPolicyConfig"]
    return config


@pytest.mark.parametrize("path", ["/client.js", "/evenflow-chat.js", "/assets/maths-1.js"])
def test_pages_anywhere_may_load_the_modules(synthesis: Synthesis, path: str) -> None:
    assert any(fnmatchcase(path, pattern) for pattern in edge_patterns(ServedBy.MODULES))
    headers, behavior = _headers(synthesis, path), _behavior(synthesis, path)[1]
    allowed = headers["CorsConfig"]
    assert allowed["AccessControlAllowOrigins"] == {"Items": ["*"]}
    assert allowed["AccessControlAllowCredentials"] is False
    assert headers["SecurityHeadersConfig"]["ContentTypeOptions"] == {"Override": True}
    assert behavior["Compress"] is True
    # What the bucket says of all its files, no-cache, holds up to the browser: nothing here says
    # otherwise.
    assert behavior["CachePolicyId"] == _CACHING_OPTIMIZED
    assert "CustomHeadersConfig" not in headers


@pytest.mark.parametrize(
    ("path", "queries"),
    [
        ("/chat/message/r/entries/1/0-9", {"QueryStringBehavior": "none"}),
        (
            "/streams/r",
            {"QueryStringBehavior": "whitelist", "QueryStrings": ["offset", "live", "cursor"]},
        ),
    ],
)
def test_what_never_changes_is_kept_for_each_token(
    synthesis: Synthesis, path: str, queries: dict[str, Any]
) -> None:
    behavior = _behavior(synthesis, path)[1]
    policies = synthesis.of_type("AWS::CloudFront::CachePolicy", "edge")
    config = policies[behavior["CachePolicyId"]["Ref"]]["Properties"]["CachePolicyConfig"]
    key = config["ParametersInCacheKeyAndForwardedToOrigin"]
    assert key["HeadersConfig"]["Headers"] == ["Authorization", "Origin"]
    # Nothing else lets anybody read, or tells answers apart.
    assert key["CookiesConfig"] == {"CookieBehavior": "none"}
    assert key["QueryStringsConfig"] == queries
    # Only what says so is kept.
    assert (config["MinTTL"], config["DefaultTTL"]) == (0, 0)
    assert len(policies) == 2


def test_a_crowd_that_opens_a_kept_answer_is_one_request_to_the_origin(
    synthesis: Synthesis,
) -> None:
    """CloudFront's guide, "Request and response behavior for custom origins": it collapses no
    requests where a policy of either kind forwards cookies.
    """
    ((name, policy),) = synthesis.of_type("AWS::CloudFront::OriginRequestPolicy", "edge").items()
    _, behavior = _behavior(synthesis, "/chat/message/r/entries/1/0-9")
    assert behavior["OriginRequestPolicyId"] == {"Ref": name}
    config = policy["Properties"]["OriginRequestPolicyConfig"]
    assert config["CookiesConfig"] == {"CookieBehavior": "none"}
    assert config["QueryStringsConfig"] == {"QueryStringBehavior": "none"}
    # The load balancer's certificate is compared with Host. CloudFront refuses Authorization in
    # such a list: it is in the key.
    assert set(config["HeadersConfig"]["Headers"]) == {
        "Host",
        "Access-Control-Request-Method",
        "Access-Control-Request-Headers",
    }


def test_live_reads_of_a_stream_do_not_wait_for_each_other(synthesis: Synthesis) -> None:
    _, behavior = _behavior(synthesis, "/streams/r")
    assert behavior["OriginRequestPolicyId"] == _ALL_VIEWER  # with cookies


def test_the_modules_that_are_deployed_are_those_that_were_built(dev: Synthesis) -> None:
    built = ROOT / "web" / "dist"
    assets = [f"assets/{file.name}" for file in built.glob("assets/*.js")]
    for path in ("client.js", "evenflow-chat.js", *assets):
        (module,) = dev.folder.glob(f"asset.*/{path}")
        assert module.read_bytes() == (built / path).read_bytes()


def test_the_page_itself_is_nobody_elses(synthesis: Synthesis) -> None:
    assert "CorsConfig" not in _headers(synthesis, "/")


def test_the_page_may_do_what_it_does_and_no_more(synthesis: Synthesis) -> None:
    security = _headers(synthesis, "/")["SecurityHeadersConfig"]
    assert security["ContentSecurityPolicy"]["ContentSecurityPolicy"] == page_policy()
    assert security["ContentTypeOptions"] == {"Override": True}
    assert security["StrictTransportSecurity"]["AccessControlMaxAgeSec"] == 365 * 86_400
    default = _distribution(synthesis)["DefaultCacheBehavior"]
    assert "SecurityHeaders" in json.dumps(default["ResponseHeadersPolicyId"])
    assert default["ViewerProtocolPolicy"] == "redirect-to-https"


def test_the_pages_bucket_answers_cloudfront_alone(synthesis: Synthesis) -> None:
    (origin,) = (origin for origin in _origins(synthesis).values() if origin["kind"] == "page")
    assert "OriginAccessControlId" in origin
    buckets = synthesis.of_type("AWS::S3::Bucket")
    assert len(buckets) == 4, "the page, access logs, large requests, and usage files"
    for bucket in buckets.values():
        assert all(bucket["Properties"]["PublicAccessBlockConfiguration"].values())
    policies = synthesis.of_type("AWS::S3::BucketPolicy", "edge").values()
    statements = [s for p in policies for s in p["Properties"]["PolicyDocument"]["Statement"]]
    readers = [
        s
        for s in statements
        if s["Effect"] == "Allow" and s["Principal"] == {"Service": "cloudfront.amazonaws.com"}
    ]
    assert readers
    for reader in readers:
        assert "AWS:SourceArn" in json.dumps(reader["Condition"])


def test_the_page_that_is_deployed_is_the_one_that_was_built(dev: Synthesis) -> None:
    deployed = {path.name for path in dev.folder.glob("asset.*/index.html")}
    assert deployed == {"index.html"}
    (index,) = dev.folder.glob("asset.*/index.html")
    assert index.read_bytes() == (ROOT / "web" / "dist" / "index.html").read_bytes()


def test_an_address_of_ones_own_has_its_certificate_and_its_rules(
    choosy: Synthesis, dev: Synthesis
) -> None:
    config = _distribution(choosy)
    assert config["Aliases"] == ["chat.example.com"]
    assert config["ViewerCertificate"]["AcmCertificateArn"] == choosy.settings.edge.certificate_arn
    assert config["ViewerCertificate"]["MinimumProtocolVersion"] == "TLSv1.2_2021"
    assert config["WebACLId"] == choosy.settings.edge.web_acl_arn
    assert "connect-src 'self' wss://chat.example.com;" in json.dumps(choosy.templates["edge"])
    assert _outputs(choosy)["Url"] == "https://chat.example.com"
    assert "Aliases" not in _distribution(dev)


def _outputs(synthesis: Synthesis) -> dict[str, Any]:
    outputs = synthesis.templates["edge"]["Outputs"].items()
    return {name: output["Value"] for name, output in outputs if "Export" not in output}


def test_a_frontend_is_told_what_it_needs(choosy: Synthesis, dev: Synthesis) -> None:
    assert _outputs(choosy) == {
        "Url": "https://chat.example.com",
        "WebSocketUrl": "wss://chat.example.com/ws",
        "SessionUrl": "https://chat.example.com/session",
        "MessageUrl": "https://chat.example.com/chat/message",
        "OpenAiUrl": "https://chat.example.com/v1",
        "AiSdkUrl": "https://chat.example.com/api/chat",
        "AgUiUrl": "https://chat.example.com/agui",
        "Region": "us-east-1",
        "Installation": "evenflow-dev",
    }
    # Without a domain CloudFront's own, which is known after the deployment.
    assert "DomainName" in json.dumps(_outputs(dev)["WebSocketUrl"])


def test_calls_are_logged_without_cookies(synthesis: Synthesis) -> None:
    logging = _distribution(synthesis)["Logging"]
    assert logging["IncludeCookies"] is False
    assert "AccessLogs" in json.dumps(logging["Bucket"])
