"""An AWS account as preflight sees it: the services' real wire over a socket, from a table of
answers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

# Of the services whose protocol is a query that is answered with XML.
_QUERIES = ("GetCallerIdentity", "DescribeStacks", "GetTemplate")
_REFUSED = {"Type": "Sender", "Message": "refused"}
MODEL = "anthropic.claude-haiku-4-5-20251001-v1:0"


def well() -> dict[str, Any]:
    """Answers by operation, of an account that has everything."""
    arn = f"arn:aws:bedrock:{{}}::foundation-model/{MODEL}"
    return {
        "GetCallerIdentity": {
            "Account": "111111111111",
            "UserId": "U",
            "Arn": "arn:aws:iam::111111111111:user/u",
        },
        "DescribeStacks": "ValidationError",  # there is none of that name
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
        answers: by operation; a text is an error's code. A function makes one of a query's
            parameters.
        asked: the operations that were called.
    """

    answers: dict[str, Any]
    endpoint: str = ""
    asked: list[str] = field(default_factory=list)

    def answer(
        self, operation: str, query: dict[str, list[str]]
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an operation's answer."""
        self.asked.append(operation)
        found = self.answers[operation]
        if callable(found):
            found = found(query)
        refused = isinstance(found, str)
        if operation in _QUERIES:
            answer = (
                {"ErrorResponse": {"Error": _REFUSED | {"Code": found}}}
                if refused
                else {f"{operation}Response": {f"{operation}Result": found}}
            )
            return 403 if refused else 200, {"Content-Type": "text/xml"}, _xml(answer).encode()
        if refused:
            body = {"__type": found, "message": "refused"}
            return 400, {"x-amzn-ErrorType": found}, json.dumps(body).encode()
        return 200, {}, json.dumps(found).encode()


_BEDROCK = {
    "foundation-models": "GetFoundationModel",
    "foundation-model-availability": "GetFoundationModelAvailability",
    "inference-profiles": "GetInferenceProfile",
}


def _xml(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"<{name}>{_xml(part)}</{name}>" for name, part in value.items())
    if isinstance(value, list):
        return "".join(f"<member>{_xml(part)}</member>" for part in value)
    return escape(str(value))


def _operation(path: str, target: str | None, query: dict[str, list[str]]) -> str:
    """The operation of a request, by its protocol."""
    if target is not None:  # JSON 1.1
        return target.rpartition(".")[2]
    kind = path.split("/")[1]
    return _BEDROCK[kind] if kind else query["Action"][0]  # REST, or a query


@contextmanager
def account_server(answers: dict[str, Any]) -> Iterator[AccountServer]:
    """Serve the answers on a free port."""
    account = AccountServer(answers)

    class Request(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            query = parse_qs(body.decode())
            operation = _operation(self.path, self.headers.get("X-Amz-Target"), query)
            status, headers, answer = account.answer(operation, query)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

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
