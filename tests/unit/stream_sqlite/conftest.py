"""Writers that are threads of this process, and a disk that can be full."""

from tests.integration.stores.writer_thread import writers_are_threads  # noqa: F401 - a fixture
from tests.unit.stream_sqlite.small_disk import small_disk  # noqa: F401 - a fixture
