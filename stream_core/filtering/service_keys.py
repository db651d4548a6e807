"""Patterns of services' keys, which begin with a fixed text.

They are those that the services document, and that scanners of repositories (detect-secrets,
gitleaks) use. A length is the shortest one: more of the same characters belong to the key, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_K = r"[A-Za-z0-9_-]"
_HEX = r"[0-9a-f]"

_ANYWHERE: Mapping[str, str] = {
    "anthropic": rf"sk-ant-{_K}{{20}}",
    "evenflow": rf"evf_{_HEX}{{8}}_{_K}{{20}}",
    "github_pat": r"github_pat_[A-Za-z0-9_]{40}",
    "google": rf"AIza{_K}{{30}}|GOCSPX-{_K}{{20}}",
    "hugging_face": r"hf_[A-Za-z0-9]{30}",
    "openai": rf"sk-(?:proj|svcacct|admin|service|None)-{_K}{{20}}",
    "openrouter": rf"sk-or-{_K}{{20}}",
    "stripe_test": r"(?:sk|rk)_test_[0-9a-zA-Z]{24}",
}
"""By service. They match anywhere, since no word contains their beginnings."""

_AFTER_WORDS: tuple[tuple[str, str], ...] = (
    ("ABSK", r"[A-Za-z0-9+/]{40}"),  # Bedrock
    ("AGE-SECRET-KEY-1", r"[0-9A-Z]{50}"),
    ("AT", r"[A-Z]TT3[A-Za-z0-9_=-]{40}"),  # Atlassian
    ("HRKU-", rf"{_K}{{36}}"),  # Heroku
    ("LTAI", r"[A-Za-z0-9]{20}"),  # Alibaba
    ("NRAK-", r"[A-Z0-9]{27}"),  # New Relic
    ("PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),  # Postman
    ("api_org_", r"[A-Za-z0-9]{30}"),  # Hugging Face
    ("bedrock-api-key-", r"[A-Za-z0-9+/]{40}"),
    ("csk-", r"[a-z0-9]{40}"),  # Cerebras
    ("dapi", rf"{_HEX}{{32}}"),  # Databricks
    ("dckr_", rf"[op]at_{_K}{{20}}"),  # Docker
    ("discord", rf"(?:app)?\.com/api/webhooks/[0-9]{{15,20}}/{_K}{{40}}"),
    ("do", rf"[opr]_v1_{_HEX}{{40}}"),  # DigitalOcean
    ("dp.", r"(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40}"),  # Doppler
    ("e2b_", rf"{_HEX}{{40}}"),
    ("fc-", rf"{_HEX}{{32}}"),  # Firecrawl
    ("fig", rf"[dor]_{_K}{{40}}"),  # Figma
    ("fm", r"[12][ar]?_[A-Za-z0-9+/]{60}"),  # Fly
    ("fo1_", rf"{_K}{{40}}"),
    ("gl", rf"(?:ffct|rtr|soat|wt)-{_K}{{20}}"),  # GitLab
    ("glc_eyJ", r"[A-Za-z0-9+/]{32}"),  # Grafana
    ("glsa_", r"[A-Za-z0-9]{32}"),
    ("gsk_", r"[A-Za-z0-9]{40}"),  # Groq
    ("hv", rf"[bsr]\.{_K}{{24}}"),  # Vault
    ("jina_", r"[A-Za-z0-9]{40}"),
    ("lin_", r"(?:api|oauth)_[A-Za-z0-9]{40}"),  # Linear
    ("lsv2_", rf"(?:pt|sk)_{_HEX}{{32}}"),  # LangSmith
    ("npm_", r"[A-Za-z0-9]{36}"),
    ("ntn_", r"[A-Za-z0-9]{40}"),  # Notion
    ("nvapi-", rf"{_K}{{40}}"),
    ("ops_eyJ", r"[A-Za-z0-9+/_-]{40}"),  # 1Password
    ("pat", rf"[A-Za-z0-9]{{14}}\.{_HEX}{{40}}"),  # Airtable
    ("pcsk_", rf"{_K}{{40}}"),  # Pinecone
    ("ph", r"[sx]_[A-Za-z0-9]{40}"),  # PostHog
    ("pplx-", r"[A-Za-z0-9]{40}"),
    ("pscale_", r"(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32}"),
    ("pul-", rf"{_HEX}{{40}}"),  # Pulumi
    ("r8_", r"[A-Za-z0-9]{37}"),  # Replicate
    ("rubygems_", rf"{_HEX}{{48}}"),
    ("sb_secret_", rf"{_K}{{20}}"),  # Supabase
    ("sbp_", rf"{_HEX}{{40}}"),
    ("secret_", r"[A-Za-z0-9]{43}"),  # Notion
    ("shp", r"(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),  # Shopify
    ("sk-", r"[A-Za-z0-9]{32}"),  # OpenAI before projects, DeepSeek, Moonshot and others
    # OpenAI with the name of a project or an account, which has the same characters as a key.
    ("sk-", rf"{_K}{{8,100}}?T3BlbkFJ{_K}{{8}}"),
    ("sk-lf-", rf"{_HEX}{{8}}-{_K}{{20}}"),  # Langfuse
    ("sk_", rf"{_HEX}{{48}}"),  # ElevenLabs
    ("sntry", r"[su]_[A-Za-z0-9+/_-]{40}"),
    ("tgp_v1_", rf"{_K}{{40}}"),  # Together
    ("tvly-", rf"{_K}{{20}}"),
    ("v1.0-", rf"{_HEX}{{24}}-{_HEX}{{64}}"),  # Cloudflare
    ("whsec_", r"[A-Za-z0-9+/]{24}"),  # Stripe
    ("xai-", r"[A-Za-z0-9]{40}"),
    ("xapp-", r"[0-9]-[A-Z0-9]{5,20}-[0-9]{5,20}-[a-z0-9]{20}"),  # Slack
    ("xkeysib-", rf"{_HEX}{{40}}"),  # Brevo
    ("xoxe.xox", r"[bp]-[A-Za-z0-9-]{30}"),
    ("ya29.", rf"{_K}{{30}}"),  # Google
)
"""Beginnings and the rest. No letter or digit may precede them, since words end with some of them.
"""


def not_behind(characters: str) -> str:
    """An expression for a place that none of these characters precedes.

    The letter of an escape, as in `\\n` in JSON, is no letter, and belongs to the match.
    """
    return rf"(?:\\[nrt]|(?<![{characters}]))"


def service_keys() -> Mapping[str, str]:
    """Expressions by their names."""
    rests: dict[str, list[str]] = {}
    for begins, rest in _AFTER_WORDS:
        rests.setdefault(begins[0], []).append(re.escape(begins[1:]) + rest)
    # By first letters, so that few of them are tried at a place.
    after_words = "|".join(f"{first}(?:{'|'.join(each)})" for first, each in rests.items())
    return {**_ANYWHERE, "service_key": f"{not_behind('A-Za-z0-9')}(?:{after_words})"}
