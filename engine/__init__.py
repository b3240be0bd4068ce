"""Anchorpoint's engine: teacher -> family -> predictions -> scores -> choice -> export.

Importing this package stays light: frameworks load only inside the function that needs them.
"""

import os

# onnxruntime reports use to its maker unless this is set before it is first imported. We promise to work
# offline.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

from engine.types import UserError

__version__ = "0.2.0"
__all__ = ["UserError", "__version__"]
