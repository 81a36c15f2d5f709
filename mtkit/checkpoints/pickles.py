"""A pickle read as data: numbers, texts, lists, tables, and tensors as a description.

Python's own ``pickle`` runs a program that imports and calls what it likes. This one has no way to
do either: a name that the pickle imports is two texts, a call is a record of the name and its
arguments, and only the names of ``CALLS`` and ``NAMES`` are let through; the rest is refused by its
name. What a pickle may do is bounded: its length, its steps, its integers; keys of tables are texts
or whole numbers, because the hash of nested tuples takes exponential time.

Source: CPython, Lib/pickle.py, Lib/pickletools.py (opcodes); torch, _weights_only_unpickler.py and
_utils.py (what the pickle of a state dict names).
"""

from __future__ import annotations

from mtkit.base.binary import Reader
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.base.rules import BrokenRule, Finding, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

    from mtkit.base.binary import Buffer

LIBRARY = "torch"
# fmt: off
PICKLE = Rule("torch-pickle", "error", LIBRARY, "pickle",
              "The pickle imports or calls what no file of weights needs. To load it with Python "
              "would run code; mtkit reads tensors from it, or refuses it.",
              advice="ask its author for safetensors; torch.load may run code of such a file")
DAMAGE = Rule("torch-file", "error", LIBRARY, "pickle",
              "The file is not what torch.save writes: it is damaged, or made to be read "
              "differently by different programs. Download it again.")
# fmt: on
MOST_BYTES = 1 << 26
"""Of a pickle: one of 100,000 tensors takes 25 MB."""
MOST_STEPS = 1 << 22
_MOST_INTEGER_BYTES = 16
_MOST_LINE = 1 << 12
_CODECS = "latin1"
ORDERED = "collections.OrderedDict"
CALLS = frozenset((
    ORDERED, "_codecs.encode", "torch.Size", "torch.device",
    "torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3", "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state", "torch._tensor._rebuild_from_type_v2",
))  # fmt: skip
"""Functions whose meaning is known; ``torch_file`` knows that of the tensors."""
STORAGES = {
    "DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
    "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8",
    "ByteStorage": "U8", "BoolStorage": "BOOL",
}  # fmt: skip
NUMBERS = {
    "float64": "F64", "double": "F64", "float32": "F32", "float": "F32", "float16": "F16",
    "half": "F16", "bfloat16": "BF16", "int64": "I64", "long": "I64", "int32": "I32", "int": "I32",
    "int16": "I16", "short": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
    "uint16": "U16", "uint32": "U32", "uint64": "U64",
}  # fmt: skip
"""Kinds of storages, and dtypes, by their names in torch -> their names in safetensors."""
UNTYPED = ("torch.storage.UntypedStorage", "torch.UntypedStorage")
NAMES = CALLS | {
    *(f"torch.{name}" for name in (*STORAGES, *NUMBERS)), *UNTYPED,
    "torch.nn.parameter.Parameter", "torch.Tensor", "torch.nn.parameter.Buffer",
}  # fmt: skip
"""Everything that a pickle may name."""


class Name(Record):
    """Something that the pickle would import."""

    text: str


class Call(Record):
    """A call that nobody makes."""

    name: str
    arguments: tuple[Any, ...]


class Stored(Record):
    """Where a tensor's numbers are: what torch keeps outside the pickle."""

    key: tuple[Any, ...]


class Table(dict[object, object]):
    """A dict or an OrderedDict."""


class _Mark:
    """Where the items of a list begin on the stack."""


MARK = _Mark()


