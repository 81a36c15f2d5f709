"""The page at ``/`` in Chromium: a chat streams, stops, shows its figures, and needs no mouse."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from browser import watched
from llm_models import chatting, own
from serving_http import server
from support import reference

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "own/model/mtkit-docs-target-q8_0.gguf"
LEAST_CONTRAST = 4.5
"""WCAG 2.2, 1.4.3."""
IDLE = (
    """async () => (await (await fetch("/slots")).json()).every((slot) => slot.state === "idle")"""
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server(own(NAME), "-np", "2", "--exact") as started:
        yield started.url


def expect(what: Any) -> Any:
    return reference("playwright.sync_api").expect(what)


def ended(page: Any, turn: int = 1) -> None:
    """Wait until so many answers are complete; the policy forbids ``wait_for_function``."""
    expect(page.locator("article.assistant")).to_have_count(turn)
    page.wait_for_selector("#stop", state="hidden")


def test_a_turn_shows_its_figures(chromium: Any, url: str) -> None:
    with watched(chromium) as (page, _):
        page.goto(url)
        expect(page).to_have_title("mtkit-docs-target-q8_0.gguf")
        assert page.inner_text("#name") == "mtkit-docs-target-q8_0.gguf"
        assert page.inner_text("#slots") == "256 tokens of context"
        for turn in (1, 2):
            page.fill("#text", "How do I list files?")
            page.click("#send")
            ended(page, turn)
        shown = page.inner_text("article.assistant:last-child .figures")
        for figure in ("tokens · ", " tokens/s · prompt ", " from the cache"):
            assert figure in shown
        assert int(shown.partition(", ")[2].split()[0]) > 10
        last = """figures({
            usage: {completion_tokens: 9, prompt_tokens: 5,
                prompt_tokens_details: {cached_tokens: 2}},
            timings: {predicted_per_second: 7, drafting:
                {drafted: 12, accepted: 6, triggers: 3, dynamic_vocabulary: 40}},
        })"""
        assert page.evaluate(last) == (
            "9 tokens · 7.0 tokens/s · prompt 5, 2 from the cache · 6 of 12 drafted tokens accepted"
            " · triggered 3 times · dynamic vocabulary 40"
        )
        page.click("#fresh")
        assert page.locator("article").count() == 0


def test_an_answer_streams_and_stops_by_the_keyboard_alone(chromium: Any) -> None:
    with (
        server(chatting(), "-np", "1", "-c", "65536", "--ignore-eos") as started,
        watched(chromium) as (page, _),
    ):
        keys = page.keyboard
        page.goto(started.url)
        expect(page.locator("#text")).to_be_focused()
        keys.type("Hello")
        keys.press("Shift+Enter")
        keys.type("again")
        keys.press("Enter")
        answers = page.locator("article.assistant .body")
        expect(answers).to_have_text(re.compile(".{20}", re.DOTALL))
        assert page.inner_text("article.user .body") == "Hello\nagain"
        part = len(answers.inner_text())
        expect(answers).to_have_text(re.compile(f".{{{part + 200}}}", re.DOTALL))
        assert page.get_attribute("#talk", "aria-busy") == "true"  # it grows as it is made
        keys.press("Escape")
        page.wait_for_selector("#stop", state="hidden")
        assert page.inner_text(".notice").startswith("Stopped.")
        said = answers.inner_text()
        keys.type("More")
        keys.press("Tab")
        assert page.evaluate("document.activeElement.id") == "attach"
        keys.press("Tab")
        assert page.evaluate("document.activeElement.id") == "send"
        keys.press("Space")
        expect(answers.nth(1)).not_to_be_empty()
        assert page.evaluate("document.activeElement.id") == "stop"
        keys.press("Enter")
        page.wait_for_selector("#stop", state="hidden")
        assert page.evaluate("document.activeElement.id") == "text"
        assert answers.first.inner_text() == said
        page.wait_for_function(IDLE)  # the server sees that nobody listens when it writes next
        reached = set()
        for _ in range(40):
            keys.press("Shift+Tab")
            name = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.id"
            reached.add(page.evaluate(name))
        assert reached >= {"fresh", "Copy", "Edit", "Regenerate", "Tokens", "Settings", "Send"}


def test_tokens_are_colored_on_demand(chromium: Any, url: str) -> None:
    text = "A naïve 你😀\nline"
    with watched(chromium) as (page, _):
        page.goto(url)
        page.fill("#text", text)
        page.keyboard.press("Enter")
        ended(page)
        body = page.locator("article.user .body")
        toggle = page.locator("article.user").get_by_role("button", name="Tokens")
        toggle.click()
        spans = body.locator("span")
        page.wait_for_selector("article.user .tokens")
        wanted = page.evaluate(
            """(content) => fetch("/tokenize", {
                method: "POST", headers: {"content-type": "application/json"},
                body: JSON.stringify({content, parse_special: false}),
            }).then((answer) => answer.json())""",
            text,
        )["tokens"]
        assert [int(span.get_attribute("title")) for span in spans.all()] == wanted
        assert page.inner_text("article.user .figures") == f"{len(wanted)} tokens"
        assert toggle.get_attribute("aria-pressed") == "true"
        first, second = (
            spans.nth(at).evaluate("(span) => getComputedStyle(span).backgroundColor")
            for at in (0, 1)
        )
        assert first != second
        assert "⏎" in body.inner_text()
        toggle.click()
        assert body.inner_text() == text
        page.locator("article.assistant").get_by_role("button", name="Tokens").click()
        page.locator("article.assistant .tokens button").first.click()
        page.wait_for_selector("#alternatives li")
        chances = page.locator("#alternatives li span").all_inner_texts()
        assert len(chances) == 8
        assert 0 < sum(float(chance.split()[0]) for chance in chances) <= 101


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen(chromium: Any, url: str, scheme: str) -> None:
    options = {"viewport": {"width": 380, "height": 700}, "color_scheme": scheme}
    with watched(chromium, **options) as (page, _):
        page.goto(url)
        page.click("#open-settings")
        page.fill("#max_tokens", "1")
        poor = page.evaluate(CONTRASTS)
        page.click("#close-settings")
        page.fill("#text", "How do I list files?" * 3 + "x" * 200)
        page.click("#send")
        ended(page)
        expect(page.locator(".notice")).to_contain_text("Cut: the answer reached the limit of 1 t")
        page.locator("article.assistant").get_by_role("button", name="Tokens").click()
        page.wait_for_selector("article.assistant .tokens")
        assert page.evaluate("document.documentElement.scrollWidth") == 380
        for name in ("#text", "#send", "#attach", "#open-settings", "#open-side"):
            box = page.locator(name).bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 380
        page.click("#open-side")
        expect(page.locator("#fresh")).to_be_focused()
        poor |= page.evaluate(CONTRASTS)
        assert len(poor) > 10
        assert min(poor.values()) >= LEAST_CONTRAST, poor
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


CONTRASTS = """() => {
    const parts = (color) => color.match(/[0-9.]+/g).map(Number);
    const light = (color) => parts(color).slice(0, 3)
        .map((part) => (part /= 255) <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [.2126, .7152, .0722][at], 0);
    const found = {};
    const all = "h1,h2,p,label,summary,button:enabled,article > div,.tokens > *,.figures,li";
    for (const part of document.querySelectorAll(all)) {
        if (!part.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
        let ground = part;
        while (parts(getComputedStyle(ground).backgroundColor)[3] === 0)
            ground = ground.parentElement ?? document.body;
        const both = [part, ground].map((one, at) =>
            light(getComputedStyle(one)[at ? "backgroundColor" : "color"])).sort((a, b) => a - b);
        found[`${part.tagName} ${part.className} ${part.id}`] = (both[1] + .05) / (both[0] + .05);
    }
    return found;
}"""


def test_an_answer_is_continued_and_a_full_context_goes_on(chromium: Any, url: str) -> None:
    with watched(chromium) as (page, complaints):
        page.goto(url)
        page.click("#open-settings")
        page.fill("#max_tokens", "1")
        page.keyboard.press("Escape")
        page.fill("#text", "How do I list files?")
        page.keyboard.press("Enter")
        page.wait_for_selector(".notice button")
        before = page.inner_text("article.assistant .body")
        page.click(".notice button")
        page.wait_for_selector("#stop", state="hidden")
        after = page.inner_text("article.assistant .body")
        assert after.startswith(before.rstrip())
        assert len(after) > len(before)
        for turn in (2, 3, 4):
            page.fill("#text", "Tell me more about files and folders. " * 6)
            page.keyboard.press("Enter")
            ended(page, turn)
        assert "256 tokens is full" in page.inner_text(".dropped")
        assert all("400" in complaint for complaint in complaints)
        complaints.clear()
