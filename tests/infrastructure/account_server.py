"""An AWS account as preflight sees it: the services' real wire over a socket, from a table of
answers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

_IDENTITY = (
    '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
    "<GetCallerIdentityResult><Account>111111111111</Account><UserId>U</UserId>"
    "<Arn>arn:aws:iam::111111111111:user/u</Arn></GetCallerIdentityResult>"
    "</GetCallerIdentityResponse>"
)
_REFUSED = (
    '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
    "<Code>{code}</Code><Message>refused</Message></Error></ErrorResponse>"
)
_EC2_REFUSED = (
    "<Response><Errors><Error><Code>{code}</Code><Message>refused</Message></Error></Errors>"
    "</Response>"
)
MODEL = "anthropic.claude-haiku-4-5-20251001-v1:0"


def well() -> dict[str, Any]:
    """Answers by operation, of an account that has everything."""
    arn = f"arn:aws:bedrock:{{}}::foundation-model/{MODEL}"
    return {
        "GetCallerIdentity": {},
        "GetParameter": {"Parameter": {"Name": "version", "Type": "String", "Value": "30"}},
        "GetFoundationModelAvailability": {
            "modelId": MODEL,
            "agreementAvailability": {"status": "AVAILABLE"},
            "authorizationStatus": "AUTHORIZED",
            "entitlementAvailability": "AVAILABLE",
            "regionAvailability": "AVAILABLE",
        },
        "GetFoundationModel": {
            "modelDetails": {
                "modelArn": arn.format("us-east-1"),
                "modelId": MODEL,
                "modelName": "Claude Haiku 4.5",
                "providerName": "Anthropic",
                "responseStreamingSupported": True,
                "modelLifecycle": {"status": "ACTIVE"},
            }
        },
        "GetInferenceProfile": {
            "inferenceProfileName": "US Claude Haiku 4.5",
            "inferenceProfileArn": "arn:aws:bedrock:us-east-1:111111111111:inference-profile/x",
            "inferenceProfileId": f"us.{MODEL}",
            "models": [
                {"modelArn": arn.format(region)}
                for region in ("us-east-1", "us-east-2", "us-west-2")
            ],
            "status": "ACTIVE",
            "type": "SYSTEM_DEFINED",
        },
        "ListStacks": {"StackSummaries": []},
        "ListStackResources": {"StackResourceSummaries": []},
        "DescribeStackResources": "ValidationError",  # there is no such stack
        "GetResources": {"ResourceTagMappingList": []},
        "ListSecrets": {"SecretList": []},
        "DescribeLogGroups": {"logGroups": []},
        "DescribeKey": {"KeyMetadata": {"KeyId": "k", "KeyState": "Enabled"}},
        "DescribeImages": {"imageDetails": [{"imageTags": ["1"]}]},
        "GetServiceQuota": {"Quota": {"Value": 50_000.0}},
        "ListServiceQuotas": {
            "Quotas": [
                {"QuotaName": name, "Value": value}
                for name, value in (
                    ("Cross-Region InvokeModel tokens per minute for Anthropic Claude 3 Haiku", 1),
                    ("Global cross-Region tokens per minute for Anthropic Claude Haiku 4.5", 2),
                    ("Cross-Region InvokeModel tokens per minute for Claude Haiku 4.5", 9e9),
                    ("ml.g6e.xlarge for endpoint usage", 4.0),
                )
            ]
        },
        "ListAWSDefaultServiceQuotas": {"Quotas": []},
        "DescribeCertificate": {
            "Certificate": {
                "CertificateArn": "arn:aws:acm:us-east-1:111111111111:certificate/1",
                "DomainName": "example.com",
                "SubjectAlternativeNames": ["example.com", "*.example.com"],
                "Status": "ISSUED",
                "NotAfter": 1_900_000_000,
            }
        },
    }


@dataclass
class AccountServer:
    """A running one.

    Args:
        answers: by operation; a text is an error's code.
        asked: the operations that were called.
    """

    answers: dict[str, Any]
    endpoint: str = ""
    asked: list[str] = field(default_factory=list)

    def answer(self, operation: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an operation's answer."""
        self.asked.append(operation)
        found = self.answers[operation]
        refused = isinstance(found, str)
        if operation in _EC2:
            text = _EC2_REFUSED.format(code=found) if refused else _ec2(operation, found)
            return 400 if refused else 200, {"Content-Type": "text/xml"}, text.encode()
        if operation in _QUERIES:
            text = _REFUSED.format(code=found) if refused else _QUERIES[operation](found)
            return 403 if refused else 200, {"Content-Type": "text/xml"}, text.encode()
        if refused:
            body = {"__type": found, "message": "refused"}
            return 400, {"x-amzn-ErrorType": found}, json.dumps(body).encode()
        return 200, {}, json.dumps(found).encode()


def _cloudformation(operation: str) -> Callable[[Any], str]:
    def answer(found: Any) -> str:
        result = f"<{operation}Result>{_xml(found)}</{operation}Result>"
        return f"<{operation}Response>{result}</{operation}Response>"

    return answer


_EC2 = ("DescribeSecurityGroups", "DeleteSecurityGroup")


def _ec2(operation: str, found: Any) -> str:
    return f"<{operation}Response>{_xml(found)}</{operation}Response>"


def _xml(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"<{name}>{_xml(inner)}</{name}>" for name, inner in value.items())
    if isinstance(value, list):
        return "".join(f"<member>{_xml(inner)}</member>" for inner in value)
    return str(value)


# The operations of the query protocol, which answers in XML.
_QUERIES: dict[str, Callable[[Any], str]] = {
    "GetCallerIdentity": lambda _: _IDENTITY,
    **{
        operation: _cloudformation(operation)
        for operation in ("ListStacks", "ListStackResources", "DescribeStackResources")
    },
}
_BEDROCK = {
    "foundation-models": "GetFoundationModel",
    "foundation-model-availability": "GetFoundationModelAvailability",
    "inference-profiles": "GetInferenceProfile",
}


def _operation(path: str, target: str | None, body: bytes) -> str:
    """The operation of a request, by its protocol."""
    if target is not None:  # JSON 1.1
        return target.rpartition(".")[2]
    kind = path.split("/")[1]
    if kind:  # REST
        return _BEDROCK[kind]
    return parse_qs(body.decode())["Action"][0]  # the query protocol


@contextmanager
def account_server(answers: dict[str, Any]) -> Iterator[AccountServer]:
    """Serve the answers on a free port."""
    account = AccountServer(answers)

    class Request(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            request = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            operation = _operation(self.path, self.headers.get("X-Amz-Target"), request)
            status, headers, body = account.answer(operation)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Request) as server:
        server.daemon_threads = True
        account.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield account
        server.shutdown()
        thread.join()
