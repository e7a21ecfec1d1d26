"""What is installed only where it is asked for."""

from __future__ import annotations

__all__ = ["needs"]


def needs(extra: str, what: str, missing: ImportError) -> ImportError:
    """Return the error that says what to install."""
    package = missing.name or extra
    return ImportError(
        f"{what} needs the package {package!r}, which is not installed: pip install 'godwit-client[{extra}]'",
        name=missing.name,
    )
