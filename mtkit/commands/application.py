"""A command's frame: options that are declared once become typer's, and their values are parsed."""

from __future__ import annotations

from inspect import Parameter, Signature, signature
from typing import Annotated, get_origin

import typer
from typer.core import TyperCommand

from mtkit.commands.options import SHARED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.commands.options import Option


_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}
_UNITS = {"k": 1 << 10, "K": 1 << 10, "m": 1 << 20, "M": 1 << 20}
"""After a number of tokens; those of a context are powers of two."""


class Application(typer.Typer):
    """Typer's frame of commands, whose parameters may be options that are declared elsewhere."""

    def command(
        self,
        name: str | None = None,
        *,
        options: Mapping[str, Option] = SHARED,
        also: Mapping[str, str] | None = None,
        cls: type[TyperCommand] | None = None,
        **more: Any,
    ) -> Callable[[Any], Any]:
        """Register a command.

        Args:
            name: Its name; None: the function's.
            options: Parameter -> declaration, of parameters that are not ``Annotated``.
            also: Parameter -> further spellings of options of the command's own.
        """
        spellings = dict(also or {})

        def declared(parameter: Parameter) -> Parameter:
            kind, option = parameter.annotation, options.get(parameter.name)
            if option is not None and get_origin(kind) is not Annotated:
                spellings.setdefault(parameter.name, option.also)
                kind = _typer_type(kind, option)
            return parameter.replace(annotation=kind, kind=Parameter.KEYWORD_ONLY)

        def register(function: Callable[..., None]) -> Callable[..., None]:
            def run(**given: Any) -> None:
                function(**given)

            own = signature(function, eval_str=True).parameters.values()
            parameters = [declared(parameter) for parameter in own]
            run.__name__, run.__doc__, run.__annotations__ = function.__name__, function.__doc__, {}
            run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
            known = {key: tuple(text.split()) for key, text in spellings.items()}
            kind = type("Command", (cls or Command,), {"also": known})
            super(Application, self).command(name, cls=kind, **more)(run)
            return function

        return register


def application() -> Application:
    """Return typer's frame of one command: errors are shown by ``mtkit.cli``, help is plain."""
    return Application(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def _typer_type(kind: Any, option: Option) -> Any:
    """Return a type with what typer shall make of it."""
    shown: dict[str, Any] = {"metavar": option.metavar or None, "help": option.help}
    if not option.names:
        return Annotated[kind, typer.Argument(**shown)]
    shown |= {"min": option.low, "parser": _READERS.get(option.reads)}
    if option.values:
        shown["autocompletion"] = lambda: list(option.values)
    return Annotated[kind, typer.Option(*option.names.split(), **shown)]


class Command(TyperCommand):
    """A command whose options have headings, and further spellings that help does not show."""

    also: Mapping[str, tuple[str, ...]]
    headings: Sequence[str] = ()
    """Headings in the order of the help; others follow."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each heading's by themselves."""
        rows: dict[str, list[tuple[str, str]]]
        rows = {heading: [] for heading in ("Arguments", "Options", *self.headings)}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx)
            if row is not None:
                is_option = param.param_type_name == "option"
                heading = getattr(param, "rich_help_panel", None)
                heading = heading or ("Options" if is_option else "Arguments")
                rows.setdefault(heading, []).append(row)
        for heading, listed in rows.items():
            if listed:
                with formatter.section(heading):
                    formatter.write_dl(listed)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line; braces are for a choice alone."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece if "|" in piece else piece.strip("{}") for piece in pieces]

    def make_parser(self, ctx: Any) -> Any:
        """Let the parser know the further spellings."""
        parser = super().make_parser(ctx)
        for param in self.params:
            spellings = self.also.get(param.name or "")
            if spellings:
                own = param.opts, param.secondary_opts
                param.opts, param.secondary_opts = list(spellings), []
                param.add_to_parser(parser, ctx)
                param.opts, param.secondary_opts = own
        return parser


def is_on_line(context: typer.Context, parameter: str) -> bool:
    """Tell whether the command line gives an option."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def program_names() -> list[str]:
    """Names of the programs whose reading is compared, for shell completion."""
    from mtkit.conversion.programs import PROGRAMS

    return list(PROGRAMS)


def parse_loss_codes(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the codes of losses that may happen."""
    from mtkit.errors import UsageError
    from mtkit.formats.contract import LOSS_CODES

    for code in given or ():
        if code not in LOSS_CODES:
            what = f"--allow-loss: unknown loss {code!r}"
            raise UsageError(what, hint=f"known: {', '.join(LOSS_CODES)}")
    return tuple(given or ())


def parse_whole(given: str | int) -> int:
    """Return a whole number: 8192, or 8k; a default is one already."""
    text = str(given)
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    try:
        return int(number) * unit
    except ValueError:
        what = f"{text!r} is neither a whole number nor a size like 8k"
        raise typer.BadParameter(what) from None


def parse_bytes(text: str, option: str) -> int:
    """Return a size: 2G is 2 000 000 000 bytes, 2Gi 2^31."""
    from mtkit.errors import UsageError

    digits = text.rstrip("KMGBiIkmgb")
    unit = text[len(digits) :].upper().removesuffix("B")
    if not digits.isascii() or not digits.isdigit() or unit not in _BYTES or int(digits) == 0:
        raise UsageError(f"{option} {text!r} is not a size", hint="write 2G, 500M or 1Gi")
    return int(digits) * _BYTES[unit]


def _parse_fetch_limit(given: str | int) -> int:
    number = parse_whole(given)
    if number < 1:
        raise typer.BadParameter(f"{given!r} is not a number of bytes")
    return number


_READERS: dict[str, Callable[[str | int], int]] = {
    "whole": parse_whole,
    "fetched": _parse_fetch_limit,
}
