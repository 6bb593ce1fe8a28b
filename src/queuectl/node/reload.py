"""Whether files of Python have changed below a directory: for nodes that start again then."""

import os
from collections.abc import Iterator

MOST_FILES = 5_000
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


class SourceWatch:
    """The files of Python below a directory, as they were when it was last asked."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known = self._look()

    def changed(self) -> str | None:
        """Return a file that was changed, made or removed since the last time; None if none was."""
        before, self._known = self._known, self._look()
        different = before.items() ^ self._known.items()
        return min((os.path.relpath(path, self._folder) for path, _ in different), default=None)

    def _look(self) -> dict[str, int]:
        return dict(file for file, _ in zip(self._files(), range(MOST_FILES), strict=False))

    def _files(self) -> Iterator[tuple[str, int]]:
        for folder, folders, names in os.walk(self._folder):
            folders[:] = [
                name
                for name in sorted(folders)
                if not name.startswith(".")
                and name not in _SKIPPED
                and not os.path.exists(f"{folder}/{name}/pyvenv.cfg")
            ]
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    try:
                        yield path, os.stat(path).st_mtime_ns
                    except OSError:
                        continue
