"""A page in headless Chromium, watched through its DevTools protocol: what it asks for, what its console says."""

import asyncio
import json
import shutil
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tornado.websocket import websocket_connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
START_S = 60
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--disable-default-apps", "--remote-debugging-port=0"),
    *("--disable-dev-shm-usage", "--window-size=1280,900"),
)


@dataclass(frozen=True)
class Visit:
    """requests: URLs in their order. complaints: of the console, warnings and worse. answers: one per expression."""

    requests: list
    complaints: list
    answers: list


def visit(page: Path, folder: Path, expressions: list, dark: bool = False) -> Visit:
    """Load `page`, evaluate JavaScript expressions in it. folder: an empty one for the browser's profile."""
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as browser:
        try:
            return asyncio.run(_visit(_address(folder), page.as_uri(), expressions, dark))
        finally:
            browser.terminate()


def _address(folder: Path) -> str:
    """The websocket of the browser's one page."""
    port = folder / "DevToolsActivePort"
    end = time.monotonic() + START_S
    while not (port.exists() and port.read_text().strip()):
        assert time.monotonic() < end, f"no DevTools after {START_S} s"
        time.sleep(0.05)
    number = int(port.read_text().splitlines()[0])
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < end:
        with opener.open(f"http://127.0.0.1:{number}/json/list") as answer:
            pages = [target for target in json.load(answer) if target["type"] == "page"]
        if pages:
            return pages[0]["webSocketDebuggerUrl"]
        time.sleep(0.05)
    raise AssertionError("the browser opened no page")


async def _visit(address: str, url: str, expressions: list, dark: bool) -> Visit:
    socket = await websocket_connect(address, max_message_size=2**28)
    events = []
    numbers = iter(range(1, 10_000))

    async def receive():
        return json.loads(await asyncio.wait_for(socket.read_message(), START_S))

    async def call(method, **parameters):
        number = next(numbers)
        await socket.write_message(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = await receive()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            events.append(message)

    for domain in ("Page", "Network", "Log", "Runtime"):
        await call(f"{domain}.enable")
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    await call("Emulation.setEmulatedMedia", features=[scheme])
    await call("Page.navigate", url=url)
    while not any(event["method"] == "Page.loadEventFired" for event in events):
        events.append(await receive())
    answers = []
    for expression in expressions:
        result = await call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result
        answers.append(result["result"].get("value"))
    socket.close()
    while await socket.read_message() is not None:
        pass
    return Visit(
        [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"],
        [e["params"]["entry"]["text"] for e in events if e["method"] == "Log.entryAdded"]
        + [str(e["params"]) for e in events if e["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled")],
        answers,
    )
