"""Anchorpoint's engine: teacher -> family -> predictions -> scores -> choice -> export.

Importing this package stays light: frameworks load only inside the function that needs them.
"""

from engine.types import UserError

__version__ = "0.2.0"
__all__ = ["UserError", "__version__"]
