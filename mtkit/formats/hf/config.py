"""The files beside a tokenizer.json: special tokens, ids that end a generation, chat templates.

tokenizer_config.json names the special tokens (a string or an object with ``content``),
special_tokens_map.json those that the former lacks, generation_config.json the ids that end a
generation. Chat templates are in tokenizer_config.json (one string, or a list of named ones), and
in chat_template.jinja and additional_chat_templates/NAME.jinja, which come first; only where there
is none, in chat_template.json.

``TokenizerSpec.extras`` has by file what the specification does not say, and it is written again
(``adapt_extras``), but for special tokens that have changed since: they would be read back as the
old ones.

Source: huggingface/transformers 5, tokenization_utils_base.py (``from_pretrained``,
``save_chat_templates``), generation/configuration_utils.py.
"""

from __future__ import annotations

from mtkit.errors import FormatError
from mtkit.formats.json_fields import Fields, check_plain, format_value, parse_json
from mtkit.formats.tokenizer_config import CONFIG, ROLES, SPECIAL
from mtkit.spec import ChatTemplate, SpecialIds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.base.binary import Source
    from mtkit.formats.contract import AddLoss
    from mtkit.spec import TokenizerSpec


GENERATION = "generation_config.json"
TEMPLATE = "chat_template.jinja"
PROCESSOR_TEMPLATE = "chat_template.json"
"""Of older processors; it counts where nothing else has a template."""
TEMPLATES_FOLDER = "additional_chat_templates"
CLEAN_UP = "clean_up_tokenization_spaces"


class SideFiles:
    """The parsed files beside a tokenizer.json.

    Attributes:
        documents: File name -> its object without chat templates; missing files are not in it.
    """

    def __init__(self, source: Source) -> None:
        self.documents: dict[str, dict[str, Any]] = {}
        for name in (CONFIG, SPECIAL, GENERATION):
            data = source.beside(name)
            if data is not None:
                value = parse_json(data, name)
                check_plain(value, name)
                self.documents[name] = dict(Fields(value, name).values)
        self.chat_templates = self._templates(source)

    def _templates(self, source: Source) -> tuple[ChatTemplate, ...]:
        """Take the chat templates out of the configuration and read the template files."""
        templates: dict[str, str] = {}
        value = self.documents.get(CONFIG, {}).pop("chat_template", None)
        where = f"{CONFIG}: chat_template"
        files = {"default": source.beside(TEMPLATE), **_named_templates(source)}
        data = source.beside(PROCESSOR_TEMPLATE)
        if data is not None and value is None and files["default"] is None:
            fields = Fields(parse_json(data, PROCESSOR_TEMPLATE), PROCESSOR_TEMPLATE)
            value, where = fields.values.get("chat_template"), PROCESSOR_TEMPLATE
        if type(value) is str:
            templates["default"] = value
        elif type(value) is list:
            for place, item in enumerate(value):
                entry = Fields(item, f"{where}[{place}]")
                templates[entry.string("name")] = entry.string("template")
        elif type(value) is dict:  # written by some versions: name -> template
            entry = Fields(value, where)
            for name in entry.values:
                templates[name] = entry.string(name)
        elif value is not None:
            raise FormatError(f"is {format_value(value)}, not a template", field=where)
        for name, data in files.items():
            if data is not None:
                try:
                    templates[name] = data.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise FormatError("is not UTF-8", field=TEMPLATE, offset=error.start) from None
        return tuple(ChatTemplate(name, text) for name, text in templates.items())

    def special_ids(self, id_of: Callable[[str], int | None], unk: int | None) -> SpecialIds:
        """Return the ids of the named special tokens; the model's own unknown token comes first."""
        ids: dict[str, int | None] = {}
        for role in ROLES:
            for name in (CONFIG, SPECIAL):
                content = content_of(self.documents.get(name, {}).get(f"{role}_token"))
                if content is not None and ids.get(role) is None:
                    ids[role] = id_of(content)
        if unk is not None:
            ids["unk"] = unk
        return SpecialIds(**ids, stop=stop_ids(self.documents.get(GENERATION, {})))


