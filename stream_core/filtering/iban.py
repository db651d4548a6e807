"""International bank account numbers: their lengths by country, and their check digits."""

from __future__ import annotations

# The registry of ISO 13616: countries, and the lengths of their numbers.
_REGISTRY = """
AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28
EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26
IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28
NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25
SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30
"""
_LENGTHS = {entry[:2]: int(entry[2:]) for entry in _REGISTRY.split()}
_CHECK_DIGITS = 4
_ESCAPE = len("\\n")


def length_of_iban(text: str) -> int:
    """The length of the IBAN with which the text begins, including separators. 0: there is none.

    Words may follow after a space.
    """
    first = _ESCAPE if text.startswith("\\") else 0
    places = [place for place, sign in enumerate(text) if place >= first and sign.isalnum()]
    length = _LENGTHS.get(text[first : first + 2].upper(), 0)
    if not length or len(places) < length:
        return 0
    end = places[length - 1] + 1
    if text[end : end + 1].isalnum():
        return 0
    signs = "".join(text[place] for place in places[:length]).upper()
    number = signs[_CHECK_DIGITS:] + signs[:_CHECK_DIGITS]
    return end if int("".join(str(int(sign, 36)) for sign in number)) % 97 == 1 else 0
