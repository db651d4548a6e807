"""The files of days, as objects of a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

PREFIX = "usage/"
"""The prefix of all objects, and of the function's permission."""

_SUFFIX = ".jsonl"
_TYPE = "application/jsonl"
# S3 takes 10,000 parts, of 5 MiB or more but the last one.
_PART_BYTES = 8 * 1024 * 1024


class Written(NamedTuple):
    """A file that was written, and its size."""

    day: str
    size_bytes: int


class UsageBucket:
    """The bucket. An object is there when it is whole.

    Args:
        client: a boto3 client of S3.
        bucket: its name. Its rules encrypt and delete its objects.
    """

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def days(self, first: str) -> frozenset[str]:
        """The days from `first` on that have a file."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=PREFIX, StartAfter=PREFIX + first
        )
        keys = (found["Key"] for page in pages for found in page.get("Contents", ()))
        return frozenset(key.removeprefix(PREFIX).removesuffix(_SUFFIX) for key in keys)

    def put(self, day: str, lines: Iterable[bytes]) -> Written:
        """Write a day's file, and replace an existing one.

        A part is in memory twice.
        """
        place = {"Bucket": self._bucket, "Key": f"{PREFIX}{day}{_SUFFIX}"}
        parts = _parts(lines)
        first = next(parts, b"")
        if len(first) < _PART_BYTES:
            self._client.put_object(**place, Body=first, ContentType=_TYPE)
            return Written(day, len(first))
        upload = place | {
            "UploadId": self._client.create_multipart_upload(**place, ContentType=_TYPE)["UploadId"]
        }
        try:
            size, done = 0, []
            for number, part in enumerate(chain((first,), parts), start=1):
                answer = self._client.upload_part(**upload, PartNumber=number, Body=part)
                done.append({"ETag": answer["ETag"], "PartNumber": number})
                size += len(part)
            self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": done})
        except BaseException:
            self._client.abort_multipart_upload(**upload)
            raise
        return Written(day, size)


def _parts(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines joined to parts. Only the last one may be smaller than the others."""
    part = bytearray()
    for line in lines:
        part += line
        if len(part) >= _PART_BYTES:
            yield bytes(part)
            part.clear()
    if part:
        yield bytes(part)
