"""Pictures and sounds: the same ids and the same text as libmtmd's own helper, limits, errors."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import signal
import struct
import threading
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from media_pairs import HEARING, SEEING, SLOPE, TILES, pair, png, wav

from mtkit.api.generation import generate
from mtkit.api.model import Model
from mtkit.base.record import replace
from mtkit.errors import FormatError, MtkitError, ResourceError, UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.llama import Context
from mtkit.llama.media import _checked_sound, first_of, kind_of, row_of, whole_chunks
from mtkit.llama.picture import decode_picture, size_of
from mtkit.llama.shared_library import media_library
from mtkit.llm.dialogue import Dialogue, read_messages
from mtkit.llm.media import (
    PLACE,
    ProjectorHeader,
    decode_data,
    find_projector,
    flat_messages,
    part_of,
    runs,
)
from mtkit.llm.runner import Runner, open_header, open_model, plan_settings
from mtkit.llm.sampling import Sampler
from mtkit.llm.trial import try_projector
from mtkit.serve.model import CHATML
from mtkit.settings import AnswerSettings, ContextSettings, LoadSettings, SamplerSettings

_LOAD = LoadSettings(trial=False)
_CONTEXT = ContextSettings(n_ctx=2048, threads=1)  # whisper pads a sound to 750 tokens


def reference_ids(runner: Runner, text: str, files: list[bytes], count: int) -> list[int]:
    """Return what libmtmd's helper makes of a prompt, greedily."""
    lib, model = media_library(), runner.model
    projector = runner.open_media().projector
    raw, chunks = text.encode(), lib.mtmd_input_chunks_init()
    bitmaps = [
        lib.mtmd_helper_bitmap_init_from_buf(
            projector.handle, (ctypes.c_uint8 * len(data)).from_buffer_copy(data), len(data), False
        )
        for data in files
    ]
    prompt = lib.mtmd_input_text(raw, len(raw), True, True)
    array = (ctypes.c_void_p * len(bitmaps))(*bitmaps)
    assert not lib.mtmd_tokenize(
        projector.handle, chunks, ctypes.byref(prompt), array, len(bitmaps)
    )
    past = ctypes.c_int32()
    with Context(model, _CONTEXT) as context:
        assert not lib.mtmd_helper_eval_chunks(
            projector.handle, context.handle, chunks, 0, 0, 512, True, ctypes.byref(past)
        )
        context._is_computed, context.n_past, ids = True, past.value, []
        for _ in range(count):
            ids.append(int(context.logits().argmax()))
            context.step(ids[-1])
    return ids


def own_ids(runner: Runner, text: str, files: list[bytes], count: int) -> tuple[list[int], int]:
    """Return the same by mtkit, and how many tokens of the prompt were computed."""
    media, context = runner.open_media(), runner.context
    assert context is not None
    ids = media.tokenize(runner.model, media.place(text, files), parse_special=True)
    runner.feed([*runner.model.around[0], *ids], media=media)
    answer = []
    for _ in range(count):
        answer.append(int(context.logits().argmax()))
        context.step(answer[-1])
        runner.ids.append(answer[-1])
    return answer, runner.computed


@pytest.mark.parametrize("name", [*SEEING, HEARING])
def test_the_text_is_that_of_libmtmd(name: str) -> None:
    prompts = [
        (f"Hello {PLACE} world", [SLOPE]), (f"a{PLACE}{PLACE}b", [SLOPE, TILES]),
        (f"a{PLACE} c {PLACE} d", [SLOPE, SLOPE]), (f"Hello {PLACE} world", [SLOPE]),
    ]  # fmt: skip
    if name == HEARING:
        prompts = [(f"a {PLACE} c {PLACE} d", [wav(), wav(3000)])]
    settings = AnswerSettings(str(pair(name) / "model.gguf"), _CONTEXT, _LOAD)
    with open_model(settings, n_ctx=2048) as runner:
        runner.open_context()
        for text, files in prompts:
            want = reference_ids(runner, text, files, 8)
            assert own_ids(runner, text, files, 8)[0] == want, text
            assert own_ids(runner, text, files, 8) == (want, 1), text  # from the cache


