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
from urllib.parse import parse_qs, urlsplit

# Without a quota of its own a VPC has five. The one of the region's own is the default one.
_VPC = {"vpcId": "vpc-1", "isDefault": "true"}
# Operations of the query protocol. An item of a list is an element `member`.
_QUERIES = (
    "DescribeStackResources", "DescribeStacks", "GetCallerIdentity", "GetTemplate",
    "ListStackResources", "ListStacks", "ListSubscriptionsByTopic",
)  # fmt: skip
# Others that answer in XML, with the element around the answer. An item of a list has its name.
_XML = {
    "DeleteSecurityGroup": "DeleteSecurityGroupResponse",
    "DescribeAvailabilityZones": "DescribeAvailabilityZonesResponse",
    "DescribeInternetGateways": "DescribeInternetGatewaysResponse",
    "DescribeManagedPrefixLists": "DescribeManagedPrefixListsResponse",
    "DescribeSecurityGroups": "DescribeSecurityGroupsResponse",
    "DescribeVpcBlockPublicAccessExclusions": "DescribeVpcBlockPublicAccessExclusionsResponse",
    "DescribeVpcBlockPublicAccessOptions": "DescribeVpcBlockPublicAccessOptionsResponse",
    "DescribeVpcs": "DescribeVpcsResponse",
    "ListCachePolicies": "CachePolicyList",
    "ListDistributions": "DistributionList",
    "ListOriginRequestPolicies": "OriginRequestPolicyList",
    "ListResponseHeadersPolicies": "ResponseHeadersPolicyList",
    "ListVpcOrigins": "VpcOriginList",
}
_EC2_REFUSED = (
    "<Response><Errors><Error><Code>{code}</Code><Message>refused</Message></Error></Errors>"
    "<RequestID>1</RequestID></Response>"
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
        "DescribeVpcs": {"vpcSet": {"item": [_VPC]}},
        "DescribeInternetGateways": {"internetGatewaySet": {"item": [{"internetGatewayId": "i"}]}},
        "DescribeVpcBlockPublicAccessOptions": {
            "vpcBlockPublicAccessOptions": {"internetGatewayBlockMode": "off"}
        },
        "DescribeVpcBlockPublicAccessExclusions": {"vpcBlockPublicAccessExclusionSet": {}},
        "ListDistributions": {"Items": {"DistributionSummary": [{"Id": "E1"}]}},
        "ListCachePolicies": {"Items": {}},
        "ListOriginRequestPolicies": {"Items": {}},
        "ListResponseHeadersPolicies": {"Items": {}},
        "ListVpcOrigins": {"Items": {}},
        "ListSubscriptionsByTopic": "NotFound",
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
        bodies: of the requests.
        scopes: what the requests were signed for: date, region and service.
    """

    answers: dict[str, Any]
    endpoint: str = ""
    asked: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    scopes: list[str] = field(default_factory=list)

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
            answer = {f"{operation}Response": {f"{operation}Result": found}}
            text = _REFUSED.format(code=found) if refused else _xml(answer, item="member")
            return 403 if refused else 200, {"Content-Type": "text/xml"}, text.encode()
        if operation in _XML:
            refusal = _REFUSED if operation.startswith("List") else _EC2_REFUSED
            text = refusal.format(code=found) if refused else _xml({_XML[operation]: found})
            return 400 if refused else 200, {"Content-Type": "text/xml"}, text.encode()
        if refused:
            body = {"__type": found, "message": "refused"}
            return 400, {"x-amzn-ErrorType": found}, json.dumps(body).encode()
        return 200, {}, json.dumps(found).encode()


_REST = {
    "foundation-models": "GetFoundationModel",
    "foundation-model-availability": "GetFoundationModelAvailability",
    "inference-profiles": "GetInferenceProfile",
    "cache-policy": "ListCachePolicies",
    "distribution": "ListDistributions",
    "origin-request-policy": "ListOriginRequestPolicies",
    "response-headers-policy": "ListResponseHeadersPolicies",
    "vpc-origin": "ListVpcOrigins",
}


def _xml(value: Any, item: str = "") -> str:
    """An answer as XML.

    Args:
        item: the name of a list's items, within the list's element. "": each is such an element.
    """
    if isinstance(value, list):
        return "".join(f"<{item}>{_xml(part, item)}</{item}>" for part in value)
    if not isinstance(value, dict):
        return escape(str(value))
    return "".join(
        f"<{name}>{_xml(each, item)}</{name}>"
        for name, part in value.items()
        for each in (part if isinstance(part, list) and not item else [part])
    )


def _operation(path: str, target: str | None, query: dict[str, list[str]]) -> str:
    """The operation of a request, by its protocol."""
    if target is not None:  # JSON 1.1
        return target.rpartition(".")[2]
    parts = urlsplit(path).path.split("/")
    kind = parts[2] if parts[1] == "2020-05-31" else parts[1]  # CloudFront's paths have a date
    if not kind:  # the query protocol
        return query["Action"][0]
    return "ListInferenceProfiles" if parts[1:] == ["inference-profiles"] else _REST[kind]


@contextmanager
def account_server(answers: dict[str, Any]) -> Iterator[AccountServer]:
    """Serve the answers on a free port."""
    account = AccountServer(answers)

    class Request(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            account.bodies.append(body.decode())
            account.scopes.append(self.headers.get("Authorization", ""))
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
