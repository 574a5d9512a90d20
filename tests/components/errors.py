"""What a component says when it cannot be had: which one, what was looked for, what to install."""

from __future__ import annotations


class ComponentError(RuntimeError):
    """A component is not there and could not be made; the message names the package to install."""