def test_ids_say_where_a_chunk_begins() -> None:
    first = -(5 << 20)
    ids = [7, first, first - 1, first - 2, first, first - 1, first - 2, 8, 9]
    assert [row_of(token_id) for token_id in ids[1:4]] == [0, 1, 2]
    assert {first_of(token_id) for token_id in ids[1:7]} == {first}
    assert [whole_chunks(ids, end) for end in range(len(ids) + 1)] == [0, 1, 1, 1, 4, 4, 4, 7, 8, 9]
    assert list(runs(ids, 0, len(ids))) == [(0, 1), (1, 4), (4, 7), (7, 9)]
    assert list(runs(ids, 2, 5)) == [(2, 4), (4, 5)]


@pytest.fixture(scope="module")
def seeing() -> Any:
    with Model(pair("gemma3") / "model.gguf", trial=False, n_ctx=512) as model:
        yield model


def test_a_model_takes_pictures_by_path_and_in_messages(seeing: Model, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(SLOPE)
    text = seeing.generate(f"see {PLACE}!", images=[str(path)], n_predict=3)
    assert text.prompt_ids.count(-1) == 4
    chat = seeing.chat("What?", images=[str(path)], n_predict=3)
    parts = [
        {"type": "image_url", "image_url": {"url": str(path)}},
        {"type": "text", "text": "What?"},
    ]
    again = seeing.chat([{"role": "user", "content": parts}], n_predict=3)
    assert again.generation.ids == chat.generation.ids
    assert again.generation.timings.prompt_tokens == 1  # the rest was there
    with pytest.raises(UnsupportedError, match="does not hear"):
        seeing.chat("What?", audio=[str(path)])
    with pytest.raises(UsageError, match=r"2 places .* for 1"):
        seeing.generate(f"{PLACE}{PLACE}", images=[str(path)])


@pytest.mark.parametrize(
    ("data", "kind", "what"),
    [
        (SLOPE[:60], UsageError, "is a damaged picture"),
        (SLOPE[:40] + b"\xff" * 40, UsageError, "is a damaged picture"),
        (b"hello", UsageError, "is neither a picture nor a sound"),
        (b"", UsageError, "is empty"),
        (b"RIFF....WEBPVP8 ", UnsupportedError, "is WebP, which llama.cpp does not read"),
        (b"%PDF-1.7", UnsupportedError, "is a PDF"),
        (b"\0\0\0\x18ftypheix", UnsupportedError, "is HEIC"),
        (b"\0\0\0\x1cftypavif", UnsupportedError, "is AVIF"),
        (b"\0\0\0\x18ftypmp42", UnsupportedError, "is an MP4"),
        (b"II*\0", UnsupportedError, "is TIFF"),
        (b"OggS", UnsupportedError, "is Ogg"),
        (b"<svg xmlns", UnsupportedError, "is SVG"),
        (png(1, 201, lambda x, y: (0, 0, 0)), UsageError, "a side is over 200 times"),
        (b"GIF89a" + b"\xff" * 4 + b"\0\0\0", ResourceError, "has 65535 x 65535 pixels"),
        (b"GIF89a" + b"\x40\0" * 2 + b"\0\0\0", UsageError, "is a damaged picture$"),
    ],
)
def test_a_picture_that_cannot_be_read_is_one_error(data: bytes, kind: Any, what: str) -> None:
    with pytest.raises(kind, match=what):
        decode_picture(data)
    assert decode_picture(SLOPE)[:2] == (80, 48)


def test_a_decoder_that_dies_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from mtkit.llama import picture

    assert decode_picture(SLOPE)[:2] == (80, 48)
    child = picture._decoder._child
    assert child is not None
    child.kill()
    child.wait()
    assert decode_picture(TILES)[:2] == (45, 100)


def test_time_is_that_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    from mtkit.llama import picture

    assert decode_picture(SLOPE)[:2] == (80, 48)
    child = picture._decoder._child
    assert child is not None
    monkeypatch.setattr(picture, "_SECONDS", 0.2)
    child.send_signal(signal.SIGSTOP)  # a machine that has no time for it
    timer = threading.Timer(0.5, child.send_signal, [signal.SIGCONT])
    timer.start()
    assert decode_picture(TILES)[:2] == (45, 100)
    timer.join()
    assert picture._decoder._child is child
    monkeypatch.setattr(picture, "_SECONDS", 0.001)
    with pytest.raises(ResourceError, match=r"takes more than 0.001 s to decode"):
        decode_picture(plain(3000, 3000))
    assert decode_picture(SLOPE)[:2] == (80, 48)


def plain(width: int, height: int) -> bytes:
    """Return a black picture; ``png`` takes a second for a million pixels."""
    head = struct.pack(">I4sIIBBBBBI", 13, b"IHDR", width, height, 8, 0, 0, 0, 0, 0)
    data = zlib.compress(bytes((width + 1) * height), 1)
    rest = struct.pack(">I4s", len(data), b"IDAT") + data + bytes(4) + b"\0\0\0\0IEND"
    return b"\x89PNG\r\n\x1a\n" + head + rest + bytes(4)


def bmp(width: int, height: int) -> bytes:
    row = bytes((3 * width + 3) // 4 * 4)
    head = struct.pack("<IIIIiiHH6I", 54, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + head + row * height


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height)


def jpeg(width: int, height: int) -> bytes:
    comment = b"\xff\xc0\0\x11\x08\0\1\0\1"  # as if it were a frame
    frame = b"\xff\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width)
    return b"\xff\xd8\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + frame


@pytest.mark.parametrize("write", [plain, bmp, gif, jpeg])
def test_the_size_is_judged_by_the_header(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from mtkit.llama import picture

    for width, height in ((1, 1), (7, 300), (640, 48)):
        data = write(width, height)
        assert size_of(data) == (width, height)
        if write in (plain, bmp):
            assert decode_picture(data) == (width, height, bytearray(3 * width * height))
        assert all(size_of(data[:end]) in (None, (width, height)) for end in range(70))
    monkeypatch.setattr(picture._decoder, "ask", None)
    head = (lambda *sides: write(1, 1)[:18] + struct.pack("<ii", *sides)) if write is bmp else write
    for width, height, what in (
        (10_001, 5_000, "has 10001 x 5000 pixels, the limit is 50,000,000"), (1, 201, "200 times")
    ):  # fmt: skip
        with pytest.raises(MtkitError, match=what):
            decode_picture(head(width, height))


def test_an_mp3_may_look_like_a_tag_by_chance() -> None:
    frame, lie = b"\xff\xfb\x90\0" + bytes(413), b"Info\0\0\0\1\xff\xff\xff\xff"
    song = frame * 200
    text = b"ID3\4\0\0\0\0\0\x7f" + lie + bytes(127 - len(lie))
    assert _checked_sound(text + song) == text + song
    late = _checked_sound(song + lie + song)
    assert (len(late), late.count(b"Info")) == (len(song + lie + song), 0)
    for hostile in (frame + lie + song, song + lie * 9 + song):
        with pytest.raises(UsageError, match="damaged sound"):
            _checked_sound(hostile)
    flac = b"fLaC" + bytes(14) + b"\x0a\xc4\x42\xff\xff\xff\xff\xff" + bytes(20)
    for data in (flac, text + flac, text + text + flac):
        with pytest.raises(ResourceError, match="lasts"):
            _checked_sound(data)


def test_what_is_computed_frees_what_it_was_computed_from() -> None:
    settings = AnswerSettings(str(pair("qwen2vl") / "model.gguf"), _CONTEXT, _LOAD)
    with open_model(settings) as runner:
        media = runner.open_media()
        media.tokenize(runner.model, media.add(SLOPE, "a"), parse_special=True)
        assert media._sources == [(b"", "a")]
        (chunk,) = media.chunks.values()
        before, later = chunk.positions(0, 4), chunk.positions(7, 4)
        media.projector.encode(chunk)
        assert not chunk._finalizer.alive
        assert chunk.grid == (4, 3)
        assert (later[:3] - before[:3] == 7).all()
        assert (chunk.positions(7, 4) == later).all()


@pytest.mark.parametrize(
    ("data", "kind", "what"),
    [
        (wav()[:20], UsageError, "damaged"),
        (wav()[:34] + b"\0\0" + wav()[36:], UsageError, "damaged"),  # no bytes in a frame
        (wav(4000, 1), UsageError, "damaged"),  # one sample a second
        (
            b"fLaC" + bytes(14) + b"\x0a\xc4\x42\xff\xff\xff\xff\xff" + bytes(20),
            ResourceError,
            "lasts",
        ),
        (b"ID3" + bytes(40), UsageError, "damaged"),
        (
            b"\xff\xf3\x88\xc4" + bytes(9) + b"Xing\0\0\0\x0f[\0\0\0" + bytes(999),
            UsageError,
            "damaged",
        ),
        (wav()[:20] + b"\2\0" + wav()[22:], UsageError, "not plain PCM"),
    ],
)
def test_a_sound_that_cannot_be_read_is_one_error(data: bytes, kind: Any, what: str) -> None:
    assert kind_of(data) == "audio"
    settings = AnswerSettings(str(pair(HEARING) / "model.gguf"), _CONTEXT, _LOAD)
    with open_model(settings) as runner, pytest.raises(kind, match=what):
        runner.open_media().projector.parts(data)


def test_the_projector_is_found_beside_the_model(tmp_path: Path) -> None:
    model = tmp_path / "own.gguf"
    metadata = {"general.architecture": "gemma3", "gemma3.embedding_length": 64}
    assert find_projector(str(model), metadata) is None
    names = ("mmproj-own-f32.gguf", "own.mmproj-Q8_0.gguf", "mmproj-own-F16.gguf")
    for name in names:
        (tmp_path / name).symlink_to(pair("gemma3") / "mmproj.gguf")
    header = find_projector(str(model), metadata)
    assert header is not None
    assert Path(header.path).name == "mmproj-own-F16.gguf"
    assert header.kinds == {"image"}
    wide = {**metadata, "gemma3.embedding_length": 128}
    assert find_projector(str(model), wide) is None  # of another model
    assert find_projector(str(model), metadata, "none") is None
    with pytest.raises(UnsupportedError, match="makes rows of 64 numbers"):
        find_projector(str(model), wide, str(tmp_path / names[0]))
    other = {"general.architecture": "qwen2vl", "qwen2vl.embedding_length": 64}
    assert find_projector(str(model), other) is None  # of another model, as wide
    with pytest.raises(UnsupportedError, match=r"is for gemma3 models, and .* of qwen2vl"):
        find_projector(str(model), other, str(tmp_path / names[0]))
    for name in (*SEEING, HEARING):
        own = open_gguf(str(pair(name) / "model.gguf")).metadata
        assert find_projector(str(pair(name) / "model.gguf"), own) is not None
    with pytest.raises(MtkitError, match="is not a projector"):
        ProjectorHeader(str(pair("gemma3") / "model.gguf"))


def test_a_damaged_projector_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MTKIT_TRIAL", raising=False)
    data = bytearray((pair("gemma3") / "mmproj.gguf").read_bytes())
    at = data.index(b"clip.vision.attention.head_count") + 32 + 4
    data[at : at + 4] = b"\7\0\0\0"  # of 64 columns
    path = tmp_path / "mmproj.gguf"
    path.write_bytes(data)
    settings = AnswerSettings(str(pair("gemma3") / "model.gguf"), _CONTEXT, mmproj=str(path))
    header = open_header(settings)
    with pytest.raises(FormatError, match=r"mmproj\.gguf: .*GGML_ASSERT"):
        try_projector(header, settings.load, settings.context)
    assert not os.path.isdir(tmp_path / "cache" / "mtkit" / "tried")
    whole = open_header(replace(settings, mmproj=None))
    for _ in range(2):
        try_projector(whole, settings.load, settings.context)
    assert len(os.listdir(tmp_path / "cache" / "mtkit" / "tried")) == 1


def test_the_plan_has_the_projector() -> None:
    settings = AnswerSettings(str(pair("gemma3") / "model.gguf"), _CONTEXT)
    header = open_header(settings)
    assert header.projector is not None
    plan = header.plan(plan_settings(settings, 2048))
    assert plan.projector == header.projector.n_bytes > 250_000
    header.projector = None
    assert header.plan(plan_settings(settings, 2048)).host == plan.host - plan.projector


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("what is /tmp/a.png?", []),
        ("what is /tmp/a.png ?", ["/tmp/a.png"]),
        ("'/tmp/my cat.JPG' and \"b c.gif\"", ["/tmp/my cat.JPG", "b c.gif"]),
        (r"/tmp/my\ cat.jpeg this", ["/tmp/my cat.jpeg"]),
        ("song.mp3", ["song.mp3"]),
        ("a.webp b.HEIC", ["a.webp", "b.HEIC"]),
        ("file:///tmp/my%20a.png", ["/tmp/my a.png"]),
        ("no picture.pngs here, nor png", []),
    ],
)
def test_paths_in_a_message(text: str, paths: list[str]) -> None:
    from mtkit.commands.chat.screen import _PICTURE, _unquoted

    assert [_unquoted(match[0]) for match in _PICTURE.finditer(text)] == paths


def test_a_projector_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such file.*projector for pictures"):
        find_projector(str(tmp_path / "m.gguf"), {}, str(tmp_path / "x.gguf"))


def test_one_function_reads_data_urls() -> None:
    text = base64.encodebytes(SLOPE).decode()
    assert "\n" in text
    for value in (
        text, "data:image/png;base64," + text, "DATA:Image/x-own+a;charset=utf-8;BASE64," + text
    ):  # fmt: skip
        assert decode_data(value, "x") == SLOPE
        part = {"type": "image_url", "image_url": {"url": value}}
        if value is not text:
            (message,) = flat_messages(
                [{"role": "user", "content": [part]}], lambda data, _: str(len(data)),
                frozenset({"image"}),
            )  # fmt: skip
            assert message["content"] == str(len(SLOPE))
    for value, what in (
        ("data:text/html;base64,QQ==", "not a data: URL of a picture"),
        ("data:image/png,abc", "not a data: URL of a picture"),
        ("data:image/png;base64,a", "is not base64"), ("http://a/b.png", "not a data: URL"),
        ("é", "is not base64"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=what):
            decode_data(value, "x")
    part = {"type": "image_url", "image_url": {"url": "HTTPS://example.org/a.png"}}
    with pytest.raises(UnsupportedError, match="is a link, which is not followed"):
        flat_messages([{"role": "user", "content": [part]}], None, frozenset({"image"}))


def test_a_conversation_with_pictures_is_saved_whole() -> None:
    settings = AnswerSettings(str(pair("gemma3") / "model.gguf"), _CONTEXT, _LOAD)
    with open_model(settings, n_ctx=512) as runner:
        sampler = Sampler(runner.open_context(), SamplerSettings(temperature=0.0))
        with closing(Dialogue(runner, sampler, CHATML)) as dialogue:
            text = f"a{dialogue.attach(SLOPE)}b{dialogue.attach(TILES)}"
            dialogue.messages = [{"role": "user", "content": text}]
            tokens = [token.id for token in dialogue.answer(4)]
            saved = json.dumps(dialogue.plain_messages[:1])
            assert base64.b64encode(TILES).decode() in saved
            dialogue.replace(read_messages(saved))
            assert [token.id for token in dialogue.answer(4)] == tokens
            assert dialogue.plain_messages[:1] == json.loads(saved)
    assert part_of(wav())["input_audio"]["format"] == "wav"


def test_a_session_with_a_picture_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(SLOPE)
    with pytest.raises(UnsupportedError, match="sessions with pictures or sounds cannot be saved"):
        generate(
            "a", model=pair("gemma3") / "model.gguf", images=[str(path)],
            save_session=str(tmp_path / "s"),
        )  # fmt: skip