def _named_templates(source: Source) -> dict[str, bytes]:
    files = source.folder_beside(TEMPLATES_FOLDER, ".jinja")
    return {name.removesuffix(".jinja"): data for name, data in files.items()}


def stop_ids(generation: dict[str, Any]) -> tuple[int, ...]:
    """Return the ids that end a generation, ascending."""
    value = generation.get("eos_token_id")
    ids = value if type(value) is list else [value]
    if value is None:
        return ()
    if not all(type(number) is int and 0 <= number < (1 << 32) for number in ids):
        raise FormatError("is neither an id nor a list of ids", field=f"{GENERATION}: eos_token_id")
    return tuple(sorted(set(ids)))


def content_of(token: Any) -> str | None:
    """Return the text of a special token, spelled as a string or as an object."""
    if type(token) is dict:
        token = token.get("content")
    return token if type(token) is str else None


def config_forms(spec: TokenizerSpec) -> dict[str, dict[str, Any]]:
    """Return the files beside a tokenizer.json for a specification, by name."""
    config: dict[str, Any] = {}
    tokens = {token.id: token.content for token in spec.added_tokens.tokens}
    for role in ROLES:
        number = getattr(spec.special_ids, role)
        if role == "unk" and number not in tokens and number == getattr(spec.model, "unk", None):
            continue  # transformers finds each token that is named here in the text
        if number is not None and (number in tokens or number < len(spec.vocabulary)):
            piece = tokens.get(number) or spec.vocabulary.pieces[number]
            config[f"{role}_token"] = piece.decode("utf-8", "replace")
    config[CLEAN_UP] = spec.clean_up_spaces != "none"
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    templates = spec.chat_templates
    if [template.name for template in templates] == ["default"]:
        config["chat_template"] = templates[0].text
    elif templates:
        config["chat_template"] = [{"name": t.name, "template": t.text} for t in templates]
    generation: dict[str, Any] = {}
    stop = spec.special_ids.stop
    if stop:
        generation["eos_token_id"] = list(stop) if len(stop) > 1 else stop[0]
    return {CONFIG: config, GENERATION: generation}


OWN_FILES = ("tokenizer.json", CONFIG, SPECIAL, GENERATION)


def adapt_extras(
    spec: TokenizerSpec, special_ids: SpecialIds, add: AddLoss
) -> tuple[tuple[str, object], ...]:
    """Return the extras that the files can hold; the others are losses."""
    extras: list[tuple[str, object]] = []
    for name, extra in spec.extras:
        if name not in OWN_FILES:
            add("metadata", "extras", f"settings that only {name} files can hold are not kept")
            continue
        valid = _true_extras(name, extra, spec, special_ids) if isinstance(extra, dict) else extra
        if valid != extra:
            add("metadata", "extras", "changed special tokens are written again")
        if valid:
            extras.append((name, valid))
    return tuple(extras)


def _true_extras(
    name: str, extra: dict[str, Any], spec: TokenizerSpec, special_ids: SpecialIds
) -> dict[str, Any]:
    if name == GENERATION:
        same = "eos_token_id" not in extra or stop_ids(extra) == special_ids.stop
        return extra if same else {k: v for k, v in extra.items() if k != "eos_token_id"}
    if name not in (CONFIG, SPECIAL):
        return extra
    ids = {token.content: token.id for token in spec.added_tokens.tokens}

    def means_another(role: str) -> bool:
        content = content_of(extra.get(f"{role}_token"))
        if content is None or (role == "unk" and getattr(spec.model, "unk", None) is not None):
            return False  # the model's unknown token comes first
        piece = content.encode("utf-8", "surrogatepass")
        number = ids[piece] if piece in ids else spec.vocabulary.pieces.find(piece)
        # One that is not in the vocabulary would be added by transformers.
        return number is None or number != getattr(special_ids, role)

    others = {f"{role}_token" for role in ROLES if means_another(role)}
    return {k: v for k, v in extra.items() if k not in others} if others else extra
