"""The tables of GGUF constants agree with the gguf library where it knows them."""

from support import reference

from mtkit.gguf import types

NEWER = {41, 42}  # of llama.cpp; gguf 0.19 may lack them
OLD_LAYOUT = {9}  # Q8_1: the library has two f32 a block, ggml two f16


def test_value_types() -> None:
    library = reference("gguf")
    names = {"u": "UINT", "i": "INT", "f": "FLOAT"}
    for kind in library.GGUFValueType:
        own = types.VALUE_TYPES[kind.value].name
        long = names[own[0]] + own[1:] if own[1:].isdecimal() else own.upper()
        assert kind.name == long
    assert len(types.VALUE_TYPES) == len(library.GGUFValueType)


def test_tensor_types() -> None:
    library = reference("gguf")
    known = {kind.value: kind for kind in library.GGMLQuantizationType}
    assert set(types.TENSOR_TYPES) - set(known) <= NEWER
    assert set(known) <= set(types.TENSOR_TYPES)
    for number, kind in known.items():
        own = types.TENSOR_TYPES[number]
        assert own.name == kind.name
        if number not in OLD_LAYOUT:
            assert (own.block, own.block_bytes) == library.GGML_QUANT_SIZES[kind]
    assert not set(types.REMOVED_TENSOR_TYPES) & set(types.TENSOR_TYPES)


def test_file_types() -> None:
    library = reference("gguf")
    for kind in library.LlamaFileType:
        if kind.value != types.GUESSED_FILE_TYPE:
            name = kind.name.removeprefix("MOSTLY_").removeprefix("ALL_")
            assert types.FILE_TYPES[kind.value].replace(", some F16", "_SOME_F16") == name
