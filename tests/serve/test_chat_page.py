"""The chat page, with answers that a stub prepares: what is sent, what is shown, what stays."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from browser import Thread, barriers, watched
from chat_stub import Stub, stubbed, text_answer
from media_pairs import SLOPE
from support import reference

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES, MOST_PAINT_MS, MOST_TYPING_MS = 120_000, 300, 50


@pytest.fixture(scope="module")
def served() -> Iterator[Stub]:
    with stubbed() as stub:
        yield stub


@pytest.fixture
def stub(served: Stub) -> Stub:
    served.reset()
    return served


@contextmanager
def opened(chromium: Any, stub: Stub, **context: Any) -> Iterator[tuple[Any, list[str]]]:
    with watched(chromium, **context) as (page, complaints):
        page.goto(stub.url)
        page.set_default_timeout(20_000)
        page.wait_for_selector("#none:not(:empty)", state="attached")
        yield page, complaints


def expect(what: Any) -> Any:
    return reference("playwright.sync_api").expect(what)


def ask(page: Any, text: str) -> None:
    page.fill("#text", text)
    page.keyboard.press("Enter")
    idle(page)


def idle(page: Any) -> None:
    page.wait_for_selector("#stop", state="hidden")


def bodies(page: Any, role: str = "assistant") -> list[str]:
    texts: list[str] = page.locator(f"article.{role} .body").all_inner_texts()
    return texts


def act(page: Any, role: str, name: str) -> None:
    """Press a button of the last message of a role."""
    page.locator(f"article.{role}").last.get_by_role("button", name=name, exact=True).click()


def sent(stub: Stub) -> list[tuple[str, str]]:
    """Return the messages of the last request."""
    return [(row["role"], row["content"]) for row in stub.requests[-1]["messages"]]


OUTLINE = """(texts) => {
    const outline = (node) => node.nodeType === 3 ? node.data :
        node.matches("button") ? "" :
        `<${node.localName}${node.start > 1 ? ` ${node.start}` : ""}`
        + `${node.href ? ` ${node.href}` : ""}>` + [...node.childNodes].map(outline).join("")
        + `</${node.localName}>`;
    return texts.map((text) => {
        const root = document.createElement("div");
        new Markdown(root).update(text);
        return [...root.childNodes].map(outline).join("").replaceAll(/<\\/?span>/g, "");
    });
}"""
MARKDOWN = {
    "**b** *i* ~~d~~ `c`": "<p><strong>b</strong> <em>i</em> <del>d</del> <code>c</code></p>",
    "***both*** and **a *b* c**":
        "<p><em><strong>both</strong></em> and <strong>a <em>b</em> c</strong></p>",
    "**注意：**后面": "<p><strong>注意：</strong>后面</p>",
    "a_b_c and 2 * 3 * 4": "<p>a_b_c and 2 * 3 * 4</p>",
    r"\*no\* `a\*b` ``x`y``": r"<p>*no* <code>a\*b</code> <code>x`y</code></p>",
    "one\ntwo": "<p>one<br></br>two</p>",
    "# A\n## B ##\ntext": "<h3>A</h3><h4>B</h4><p>text</p>",
    "Title\n===": "<h3>Title</h3>",
    "- a\n- b\n  - c\n- d": "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>",
    "1. a\n  - b\n2. c": "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>",
    "3. a\n\n4. b": "<ol 3><li><p>a</p></li><li><p>b</p></li></ol>",
    "1. a\n   ```\n   x\n   ```\n2. b":
        "<ol><li>a<div><div>text</div><pre><code>x</code></pre></div></li><li>b</li></ol>",
    "- [x] a\n- [ ] b": "<ul><li>☑ a</li><li>☐ b</li></ul>",
    "> a\n> > b": "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>",
    "---": "<hr></hr>",
    "```py\nif x:\n    y()\n```\nz":
        "<div><div>py</div><pre><code>if x:\n    y()</code></pre></div><p>z</p>",
    "~~~\n```\n~~~": "<div><div>text</div><pre><code>```</code></pre></div>",
    "```sh\nopen": "<div><div>sh</div><pre><code>open</code></pre></div>",
    "|a|b|\n|-|:-:|\n|`x|y`|\\||": "<div><table><thead><tr><th>a</th><th>b</th></tr></thead>"
        "<tbody><tr><td><code>x|y</code></td><td>|</td></tr></tbody></table></div>",
    "[t](https://a.example/b_(c) \"x\") <https://b.example>":
        "<p><a https://a.example/b_(c)>t</a> <a https://b.example/>https://b.example</a></p>",
    "see https://a.example/x_y. (https://b.example/)":
        "<p>see <a https://a.example/x_y>https://a.example/x_y</a>. "
        "(<a https://b.example/>https://b.example/</a>)</p>",
    "![alt](https://a.example/x.png)": "<p><a https://a.example/x.png>🖼 alt</a></p>",
    "[t](javascript:alert(1))": "<p>[t](javascript:alert(1))</p>",
    "$a_1 * b$ costs $5 and $6": "<p><math><msub><mi>a</mi><mn>1</mn></msub><mo>∗</mo><mi>b</mi>"
        "</math> costs $5 and $6</p>",
    r"\(x^*\) \[\foo y\]": r"<p><math><msup><mi>x</mi><mo>∗</mo></msup></math>"
        r" <code>\foo y</code></p>",
    "$$\n\\sum_{i=1}^n \\frac{1}{\\sqrt[3]2}\n$$": "<p><math><munderover><mo>∑</mo><mrow><mi>i</mi>"
        "<mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mfrac><mn>1</mn><mroot><mn>2</mn>"
        "<mn>3</mn></mroot></mfrac></math></p>",
    r"$f'^2 \in \mathbb{R}$": "<p><math><msup><mi>f</mi><mrow><mo>′</mo><mn>2</mn></mrow></msup>"
        "<mo>∈</mo><mi>ℝ</mi></math></p>",
    r"$\begin{cases}a & \text{if }b\\0\end{cases}$": "<p><math><mrow><mo>{</mo><mtable><mtr><mtd>"
        "<mi>a</mi></mtd><mtd><mtext>if\u00a0</mtext><mi>b</mi></mtd></mtr><mtr><mtd><mn>0</mn></mtd>"
        "</mtr></mtable></mrow></math></p>",
    r"$\left(\hat x\right.$ $\boxed{-1}$": "<p><math><mrow><mo>(</mo><mover><mi>x</mi><mo>^</mo>"
        "</mover></mrow></math> <math><mrow><mrow><mo>−</mo><mn>1</mn></mrow></mrow></math></p>",
    "$x_1_2$ $\\frac1$ ${a$": "<p><code>x_1_2</code> <code>\\frac1</code> <code>{a</code></p>",
    "a<br>b H<sub>2</sub>O <i>x": "<p>a<br></br>b H<sub>2</sub>O &lt;i>x</p>".replace("&lt;", "<"),
    "&lt;b&gt; &#65; &amp;": "<p><b> A &</p>",
    "<script>alert(1)</script>": "<p><script>alert(1)</script></p>",
    "    code\n\n    more": "<div><div>text</div><pre><code>code\n\nmore</code></pre></div>",
}  # fmt: skip


def test_markdown_as_models_write_it(chromium: Any, stub: Stub) -> None:
    with opened(chromium, stub) as (page, _):
        outlines = page.evaluate(OUTLINE, list(MARKDOWN))
        assert dict(zip(MARKDOWN, outlines, strict=True)) == MARKDOWN
        assert page.evaluate("document.querySelectorAll('script').length") == 1


STREAMED = """(texts) => {
    const whole = (text) => {
        const root = document.createElement("div");
        new Markdown(root).update(text);
        return root;
    };
    const differ = [];
    for (const text of texts) {
        const root = document.createElement("div"), grown = new Markdown(root);
        for (let end = 1; end <= text.length; end += 1) {
            grown.update(text.slice(0, end));
            if (end % 5 && end < text.length) continue;
            root.normalize();
            const other = whole(text.slice(0, end));
            other.normalize();
            const is_over = end === text.length;
            if (is_over ? root.innerHTML !== other.innerHTML
            : root.textContent !== other.textContent)
                return [text.slice(0, end), root.innerHTML, other.innerHTML];
            grown.clear();
            for (let at = Math.max(0, end - 9); at <= end; at += 1) grown.update(text.slice(0, at));
        }
    }
    return [];
}"""
CODE = '```js\n/* a\n b */ let x = `1\n${2}`; // c\nconst y = "z";\n\nf(3)\n```\n\nend'


def test_a_text_that_grows_looks_like_the_whole(chromium: Any, stub: Stub) -> None:
    texts = [*MARKDOWN, CODE, "\n\n".join(MARKDOWN), "1. a\n\n2. b\n\n10. c\n\ntext\n\n- d\n\n* e"]
    with opened(chromium, stub) as (page, _):
        assert page.evaluate(STREAMED, texts) == []


SHARES = """(texts) => texts.map((text) => {
    const time = (act) => {
        const began = performance.now();
        act();
        return performance.now() - began;
    };
    const grown = new Markdown(document.createElement("div"));
    const whole = time(() => grown.update(text.slice(0, -200)));
    return time(() => {
        for (let end = text.length - 200; end <= text.length; end += 1)
            grown.update(text.slice(0, end));
    }) / 200 / whole;
})"""


def test_a_step_of_a_long_answer_costs_a_small_part_of_the_whole(chromium: Any, stub: Stub) -> None:
    texts = [
        "- **an** item `a`\n" * 1200, "1. a\n\n   **b** `c`\n\n" * 1000,
        "1. a\n   ```py\n   x = [1]\n   ```\n" * 600, "|a|b|\n|-|-|\n" + "|**a**|`b`|\n" * 1500,
        "> - **a**\n" * 2000, "**a** `b`\n" * 2000, "```py\n" + "x = [1]  # a\n" * 1500,
        "**a** `b`\n\n- c\n\n" * 1200,
    ]  # fmt: skip
    with opened(chromium, stub) as (page, _):
        shares = page.evaluate(SHARES, texts)
        assert max(shares) < 0.2, shares


SCHEMES = (
    "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\tscript:alert(1)",
    "&#106;avascript:alert(1)",
    "data:text/html,<script>alert(1)</script>", "vbscript:x", "file:///etc/passwd", "blob:x",
    "//evil.example/x", "\x01javascript:alert(1)", "ftp://evil.example", "https://u:p@evil.example",
    "javascript://evil.example/%0aalert(1)", "about:blank", "view-source:x", "filesystem:x",
)  # fmt: skip
FRAMES = (
    "[a]({})", "![a]({})", "<{}>", "[a](<{}>)", '[a]({} "t")', "[![a]({})]({})",
    "<a href='{}'>x</a>",
    "<img src='{}'>", "<iframe src='{}'></iframe>", "[a]: {}\n[a]",
)  # fmt: skip
TAGS = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>",
    "<sub onclick=alert(1)>x</sub>", "<b style='background:url(//evil.example)'>x</b>",
    "<details open ontoggle=alert(1)>", "<style>@import 'https://evil.example'</style>",
    "<link rel=stylesheet href=https://evil.example>", "<base href=https://evil.example>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<form action=//evil.example>",
    "<object data=//evil.example>", "<embed src=//evil.example>", "<video src=//evil.example>",
    "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
    "<template><script>alert(1)</script>",
    "<input autofocus onfocus=alert(1)>", "</div></article><script>alert(1)</script>",
    "<b><script>alert(1)</script></b>", "<mark><img src=//evil.example></mark>",
)  # fmt: skip
HOSTILE = [
    *(frame.format(scheme, scheme) for scheme in SCHEMES for frame in FRAMES),
    *TAGS,
    *(f"```{tag}\n{tag}\n```" for tag in TAGS),
    *(f"|{tag}|\n|-|\n|{tag}|" for tag in TAGS),
    "*" * 20_000, "[" * 20_000, "`" * 20_001, "> " * 5000, "- " * 5000, "<b>" * 9000, "$" * 9999,
    "a" + " " * 50_000 + "b", "#" * 9000 + " " * 50_000 + "x", "|" * 5000 + "\n" + "|-" * 5000,
    "![" * 9000 + "](" * 9000, "_a" * 9000, "https://" + "(" * 20_000, "\\" * 20_001, "&#x" * 9000,
    "$$" + "{" * 9000 + "}" * 9000 + "$$", "$$x" + "'" * 9000 + "^a" * 9000 + "$$",
    "$$" + "\\frac" * 9000 + "$$", "$\\text{<img src=//evil.example>}$", "$<script>a</script>$",
    "`a``b" * 5000, "**a" * 5000 + "b**" * 5000, "\\(" * 20_000, "1. " * 5000, "~" * 9000,
]  # fmt: skip
RENDER = """(texts) => {
    const slow = [], tags = new Set(), links = new Set(), names = new Set();
    for (const text of texts) {
        const root = document.createElement("div");
        document.body.append(root);
        const began = performance.now();
        new Markdown(root).update(text);
        if (performance.now() - began > 1000) slow.push(text);
        for (const node of root.querySelectorAll("*")) {
            tags.add(node.localName);
            if (node.href) links.add(`${node.protocol} ${node.rel}`);
            for (const {name} of node.attributes) names.add(name);
        }
        root.remove();
    }
    return {slow, tags: [...tags], links: [...links], names: [...names]};
}"""


def test_hostile_texts_run_and_load_nothing(chromium: Any, stub: Stub) -> None:
    assert len(HOSTILE) >= 200
    with opened(chromium, stub) as (page, complaints):
        page.on("dialog", lambda _: pytest.fail("a script of a text ran"))
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        rendered = page.evaluate(RENDER, HOSTILE)
        thread = Thread(page)
        for text in rendered["slow"]:  # or others took the time
            before = thread.seconds()
            page.evaluate(RENDER, [text])
            assert thread.seconds() - before < 1, text[:20]
        assert not set(rendered["tags"]) & {
            "script", "img", "iframe", "style", "link", "base", "meta", "form", "object", "embed",
            "video", "template", "input", "details",
        }  # fmt: skip
        assert set(rendered["links"]) <= {"https: noopener noreferrer"}
        assert not [name for name in rendered["names"] if name.startswith("on") or name == "style"]
        assert not requests
        image = TAGS[1]
        calls = [{"index": 0, "id": image, "function": {"name": image, "arguments": image}}]
        stub.answers = [
            [{"reasoning_content": image, "content": image, "tool_calls": calls}, "stop"]
        ]
        stub.models = [image, "other"]
        page.reload()
        page.set_input_files("#file", {"name": image, "mimeType": "text/plain", "buffer": b"<b>"})
        ask(page, image)
        act(page, "assistant", "Tokens")
        page.wait_for_selector(".tokens")
        assert page.locator("img, script:not(body > script)").count() == 0
        expect(page).to_have_title(f"{image} · {image}")
        stub.answers = [(400, {"message": image})]
        ask(page, "again")
        assert image in page.inner_text("#failure")
        assert page.locator("img").count() == 0
        complaints.clear()


def test_a_message_can_be_copied_edited_repeated_continued_and_deleted(
    chromium: Any, stub: Stub
) -> None:
    with opened(chromium, stub, permissions=["clipboard-read", "clipboard-write"]) as (page, _):
        stub.answers = [text_answer("**One**"), text_answer("Two"), text_answer("Three")]
        ask(page, "First")
        assert bodies(page) == ["One"]
        act(page, "assistant", "Copy")
        assert page.evaluate("navigator.clipboard.readText()") == "**One**"
        act(page, "assistant", "Regenerate")
        expect(page.locator("article.assistant .body")).to_have_text("Two")
        idle(page)
        assert sent(stub) == [("user", "First")]
        assert page.inner_text("article.assistant .branches") == "2/2"
        act(page, "assistant", "Previous branch")
        assert bodies(page) == ["One"]
        act(page, "user", "Edit")
        page.keyboard.press("Control+A")
        page.keyboard.type("Second")
        page.keyboard.press("Enter")
        expect(page.locator("article.assistant .body")).to_have_text("Three")
        idle(page)
        assert (bodies(page, "user"), sent(stub)) == (["Second"], [("user", "Second")])
        act(page, "user", "Previous branch")
        assert (bodies(page, "user"), bodies(page)) == (["First"], ["One"])
        act(page, "assistant", "Edit")
        page.keyboard.type("!")
        page.get_by_role("button", name="Save").click()
        assert bodies(page)[0].count("!") == 1
        assert page.inner_text("article.assistant .branches") == "3/3"
        act(page, "user", "Delete")
        assert bodies(page, "user") == ["Second"]
        page.click("text=Undo")
        assert bodies(page, "user") == ["First"]
        assert len(stub.requests) == 3


def test_a_cut_answer_says_so_and_goes_on(chromium: Any, stub: Stub) -> None:
    with opened(chromium, stub) as (page, _):
        stub.answers = [text_answer("It is ", reason="length"), text_answer("long.")]
        ask(page, "How?")
        assert page.inner_text(".notice") == "Cut: the answer reached the limit.\nContinue"
        page.click(".notice button")
        expect(page.locator("article.assistant .body")).to_have_text("It is long.")
        idle(page)
        assert page.locator(".notice:visible").count() == 0
        assert stub.requests[-1]["continue_final_message"] is True
        assert sent(stub) == [("user", "How?"), ("assistant", "It is ")]


def test_reasoning_and_calls(chromium: Any, stub: Stub) -> None:
    start = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a":'}}
    more = {"index": 0, "function": {"arguments": "1}"}}
    with opened(chromium, stub) as (page, _):
        stub.answers = [
            [{"reasoning_content": "Let me *see*"}, {"tool_calls": [start]},
             {"tool_calls": [more]}, "tool_calls"],
            text_answer("It is 3."),
        ]  # fmt: skip
        page.click("#open-settings")
        page.fill("#tools", '[{"name": "add"}]')
        page.select_option("#thinking", "off")
        page.keyboard.press("Escape")
        ask(page, "1 and 2?")
        assert stub.requests[-1]["tools"] == [{"type": "function", "function": {"name": "add"}}]
        assert stub.requests[-1]["enable_thinking"] is False
        assert page.inner_text(".thought summary").startswith("Thought for 0.")
        assert not page.is_visible(".thought .text")
        page.click(".thought summary")
        assert page.inner_text(".thought em") == "see"
        assert page.inner_text("section.call h3") == "add"
        assert page.inner_text("section.call code") == '{\n  "a": 1\n}'
        page.fill("section.call textarea", "3")
        page.click("text=Send results")
        expect(page.locator("article.assistant .body").last).to_have_text("It is 3.")
        idle(page)
        user, call, result = stub.requests[-1]["messages"]
        assert call["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a":1}'}
        assert call["reasoning_content"] == "Let me *see*"
        assert result == {"role": "tool", "tool_call_id": "c1", "content": "3"}
        assert user["content"] == "1 and 2?"


def test_conversations_stay_and_are_found(chromium: Any, stub: Stub, tmp_path: Any) -> None:
    with opened(chromium, stub) as (page, _):
        stub.answers = [text_answer("A *crane* is a bird."), text_answer("Twelve.")]
        ask(page, "What is a crane?")
        ask(page, "How many?")
        page.fill("#text", "a draft")
        page.wait_for_timeout(350)
        page.reload()
        expect(page.locator("article.assistant em")).to_have_text("crane")
        assert page.input_value("#text") == "a draft"
        assert page.title() == "What is a crane? · stub.gguf"
        assert "9 tokens · 7.0 tokens/s · prompt 20, 2 from the cache" in page.inner_text("#talk")
        page.click("#fresh")
        assert page.locator("article").count() == 0
        ask(page, "Something else")
        titles = page.locator("#list li:not(.day) > button:first-child")
        expect(titles).to_have_text(["Something else", "What is a crane?"])
        page.fill("#search", "TWELVE")
        expect(titles).to_have_text(["What is a crane?"])
        page.locator("#list").get_by_role("button", name="Rename").click()
        page.keyboard.type("Birds")
        page.keyboard.press("Enter")
        expect(titles).to_have_text(["Birds"])
        titles.first.click()
        expect(page.locator("article")).to_have_count(4)
        page.click(".menu summary")
        with page.expect_download() as download:
            page.click("#export-markdown")
        text = download.value.path().read_text("utf-8")
        assert text == (
            "# Birds\n\n## User\n\nWhat is a crane?\n\n## Assistant\n\nA *crane* is a bird.\n\n"
            "## User\n\nHow many?\n\n## Assistant\n\nTwelve.\n"
        )
        page.click(".menu summary")
        with page.expect_download() as download:
            page.click("#export-json")
        kept = tmp_path / download.value.suggested_filename
        assert kept.name == "Birds.json"
        download.value.save_as(kept)
        page.locator("#list").get_by_role("button", name="Delete").click()
        expect(titles).to_have_count(0)
        page.set_input_files("#imported", kept)
        expect(titles).to_have_text(["Birds"])
        titles.first.click()
        expect(page.locator("article")).to_have_count(4)
        broken = json.loads(kept.read_text("utf-8"))
        broken["conversations"][0]["nodes"][1]["role"] = "system"
        kept.write_text(json.dumps(broken), "utf-8")
        page.set_input_files("#imported", kept)
        said = "Birds.json: message 2 of conversation 1 has no text or no role."
        expect(page.locator("#failure p")).to_have_text(said)


def test_settings_stay_and_are_sent(chromium: Any, stub: Stub) -> None:
    stub.models, stub.key = ["a.gguf", "b.gguf"], "a long key"
    with opened(chromium, stub) as (page, complaints):
        assert "Enter the one that the server was started with" in page.inner_text("#failure")
        page.click("text=Open settings")
        assert page.evaluate("document.activeElement.id") == "key"
        page.fill("#key", "a long key")
        page.fill("#system", "Be brief.")
        expect(page.locator("#failure p")).to_have_count(0)
        expect(page.locator("#temperature")).to_have_attribute("placeholder", "0.8")
        page.fill("#temperature", "0.3")
        page.fill("#schema", '{"type": "object"}')
        page.fill("#more", '{"mirostat": 2}')
        page.select_option("#enter", "ctrl")
        page.click("#close-settings")
        page.select_option("#model", "b.gguf")
        page.reload()
        page.fill("#text", "Hi")
        page.keyboard.press("Enter")
        assert page.input_value("#text") == "Hi\n"
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("article.assistant")
        idle(page)
        body = stub.requests[-1]
        assert (body["model"], body["temperature"], body["mirostat"]) == ("b.gguf", 0.3, 2)
        assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
        assert body["messages"][0] == {"role": "system", "content": "Be brief."}
        page.click("#open-settings")
        page.fill("#schema", "{")
        page.click("#close-settings")
        page.fill("#text", "More")
        page.keyboard.press("Control+Enter")
        assert "JSON schema: not valid JSON" in page.inner_text("#failure")
        assert page.input_value("#text") == "More"
        assert all("401" in complaint for complaint in complaints)
        complaints.clear()


def test_text_files_by_button_drop_and_paste(chromium: Any, stub: Stub) -> None:
    give = """([id, kind]) => {
        const data = new DataTransfer();
        data.items.add(new File([`${kind} text`], `${kind}.txt`, {type: "text/plain"}));
        const event = kind === "drop" ? new DragEvent("drop", {dataTransfer: data, bubbles: true})
            : new ClipboardEvent("paste", {clipboardData: data, bubbles: true});
        document.getElementById(id).dispatchEvent(event);
    }"""
    with opened(chromium, stub) as (page, _):
        page.set_input_files("#file", {"name": "a.md", "mimeType": "", "buffer": b"```x```\n"})
        page.evaluate(give, ["talk", "drop"])
        page.evaluate(give, ["text", "paste"])
        expect(page.locator("#attached li")).to_have_text(["a.md", "drop.txt", "paste.txt"])
        page.get_by_role("button", name="Remove drop.txt").click()
        for name, data in (
            ("b.bin", b"a\0b"), ("c.txt", b"\xff\xfe"), ("d.png", b"x"), ("e.pdf", b"%PDF-1.7")
        ):  # fmt: skip
            kind = {"d.png": "image/png", "e.pdf": "application/pdf"}.get(name, "")
            page.set_input_files("#file", {"name": name, "mimeType": kind, "buffer": data})
            expect(page.locator("#failure p")).to_contain_text(f"{name}: ")
        ask(page, "Explain")
        text = "a.md:\n````\n```x```\n````\n\npaste.txt:\n```\npaste text\n```\n\nExplain"
        assert sent(stub) == [("user", text)]
        assert page.locator("article.user details.file summary").all_inner_texts() == [
            "a.md", "paste.txt",
        ]  # fmt: skip
        assert bodies(page, "user") == ["Explain"]


def test_pictures_are_shown_sent_and_kept(chromium: Any, stub: Stub) -> None:
    paste = """async ([side, kind]) => {
        const canvas = Object.assign(document.createElement("canvas"), {width: side, height: 9});
        const blob = await new Promise((done) => canvas.toBlob(done, kind));
        const data = new DataTransfer();
        data.items.add(new File([blob], "pasted", {type: kind}));
        const event = new ClipboardEvent("paste", {clipboardData: data, bubbles: true});
        document.getElementById("text").dispatchEvent(event);
        document.getElementById("form").requestSubmit();  // before it is decoded
    }"""
    slope = {"name": "slope.png", "mimeType": "image/png", "buffer": SLOPE}
    stub.inputs = ["text", "image"]

    def parts() -> list[str]:
        content = stub.requests[-1]["messages"][-1]["content"]
        urls = [part["image_url"]["url"] for part in content[:-1]]
        return [*(url.partition(",")[0] for url in urls), content[-1]["text"]]

    with opened(chromium, stub) as (page, _):
        expect(page.locator("#slots")).to_have_text("4,096 tokens of context, sees pictures")
        page.set_input_files("#file", [slope, slope])
        expect(page.locator("#attached img")).to_have_count(2)
        page.get_by_role("button", name="Remove slope.png").first.click()
        page.fill("#text", "What?")
        page.evaluate(paste, [3000, "image/webp"])
        expect(page.locator("article.assistant")).to_have_count(1)
        idle(page)
        jpeg = "data:image/jpeg;base64"
        assert parts() == [jpeg, jpeg, "What?"]
        page.evaluate(paste, [9, "image/png"])
        expect(page.locator("article.assistant")).to_have_count(2)
        idle(page)
        assert parts() == [jpeg, ""]
        assert page.locator("article.user .body").last.is_hidden()
        page.reload()
        expect(page.locator("img.picture")).to_have_count(3)
        assert page.evaluate("[...document.images].map((image) => image.naturalWidth)") == [
            80, 1536, 9,
        ]  # fmt: skip
        page.locator("article.user").first.get_by_role("button", name="Edit").click()
        page.keyboard.type("Who?")
        page.keyboard.press("Enter")
        expect(page.locator("article")).to_have_count(2)
        idle(page)
        assert parts()[:2] == [jpeg, jpeg]
        page.set_input_files("#file", slope)
        expect(page.locator("#attached img")).to_have_count(1)
        page.evaluate("server.sees = false")  # another model was chosen
        count = len(stub.requests)
        page.keyboard.press("Enter")
        expect(page.locator("#failure p")).to_have_text(
            "slope.png: this model does not see pictures; it takes text files."
        )
        for name, kind in (("a.heic", "image/heic"), ("a.wav", "audio/wav")):
            page.set_input_files("#file", {"name": name, "mimeType": kind, "buffer": b"x"})
            expect(page.locator("#failure p")).to_contain_text(f"{name}: ")
        assert len(stub.requests) == count


def test_a_full_context_leaves_out_the_oldest_and_says_so(chromium: Any, stub: Stub) -> None:
    full = (400, {"message": "too long", "n_prompt_tokens": 300, "n_ctx": 256})
    with opened(chromium, stub) as (page, complaints):
        for text in ("one " * 30, "two " * 30, "three " * 30):
            ask(page, text.strip())
        stub.answers = [full, text_answer("Done.")]
        ask(page, "four")
        # At most 192 of 300 tokens stay, three quarters of the context: by their letters 214
        # without the first exchange, and 129 without the second.
        assert [text[:4] for _, text in sent(stub)] == ["thre", "Fine", "four"]
        assert page.inner_text(".dropped") == (
            "Messages above are no longer sent: the context of 4,096 tokens is full."
        )
        stub.answers = [full] * 5
        ask(page, "five")
        assert "This message alone has 300 tokens, and the context holds 256" in page.inner_text(
            "#failure"
        )
        assert page.input_value("#text") == "five"
        page.get_by_role("button", name="Close").click()
        stub.context, stub.prompt_tokens = 256, 240
        stub.answers = [text_answer("Nearly full.")]
        page.reload()
        ask(page, "six")
        ask(page, "seven")
        assert sent(stub) == [("user", "seven")]  # without a request in vain
        assert all("400" in complaint for complaint in complaints)
        complaints.clear()


def test_errors_and_a_lost_server_keep_the_text(chromium: Any, stub: Stub) -> None:
    with opened(chromium, stub) as (page, complaints):
        stub.answers = [(429, {"message": "all slots are taken"})]
        ask(page, "Hi")
        assert page.inner_text("#failure p") == (
            "The server is busy: all slots are taken. Try again in a moment."
        )
        assert (page.input_value("#text"), page.locator("article").count()) == ("Hi", 0)
        stub.answers = [[{"content": "Half"}, None]]
        page.keyboard.press("Enter")
        expect(page.locator(".notice")).to_contain_text("before it was complete")
        assert bodies(page) == ["Half"]
        stub.answers = [[{"content": "x"}, {"error": {"message": "llama.cpp failed"}}]]
        page.click(".notice button")
        expect(page.locator(".notice")).to_contain_text("llama.cpp failed")
        page.context.set_offline(True)
        ask(page, "Are you there?")
        assert page.is_visible("#offline")
        assert "cannot be reached" in page.inner_text("#failure")
        assert page.input_value("#text") == "Are you there?"
        page.context.set_offline(False)
        expect(page.locator("#offline")).to_be_hidden()
        complaints.clear()


def test_an_answer_stops_and_what_came_stays(chromium: Any, stub: Stub) -> None:
    gate = threading.Event()
    with opened(chromium, stub) as (page, _):
        stub.answers = [[{"content": "One "}, gate, {"content": "two"}, "stop"]]
        page.fill("#text", "Count")
        page.keyboard.press("Enter")
        expect(page.locator("article.assistant .body")).to_have_text("One")
        assert page.get_attribute("#talk", "aria-busy") == "true"
        page.keyboard.type("Next")
        page.keyboard.press("Enter")  # it waits
        assert "Wait for the answer" in page.inner_text("#toast")
        page.keyboard.press("Escape")
        idle(page)
        gate.set()
        assert page.inner_text(".notice") == "Stopped.\nContinue"
        assert page.inner_text("#status").startswith("Answer: One")
        assert page.input_value("#text") == "Next"
        page.fill("#text", "")
        page.keyboard.press("ArrowUp")
        assert page.input_value("form.edit textarea") == "Count"


def test_tokens_and_what_could_be_in_their_place(chromium: Any, stub: Stub) -> None:
    rows = [{"token": "green", "logprob": -0.5}, {"token": "blue", "logprob": -1.2}]
    chances = {"choices": [{"logprobs": {"content": [{"top_logprobs": rows}]}}]}
    with opened(chromium, stub) as (page, _):
        stub.answers = [text_answer("It is green today"), chances, text_answer(" tomorrow")]
        ask(page, "Color?")
        act(page, "assistant", "Tokens")
        page.locator(".tokens button", has_text="green").click()
        expect(page.locator("#alternatives li")).to_have_text(["green61 %", "blue30 %"])
        assert stub.requests[-1]["max_tokens"] == 1
        assert sent(stub)[-1] == ("assistant", "It is ")
        page.locator("#alternatives li button").last.click()
        expect(page.locator("article.assistant .body")).to_have_text("It is blue tomorrow")
        idle(page)
        assert page.inner_text("article.assistant .branches") == "2/2"


LONG = """(text) => {
    const long = new Conversation({title: "Long"});
    for (let id = 1; id <= 2000; id += 1) {
        const role = id % 2 ? "user" : "assistant";
        long.nodes.push({id, parent: id > 1 ? id - 1 : null, chosen: null,
        text: `${id} ${text}`, role});
    }
    long.index();
    const began = performance.now();
    show_conversation(long);
    globalThis.shown = performance.now() - began;
}"""


def test_it_is_light_and_two_thousand_messages_stay_fluid(chromium: Any, stub: Stub) -> None:
    from mtkit.serve.page import page_and_policy

    assert len(page_and_policy()[0].encode()) <= MOST_BYTES
    with opened(chromium, stub) as (page, _):
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        paints = []
        for _ in range(3):  # other programs take their time, too
            page.reload()
            page.wait_for_selector("#text")
            paints.append(page.evaluate(paint))
        assert min(paints) < MOST_PAINT_MS
        page.evaluate(LONG, "**b**\n\n- a\n- b\n\n```py\nx = 1\n```")
        assert page.evaluate("shown") < 1000
        page.wait_for_selector('[data-id="1"]', state="attached")
        assert page.evaluate("document.querySelectorAll('article').length") == 2000
        times = page.evaluate("""async () => {
            const frame = () => new Promise(requestAnimationFrame), times = [];
            const field = document.getElementById("text");
            for (let at = 0; at < 20; at += 1) {
                const began = performance.now();
                field.value += "a";
                field.dispatchEvent(new InputEvent("input"));
                field.getBoundingClientRect();
                times.push(performance.now() - began);
                await frame();
            }
            return times.sort((a, b) => a - b);
        }""")
        assert times[len(times) // 2] < MOST_TYPING_MS
        ask(page, "More")
        assert page.inner_text("article:last-child .body") == "Fine."


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (768, "light"), (1280, "light")])
def test_it_fits_and_reads_in_both_directions(
    chromium: Any, stub: Stub, width: int, scheme: str
) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with opened(chromium, stub, **options) as (page, _):
        wide = "|" + "column |" * 20 + "\n|" + "-|" * 20 + "\n|" + "value |" * 20
        stub.answers = [text_answer(f"مرحبا **بك**\n\n{wide}\n\n```\n{'x' * 400}\n```")]
        ask(page, "שלום " + "x" * 300)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.querySelector('main').scrollWidth") <= width
        for selector in ("article.user .body", "article.assistant p"):
            direction = f"getComputedStyle(document.querySelector('{selector}')).direction"
            assert page.evaluate(direction) == "rtl"
        page.click("#open-settings")
        assert page.locator("dialog[open]").bounding_box()["width"] <= width
        page.keyboard.press("Escape")
        nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "combobox", "searchbox", "textbox", "link", "img", "spinbutton"}
        seen = [node for node in nodes if not node.get("ignored")
                and node.get("role", {}).get("value") in roles]  # fmt: skip
        assert len(seen) > 10
        assert not [node["role"] for node in seen if not node.get("name", {}).get("value")]


SEEN = "**b** [a](https://b.example)\n\n## c\n\n|a|\n|-|\n|1|\n\n```py\nif x: pass  # 1\n```\n\n$x$"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_axe_finds_nothing_serious(chromium: Any, stub: Stub, width: int, scheme: str) -> None:
    size = {"width": width, "height": 800}
    options = {"viewport": size, "color_scheme": scheme, "reduced_motion": "reduce"}
    rows = [{"token": "b", "logprob": -0.5}, {"token": "c", "logprob": -1.2}]
    chances = {"choices": [{"logprobs": {"content": [{"top_logprobs": rows}]}}]}
    call = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": "{}"}}
    with opened(chromium, stub, **options) as (page, complaints):
        assert barriers(page) == []
        thoughts = {"reasoning_content": "So *be* it."}
        stub.answers = [
            [thoughts, {"content": SEEN}, "length"], [{"tool_calls": [call]}, "tool_calls"], chances
        ]  # fmt: skip
        page.set_input_files("#file", {"name": "a", "mimeType": "text/plain", "buffer": b"b"})
        ask(page, "One")
        ask(page, "Two")
        page.click(".thought summary")
        page.locator("article.user").last.get_by_role("button", name="Edit").click()
        assert barriers(page) == []
        page.keyboard.press("Escape")
        page.locator("article.assistant").first.get_by_role("button", name="Tokens").click()
        page.locator(".tokens button").first.click()
        page.wait_for_selector("#alternatives li")
        assert barriers(page) == []
        page.keyboard.press("Escape")
        page.click("#open-settings")
        assert barriers(page) == []
        page.keyboard.press("Escape")
        stub.answers = [(400, {"message": "no"})]
        ask(page, "Three")
        if width < 800:
            page.click("#open-side")
        page.locator("#list").get_by_role("button", name="Rename").click()
        assert barriers(page) == []
        complaints.clear()
