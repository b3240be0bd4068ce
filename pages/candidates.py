"""candidates."""

from __future__ import annotations

from pages.ui.state import current_session
from pages.ui.views import page_head

page_head(current_session(), "candidates", "")
