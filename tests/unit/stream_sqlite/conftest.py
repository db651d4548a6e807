"""Writers that are threads of this process."""

from tests.integration.stores.writer_thread import writers_are_threads  # noqa: F401 - a fixture
