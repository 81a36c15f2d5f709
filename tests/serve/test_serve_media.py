"""Pictures in requests of all APIs: where they stand, what is counted, what others wait for."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from llm_models import tiny
from media_pairs import SLOPE, TILES, pair
from serving import Asked, serving
from serving_http import application, post, run

from mtkit.errors import UnsupportedError, UsageError
from mtkit.llm.media import PLACE, Media
from mtkit.serve.media import RequestMedia, read_below
from mtkit.sources import http_ranges
from mtkit.sources.http_ranges import fetch_public, is_public


def base(data: bytes) -> str:
    return base64.b64encode(data).decode()


def picture(data: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base(data)}"}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.fixture(scope="module")
def app() -> Iterator[Any]:
    with application(pair("qwen2vl") / "model.gguf", n_ctx=2048, slots=2) as (app, _):
        yield app


def chat(app: Any, *messages: Any, **more: Any) -> Any:
    body = {"messages": list(messages), "max_tokens": 6, "temperature": 0, **more}
    return post(app, "/v1/chat/completions", body)


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def test_every_api_shows_the_same_picture(app: Any) -> None:
    want = chat(app, user(picture(SLOPE), text("What?"))).json()
    content = want["choices"][0]["message"]["content"]
    source = {"type": "base64", "media_type": "image/png", "data": base(SLOPE)}
    block = [{"type": "image", "source": source}, text("What?")]
    greedy = {"temperature": 0, "max_tokens": 6}
    claude = post(app, "/v1/messages", {"messages": [user(*block)], **greedy}).json()
    assert claude["content"][0]["text"] == content
    url = picture(SLOPE)["image_url"]["url"]
    items = [
        user({"type": "input_image", "image_url": url}, {"type": "input_text", "text": "What?"})
    ]
    body = {"input": items, "temperature": 0, "max_output_tokens": 6}
    assert post(app, "/v1/responses", body).json()["output"][-1]["content"][0]["text"] == content
    own = {"role": "user", "content": "What?", "images": [base(SLOPE)]}
    options = {"stream": False, "options": {"temperature": 0, "num_predict": 6}}
    answer = post(app, "/api/chat", {"messages": [own], **options}).json()
    assert answer["message"]["content"] == content
    answer = post(app, "/api/generate", {"prompt": "What?", "images": [base(SLOPE)], **options})
    assert answer.json()["response"] == content
    assert "context" not in answer.json()  # Ollama's clients read 64 bits
    rendered = post(app, "/apply-template", {"messages": [user(picture(SLOPE), text("What?"))]})
    prompt = rendered.json()["prompt"]
    assert prompt.count(PLACE) == 1
    data = {"prompt_string": prompt, "multimodal_data": [base(SLOPE)]}
    body = {"prompt": data, "n_predict": 6, "temperature": 0}
    assert post(app, "/completion", body).json()["content"] == content


def test_pictures_are_counted_and_come_from_the_cache(app: Any) -> None:
    message = user(text("a"), picture(TILES), text("b"), picture(SLOPE), text("c"))
    usage = chat(app, message, seed=1).json()["usage"]
    again = chat(app, message, seed=1).json()
    cached = again["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert usage["prompt_tokens"] == again["usage"]["prompt_tokens"] == cached + 1
    assert (
        usage["prompt_tokens"] > chat(app, user(text("abc"))).json()["usage"]["prompt_tokens"] + 10
    )
    counted = post(app, "/v1/chat/completions/input_tokens", {"messages": [message]})
    assert counted.json()["input_tokens"] == usage["prompt_tokens"]
    answer = again["choices"][0]["message"]
    more = chat(app, message, answer, user(text("Why?"))).json()["usage"]
    assert more["prompt_tokens_details"]["cached_tokens"] >= usage["prompt_tokens"] - 1
    other = chat(app, user(text("a"), picture(SLOPE), text("b"), picture(SLOPE), text("c")))
    assert (
        other.json()["usage"]["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"] / 2
    )
    everything = chat(app, message, seed=1, cache_prompt=False).json()["choices"][0]["message"]
    assert everything == answer


def test_the_server_says_what_it_takes(app: Any) -> None:
    props = run(app, ("GET", "/props", None))[0].json()
    assert props["modalities"] == {"vision": True, "audio": False, "video": False}
    assert props["media_marker"] == PLACE
    models = run(app, ("GET", "/v1/models", None))[0].json()
    assert models["data"][0]["architecture"]["input_modalities"] == ["text", "image"]
    assert models["models"][0]["name"] == models["data"][0]["id"]
    assert models["models"][0]["capabilities"] == ["completion", "multimodal"]
    assert "vision" in post(app, "/api/show", {"model": "model"}).json()["capabilities"]


def test_no_row_of_a_picture_is_shown_as_a_token(app: Any) -> None:
    prompt = {"prompt_string": f"a {PLACE}", "multimodal_data": base(SLOPE)}
    fields = {"max_tokens": 2, "echo": True, "logprobs": 1, "temperature": 0}
    for path, more in (
        ("/v1/completions", {**fields, "logprobs": None}),
        ("/v1/completions", {**fields, "echo": False}),
        ("/completion", {"n_predict": 2, "return_tokens": True, "verbose": True, "n_probs": 1}),
    ):  # fmt: skip
        answer = post(app, path, {"prompt": prompt, **more})
        assert answer.status_code == 200, answer.text
        assert not re.search(r"-\d{9}", answer.text), answer.text
    answer = post(app, "/v1/completions", {"prompt": prompt, **fields})
    assert answer.status_code == 400
    assert "logprobs: of a prompt with pictures or sounds is not supported" in answer.text


def test_a_gap_takes_no_pictures(app: Any) -> None:
    prompt = {"prompt_string": f"a {PLACE}", "multimodal_data": base(SLOPE)}
    for path, body in (
        ("/v1/completions", {"prompt": prompt}),
        ("/api/generate", {"prompt": "a", "images": [base(SLOPE)]}),
    ):
        answer = post(app, path, {**body, "suffix": "b"})
        assert answer.status_code == 400
        assert "suffix: does not go with pictures and sounds" in answer.text


def test_completion_takes_pictures_as_llama_server_does(app: Any) -> None:
    def status(text: str, data: Any) -> int:
        prompt = {"prompt_string": text, "multimodal_data": data}
        code: int = post(app, "/completion", {"prompt": prompt, "n_predict": 1}).status_code
        return code

    both = f"a {PLACE} b {PLACE}"
    assert status(f"a {PLACE}", base(SLOPE)) == status(both, [base(SLOPE), base(TILES)]) == 200
    for text, data in (
        (f"a {PLACE}", [base(SLOPE)] * 2), (both, [base(SLOPE)]), ("a", [base(SLOPE)]),
        ("a", [""]), (f"a {PLACE}", ["malformed"]), (f"a {PLACE}", [5]), (f"a {PLACE}", {}),
        (f"a {PLACE}", []),
    ):  # fmt: skip
        assert status(text, data) == 400, (text, data)
    assert status("a", []) == status("a", None) == 200


def test_vectors_are_of_text_alone(app: Any) -> None:
    prompt = {"prompt_string": f"a {PLACE}", "multimodal_data": [base(SLOPE)]}
    for content in (prompt, picture(SLOPE)):
        answer = post(app, "/embeddings", {"content": [content]})
        assert answer.status_code == 400
        assert "pictures and sounds are not supported here" in answer.text


@pytest.mark.parametrize(
    ("part", "what"),
    [
        ({"type": "input_audio", "input_audio": {"data": "UklGRg=="}}, "takes text and image"),
        (
            {"type": "image_url", "image_url": {"url": "http://127.0.0.1/a.png"}},
            "links are not followed",
        ),
        ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "files are not read"),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}, "is not base64"),
        ({"type": "image_url", "image_url": {}}, "has neither data nor a URL"),
        (picture(SLOPE[:50]), "is a damaged picture"),
        (picture(b"hello world"), "is neither a picture nor a sound"),
    ],
)
def test_a_picture_that_cannot_be_had_is_one_error(app: Any, part: Any, what: str) -> None:
    answer = chat(app, user(part))
    assert answer.status_code == 400
    assert what in answer.json()["error"]["message"]
    assert chat(app, user(text("Hello"))).status_code == 200


def test_a_model_without_a_projector_refuses_pictures() -> None:
    with application(tiny("llama"), n_ctx=256) as (app, _):
        answer = chat(app, user(picture(SLOPE)))
        assert answer.status_code == 400
        assert "image input is not supported; this model takes text" in answer.text


def test_a_slot_with_a_picture_is_not_saved_and_frees_its_cells() -> None:
    with serving(pair("qwen2vl") / "model.gguf", n_ctx=512, slots=2) as (runner, scheduler):
        media = Media(scheduler.projector)
        ids = media.tokenize(runner.model, f"a{media.add(TILES)}b", parse_special=True)
        first = Asked(ids, 4, chunks=media.chunks, slot=0)
        plain = Asked(runner.model.tokenize("Hello there"), 30, slot=1)
        scheduler.submit([plain.job, first.job])
        assert [plain.all().end, first.all().end] == ["length", "length"]
        slot = scheduler.slots[0]
        assert slot._lag == sum(chunk.lag for chunk in media.chunks.values()) > 0
        with pytest.raises(UnsupportedError, match="remembers a picture"):
            scheduler.run_on_slot(0, lambda slot: slot.save()).result()
        again = Asked(ids, 4, chunks=media.chunks, slot=0)
        scheduler.submit([again.job])
        again.all()
        assert again.ids == first.ids
        assert again.events[0].cached == len(ids) - 1
        scheduler.run_on_slot(0, lambda slot: slot.put_off()).result()
        last = Asked(ids, 4, chunks=media.chunks, slot=0)
        scheduler.submit([last.job])
        last.all()
        assert last.ids == first.ids


def test_others_are_answered_while_a_picture_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    with serving(pair("gemma3") / "model.gguf", n_ctx=512, slots=2) as (runner, scheduler):
        may_end, encode = threading.Event(), scheduler.projector.encode

        def slow(chunk: Any) -> None:
            assert may_end.wait(60)
            encode(chunk)

        monkeypatch.setattr(scheduler.projector, "encode", slow)
        media = Media(scheduler.projector)
        ids = media.tokenize(runner.model, f"a{media.add(SLOPE)}b", parse_special=True)
        seeing = Asked(ids, 2, chunks=media.chunks)
        plain = Asked(runner.model.tokenize("Hello there"), 20)
        scheduler.submit([seeing.job])
        seeing.next()
        scheduler.submit([plain.job])
        assert plain.all().generated == 20  # all of it, before the picture is there
        assert len(seeing.events) == 1
        may_end.set()
        assert seeing.all().generated == 2


_PRIVATE = [
    "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.31.9.9",
    "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "224.0.0.1", "239.1.2.3",
    "255.255.255.255",
]  # fmt: skip
_PUBLIC = ["8.8.8.8", "2600::1", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


def test_an_address_of_each_kind_is_public_or_not() -> None:
    inner = [*_PRIVATE, *(str(IPv4Address(0x7F000000 + bits)) for bits in (1, 0x10203, 0xFFFFFF))]
    for number in inner:
        high, low = divmod(int(IPv4Address(number)), 1 << 16)
        spellings = ("::ffff:{}", "::{}", "64:ff9b::{}", "64:ff9b:1::{}", "2002:{}::1", "fe80::{}")
        forms = [form.format(f"{high:x}:{low:x}") for form in spellings]
        teredo = f"2001::{high ^ 0xFFFF:x}:{low ^ 0xFFFF:x}"
        assert not [form for form in (number, *forms, teredo) if is_public(form)]
    others = ["::", "::1", "fe80::1%1", "fec0::1", "fd00::1", "ff02::1", "ff0e::1", "2001:db8::1"]
    others += [
        "2001:20::1",
        "2002:808:808::1",
        "3fff::1",
        "4000::1",
        "5f00::1",
        "64:ff9b:1::808:808",
    ]
    assert not [number for number in others if is_public(number)]
    assert all(map(is_public, _PUBLIC))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:1", "localhost", "localhost.", "127.0.0.1.", "[::1]", "0", "2130706433",
     "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.1", "169.254.169.254",
     "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "224.0.0.1", "user@127.0.0.1", "[fe80::1%251]",
     "8.8.8.8@127.0.0.1"],
)  # fmt: skip
def test_links_lead_to_no_private_address(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_ranges, "create_connection", None)  # a call would be a TypeError
    unknown = "|Name or service not known" * host.endswith(".")  # whether it is one is the system's
    with pytest.raises(UsageError, match=f"is not on the public network{unknown}"):
        fetch_public(f"http://{host}/x", 100, 1.0)


def test_no_name_with_a_private_address_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def connect(place: Any, _: float) -> Any:
        asked.append(place[0])
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(http_ranges, "create_connection", connect)
    for own in ("10.0.0.1", "64:ff9b::a00:1", "ff02::1"):
        for numbers in ([own, *_PUBLIC], [*_PUBLIC, own], [own]):
            rows = [(0, 0, 0, "", (number, 80)) for number in numbers]
            monkeypatch.setattr(http_ranges, "getaddrinfo", lambda *_, rows=rows, **__: rows)
            with pytest.raises(UsageError, match="is not on the public network"):
                fetch_public("https://pictures.example/x", 100, 1.0)
    assert not asked
    rows = [(0, 0, 0, "", (number, 80)) for number in _PUBLIC]
    monkeypatch.setattr(http_ranges, "getaddrinfo", lambda *_, **__: rows)
    with pytest.raises(UsageError, match="cannot be fetched"):
        fetch_public("https://pictures.example/x", 100, 1.0)
    assert asked == _PUBLIC[:1]


def test_files_are_read_below_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other = tmp_path / "shown", tmp_path / "shown-not"
    for path in (folder / "sub", other):
        path.mkdir(parents=True)
        (path / "my a.png").write_bytes(SLOPE)
    (folder / "in.png").symlink_to("sub/my a.png")
    (folder / "out.png").symlink_to(other / "my a.png")
    (folder / "up").symlink_to(other)
    os.mkfifo(folder / "pipe")
    for name in ("sub/my a.png", "/sub/my a.png", "./sub/../in.png"):
        assert read_below(str(folder), name) == SLOPE
    for name in (
        "out.png", "up/my a.png", "../shown-not/my a.png", f"../{other.name}/my a.png", "", ".",
        "sub", "pipe", "none.png", "a\0b", str(other / "my a.png"), "/etc/passwd", "..",
        "x" * 5000,
    ):  # fmt: skip
        with pytest.raises(UsageError, match="names no file in the folder") as caught:
            read_below(str(folder), name)
        assert str(tmp_path) not in str(caught.value)
    monkeypatch.setattr("mtkit.llama.media.MOST_BYTES", 9)
    with pytest.raises(UsageError, match=r"has more than 9 bytes$"):
        read_below(str(folder), "in.png")
    monkeypatch.undo()
    part = {"type": "image_url", "image_url": {"url": "FILE://sub/my%20a.png"}}
    with serving(pair("gemma3") / "model.gguf", n_ctx=256, slots=1) as (runner, scheduler):
        with pytest.raises(UnsupportedError, match=r"files are not read.*--media-path DIR"):
            RequestMedia(Media(scheduler.projector)).mark(part, "x")
        media = RequestMedia(Media(scheduler.projector), folder=str(folder))
        mark = media.mark(part, "messages[0]")
        assert media.media is not None
        assert min(media.media.tokenize(runner.model, mark, parse_special=True)) < 0
        part["image_url"] = {"url": "file://%2e%2e/shown-not/my a.png"}
        mark = media.mark(part, "messages[0]")
        with pytest.raises(UsageError, match=r"messages\[0\]\.image_url: names no file"):
            media.media.tokenize(runner.model, mark, parse_special=True)


def test_a_link_is_followed_only_where_the_server_may() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    with serving(pair("gemma3") / "model.gguf", n_ctx=256, slots=1) as (runner, scheduler):
        with pytest.raises(UnsupportedError, match="links are not followed"):
            RequestMedia(Media(scheduler.projector)).mark(part, "x")
        media = Media(scheduler.projector)
        mark = RequestMedia(media, {"https://example.org/a.png": SLOPE}.__getitem__).mark(part, "x")
        assert media.tokenize(runner.model, mark, parse_special=True)
        assert len(media.chunks) == 1
