"""Projects: where is my other work?"""

from __future__ import annotations

from pages.ui.parts.page import page_head, user_errors
from pages.ui.parts.projects import at_hand, from_a_file, project_list
from pages.ui.session.state import current_session

session = current_session()
page_head(session, "projects", "Where is my other work?")
with user_errors():
    at_hand(session)
    project_list(session)
    from_a_file(session)
