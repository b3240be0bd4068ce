"""A visitor without a browser: speaks Streamlit's own protocol over a websocket, presses buttons and reads
what the pages say.

Knows the protocol of the installed Streamlit and nothing of Anchorpoint. Loopback only.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs

from google.protobuf.message import Message
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect


@dataclass
class Seen:
    """What one run of a page put on the screen."""

    texts: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # exceptions, not messages to a person
    widgets: dict[str, str] = field(default_factory=dict)  # key -> id
    values: list[str] = field(default_factory=list)  # what fields are filled with
    seconds: float = 0.0

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


class Visitor:
    """One open tab. The page it is on, its address, and what it saw last."""

    def __init__(self, port: int, session: str = "") -> None:
        stream = f"ws://127.0.0.1:{port}/_stcore/stream"
        self._open = ExitStack()
        self._socket = self._open.enter_context(
            connect(stream, subprotocols=["streamlit"], max_size=None, proxy=None)
        )
        self.query = f"session={session}" if session else ""
        self.pages: dict[str, str] = {}  # address of a page -> its hash
        self._page = ""
        self.seen = Seen()

    def __enter__(self) -> Visitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._open.close()

    @property
    def session(self) -> str:
        """The id in the address bar."""
        return parse_qs(self.query).get("session", [""])[0]

    def open(self, page: str = "", *, timeout: float = 60.0) -> Seen:
        """Load a page, or the first one."""
        self._page = self.pages[page] if page else ""
        return self._run({}, timeout)

    def press(self, key: str, *, timeout: float = 60.0) -> Seen:
        """Press the button with this key."""
        return self._run({self.seen.widgets[key]: {"trigger_value": True}}, timeout)

    def give(self, key: str, *, timeout: float = 60.0, **value: Any) -> Seen:
        """Fill a field: `string_value="..."`, or whatever the field's protocol calls its value."""
        return self._run({self.seen.widgets[key]: value}, timeout)

    def _run(self, widgets: dict[str, dict[str, Any]], timeout: float) -> Seen:
        message = BackMsg()
        message.rerun_script.query_string = self.query
        message.rerun_script.page_script_hash = self._page
        message.rerun_script.widget_states.SetInParent()
        for widget, value in widgets.items():
            message.rerun_script.widget_states.widgets.add(id=widget, **value)
        started = time.monotonic()
        self._socket.send(message.SerializeToString())
        self.seen = Seen()
        while not self._take(self._next(started + timeout)):
            pass
        self.seen.seconds = time.monotonic() - started
        return self.seen

    def _next(self, deadline: float) -> ForwardMsg:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the page did not finish")
        data = self._socket.recv(timeout=left)
        assert isinstance(data, bytes)
        return ForwardMsg.FromString(data)

    def _take(self, message: ForwardMsg) -> bool:
        """Note what a message says; True if the page is complete."""
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self._page = message.new_session.page_script_hash
            self.seen = Seen()  # a page that sends elsewhere is not what is seen in the end
        if kind == "navigation":
            self.pages = {page.url_pathname: page.page_script_hash for page in message.navigation.app_pages}
        if kind == "page_info_changed":
            self.query = message.page_info_changed.query_string
        if kind == "delta":
            self._read(message.delta.new_element)
        return kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN

    def _read(self, element: Any) -> None:
        kind = element.WhichOneof("type")
        if kind is None:
            return
        content: Message = getattr(element, kind)
        names = content.DESCRIPTOR.fields_by_name
        if kind == "exception":
            self.seen.errors.append(f"{element.exception.type}: {element.exception.message}")
        if "body" in names:
            self.seen.texts.append(content.body)  # type: ignore[attr-defined]
        if kind == "text_input":
            self.seen.values += [element.text_input.default, element.text_input.value]
        if "id" in names and (key := content.id.split("-", 2)[-1]):  # type: ignore[attr-defined]
            self.seen.widgets[key] = content.id  # type: ignore[attr-defined]
