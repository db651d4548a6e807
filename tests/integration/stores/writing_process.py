"""`python -m tests.integration.stores.writing_process PATH`: writes an answer to a file without
end, and says what is kept.

Each line on standard output is the id of the response, or the index up to which its chunks were
taken.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from evenflow.stream_sqlite.stores import SQLiteStores
from tests.integration.stores.stores import NOW, Stores, chunk

OWNER = "writer"


async def _write(path: Path) -> None:
    opened = SQLiteStores(path, lambda: NOW)
    stores = Stores(opened.responses, opened.sessions)
    await opened.responses.renew(OWNER, NOW + 10)
    lease = await stores.begin(OWNER)
    print(lease.response_id, flush=True)
    index = 0
    while True:
        chunks = [
            chunk(lease, first, [f"{first} ", f"{first + 1} "])
            for first in range(index, index + 20, 2)
        ]
        assert list(await opened.responses.append(chunks)) == []
        index += 20
        print(index, flush=True)


if __name__ == "__main__":
    asyncio.run(_write(Path(sys.argv[1])))