class Machine:
    """The stack of one pickle, which begins where the reader is."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.storages: list[Stored] = []

    def run(self) -> Any:
        """Return the value; the reader stands behind it."""
        start, reader = self.reader.offset, self.reader
        for _ in range(MOST_STEPS):
            if reader.offset - start > MOST_BYTES:
                self.damage(f"is longer than {MOST_BYTES} bytes")
            code = reader.u8("opcode")
            if code == _STOP:
                value = self.pop()
                if self.stack:
                    self.damage("leaves values behind")
                return value
            step = _STEPS.get(code)
            if step is None:
                self.refuse(f"has the step {_REFUSED.get(code, f'0x{code:02x}')}")
            step(self)
        return self.damage(f"takes more than {MOST_STEPS} steps")

    def damage(self, what: str) -> NoReturn:
        """Raise that the pickle is damaged."""
        raise BrokenRule(Finding(DAMAGE, DAMAGE.field, what, self.reader.offset))

    def refuse(self, what: str) -> NoReturn:
        """Raise that the pickle asks for too much."""
        raise BrokenRule(Finding(PICKLE, PICKLE.field, what, self.reader.offset))

    def pop(self) -> Any:
        """Take a value from the stack."""
        if not self.stack or self.stack[-1] is MARK:
            self.damage("takes a value that is not there")
        return self.stack.pop()

    def top(self) -> Any:
        """Return the value on the stack."""
        if not self.stack or self.stack[-1] is MARK:
            self.damage("takes a value that is not there")
        return self.stack[-1]

    def items(self) -> list[Any]:
        """Take all values down to the mark, and the mark."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is MARK:
                values = self.stack[place + 1 :]
                del self.stack[place:]
                return values
        return self.damage("takes a mark that is not there")

    def line(self) -> str:
        """Read a text up to the end of its line."""
        data = self.reader.data[self.reader.offset : self.reader.offset + _MOST_LINE]
        end = bytes(data).find(b"\n")
        if end < 0:
            self.damage("has a line without an end")
        text = self.reader.take(end + 1, "line")[:-1]
        return self.text(text)

    def text(self, data: bytes) -> str:
        """Return bytes as a text."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.damage("has a text that is not UTF-8")

    def integer(self, text: str) -> int:
        """Return a number that is written in digits."""
        if len(text) > 2 * _MOST_INTEGER_BYTES or not text.strip("+-L").isdecimal():
            self.damage(f"has the number {quoted(text)}")
        try:
            return int(text.removesuffix("L"))
        except ValueError:
            self.damage(f"has the number {quoted(text)}")

    def long(self, size: int) -> int:
        """Read a number of any length."""
        if size > _MOST_INTEGER_BYTES:
            self.damage(f"has a number of {size} bytes")
        return int.from_bytes(self.reader.take(size, "number"), "little", signed=True)

    def name(self, module: Any, name: Any) -> Name:
        """Return a name, if it is one of those that are known."""
        text = f"{module}.{name}"
        if type(module) is not str or type(name) is not str or text not in NAMES:
            self.refuse(f"names {quoted(text)}, which is no part of a file of weights")
        return Name(text)

    def recall(self, number: int) -> Any:
        """Return a value that was kept."""
        if number not in self.memo:
            self.damage(f"takes value {number}, which was not kept")
        return self.memo[number]

    def keep(self, number: int) -> None:
        """Keep the value on the stack."""
        self.memo[number] = self.top()

    def fill(self, values: list[Any]) -> None:
        """Add keys and values to the table below them."""
        table = self.top()
        if type(table) is not Table or len(values) % 2:
            self.damage("fills what is no table")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if type(key) not in (str, int, bool, type(None)):
                self.damage(f"has a table with {kind_of(key)} for a key")
            if key in table:
                self.damage(f"has a table with {quoted(str(key))} twice")
            table[key] = value

    def extend(self, values: list[Any]) -> None:
        """Add values to the list below them."""
        below = self.top()
        if type(below) is not list:
            self.damage("adds to what is no list")
        below.extend(values)

    def call(self) -> None:
        """Put a record of the call in the place of the function and its arguments."""
        arguments, function = self.pop(), self.pop()
        if type(function) is not Name or function.text not in CALLS or type(arguments) is not tuple:
            what = quoted(function.text) if type(function) is Name else kind_of(function)
            self.refuse(f"calls {what}")
        self.stack.append(self._result(function.text, arguments))

    def _result(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name == ORDERED:
            table = Table()
            if arguments:  # pairs of a key and its value
                pairs = arguments[0] if len(arguments) == 1 else None
                if type(pairs) is not list or not all(
                    type(pair) in (list, tuple) and len(pair) == 2 for pair in pairs
                ):
                    self.damage("has a table of no pairs")
                self.stack.append(table)
                self.fill([item for pair in pairs for item in pair])
                self.stack.pop()
            return table
        if name == "_codecs.encode":
            if len(arguments) != 2 or type(arguments[0]) is not str or arguments[1] != _CODECS:
                self.refuse("calls '_codecs.encode' for something else than bytes")
            return arguments[0].encode("utf-8")  # bytes of notes: nobody uses them
        return Call(name, arguments)

    def build(self) -> None:
        """Leave out the attributes of a table; nothing else has any."""
        state, below = self.pop(), self.top()
        if type(below) is not Table or type(state) is not Table:
            self.refuse(f"sets the state of {kind_of(below)}")


def kind_of(value: Any) -> str:
    """Return what a value of a pickle is."""
    if value is MARK:
        return "nothing"
    names = {Name: "a name", Call: "a tensor", Stored: "a storage", Table: "a table"}
    return names.get(type(value), f"a value of type {type(value).__name__}")


def _push(value: Callable[[Machine], Any]) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(value(machine))


def _value(value: object) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(value)


def _new(kind: type) -> Callable[[Machine], None]:
    return lambda machine: machine.stack.append(kind())


def _ends(texts: Iterable[str]) -> dict[int, str]:
    return {ord(text[0]): text[2:] for text in texts}


_STOP = ord(".")
_REFUSED = {
    **_ends(("i INST: it imports and calls", "o OBJ: it calls a class")),
    0x81: "NEWOBJ: it calls a class", 0x92: "NEWOBJ_EX: it calls a class",
    0x82: "EXT1: it imports by number", 0x83: "EXT2: it imports by number",
    0x84: "EXT4: it imports by number", 0x97: "NEXT_BUFFER: it needs what is not in the file",
    0x98: "READONLY_BUFFER: it needs what is not in the file",
    ord("P"): "PERSID: it names a storage by a text",
}  # fmt: skip


def _read_text(machine: Machine, size: int) -> str:
    return machine.text(machine.reader.take(size, "text"))


def _protocol(machine: Machine) -> None:
    version = machine.reader.u8("protocol")
    if not 2 <= version <= 5:
        machine.damage(f"is of protocol {version}")


def _boolean_or_integer(machine: Machine) -> int:
    text = machine.line()
    return {"00": False, "01": True}[text] if text in ("00", "01") else machine.integer(text)


def _float(machine: Machine) -> float:
    text = machine.line()
    try:
        return float(text)
    except ValueError:
        machine.damage(f"has the number {quoted(text)}")


def _double(machine: Machine) -> float:
    import struct

    return float(struct.unpack(">d", machine.reader.take(8, "number"))[0])


def _table(machine: Machine) -> None:
    values = machine.items()
    machine.stack.append(Table())
    machine.fill(values)


def _tuple(count: int) -> Callable[[Machine], None]:
    def step(machine: Machine) -> None:
        values = [machine.pop() for _ in range(count)]
        machine.stack.append(tuple(reversed(values)))

    return step


def _pair(machine: Machine) -> None:
    value, key = machine.pop(), machine.pop()
    machine.fill([key, value])


def _item(machine: Machine) -> None:
    machine.extend([machine.pop()])


def _stored(machine: Machine) -> Stored:
    key = machine.pop()
    if type(key) is not tuple or not key or key[0] != "storage":
        machine.refuse("names a storage in a way that torch does not")
    stored = Stored(key)
    machine.storages.append(stored)
    return stored


def _stack_global(machine: Machine) -> Name:
    name, module = machine.pop(), machine.pop()
    return machine.name(module, name)


def _skip_frame(machine: Machine) -> None:
    machine.reader.u64("frame")


def _drop(machine: Machine) -> None:
    machine.pop()


def _drop_items(machine: Machine) -> None:
    machine.items()


_STEPS: dict[int, Callable[[Machine], None]] = {
    0x80: _protocol,
    0x95: _skip_frame,
    ord("("): lambda m: m.stack.append(MARK),
    ord("0"): _drop,
    ord("1"): _drop_items,
    ord("2"): _push(Machine.top),
    ord("N"): _value(None),
    0x88: _value(True),
    0x89: _value(False),
    ord("I"): _push(_boolean_or_integer),
    ord("J"): _push(lambda m: m.reader.i32("number")),
    ord("K"): _push(lambda m: m.reader.u8("number")),
    ord("M"): _push(lambda m: m.reader.u16("number")),
    ord("L"): _push(lambda m: m.integer(m.line())),
    0x8A: _push(lambda m: m.long(m.reader.u8("size"))),
    0x8B: _push(lambda m: m.long(m.reader.u32("size"))),
    ord("F"): _push(_float),
    ord("G"): _push(_double),
    ord("V"): _push(Machine.line),
    ord("X"): _push(lambda m: _read_text(m, m.reader.u32("size"))),
    0x8C: _push(lambda m: _read_text(m, m.reader.u8("size"))),
    0x8D: _push(lambda m: _read_text(m, m.reader.u64("size"))),
    ord("U"): _push(lambda m: _read_text(m, m.reader.u8("size"))),
    ord("T"): _push(lambda m: _read_text(m, m.reader.u32("size"))),
    ord("C"): _push(lambda m: m.reader.take(m.reader.u8("size"), "bytes")),
    ord("B"): _push(lambda m: m.reader.take(m.reader.u32("size"), "bytes")),
    0x8E: _push(lambda m: m.reader.take(m.reader.u64("size"), "bytes")),
    ord("]"): _new(list),
    ord("l"): _push(Machine.items),
    ord("a"): _item,
    ord("e"): lambda m: m.extend(m.items()),
    ord(")"): _value(()),
    ord("t"): _push(lambda m: tuple(m.items())),
    0x85: _tuple(1),
    0x86: _tuple(2),
    0x87: _tuple(3),
    ord("}"): _new(Table),
    ord("d"): _table,
    ord("s"): _pair,
    ord("u"): lambda m: m.fill(m.items()),
    ord("p"): lambda m: m.keep(m.integer(m.line())),
    ord("q"): lambda m: m.keep(m.reader.u8("number")),
    ord("r"): lambda m: m.keep(m.reader.u32("number")),
    0x94: lambda m: m.keep(len(m.memo)),
    ord("g"): _push(lambda m: m.recall(m.integer(m.line()))),
    ord("h"): _push(lambda m: m.recall(m.reader.u8("number"))),
    ord("j"): _push(lambda m: m.recall(m.reader.u32("number"))),
    ord("c"): _push(lambda m: m.name(m.line(), m.line())),
    0x93: _push(_stack_global),
    ord("R"): Machine.call,
    ord("b"): Machine.build,
    ord("Q"): _push(_stored),
}


def read_pickle(data: Buffer) -> Any:
    """Return the value of a pickle that fills the data.

    Raises:
        BrokenRule: It is damaged, or asks for what it need not.
    """
    reader = Reader(data)
    machine = Machine(reader)
    value = machine.run()
    if reader.left:
        machine.damage("has bytes behind its end")
    return value
