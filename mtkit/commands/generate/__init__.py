"""``mtkit generate``: let a GGUF model continue a text."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.commands.generate import options as option
from mtkit.commands.options import AS_JSON, NO_SPECIAL, application, model_named

app = application()


@app.command()
def generate(
    prompt: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text; - reads standard input.")
    ] = None,
    model: option.MODEL = None,
    file: Annotated[
        str | None, typer.Option("-f", "--file", metavar="FILE", help="Read the prompt from it.")
    ] = None,
    tokens: option.N_PREDICT = 128,
    temperature: option.TEMPERATURE = 0.0,
    top_k: option.TOP_K = 40,
    top_p: option.TOP_P = 0.95,
    min_p: option.MIN_P = 0.05,
    typical: Annotated[
        float, typer.Option("--typical", metavar="P", help="Typical tokens; 1: all.")
    ] = 1.0,
    top_n_sigma: Annotated[float, typer.Option("--top-n-sigma", metavar="X", help="0: all.")] = 0.0,
    repeat_penalty: option.REPEAT_PENALTY = 1.0,
    frequency_penalty: Annotated[
        float, typer.Option("--frequency-penalty", metavar="X", help="0: none.")
    ] = 0.0,
    presence_penalty: Annotated[
        float, typer.Option("--presence-penalty", metavar="X", help="0: none.")
    ] = 0.0,
    penalty_last: Annotated[
        int, typer.Option("--penalty-last", metavar="N", help="Tokens that penalties look at.")
    ] = 64,
    dry: Annotated[
        float, typer.Option("--dry", metavar="X", help="DRY's strength; 0: none.")
    ] = 0.0,
    dry_base: Annotated[
        float, typer.Option("--dry-base", metavar="X", help="DRY's growth.")
    ] = 1.75,
    dry_length: Annotated[
        int, typer.Option("--dry-length", metavar="N", help="DRY's free length.")
    ] = 2,
    xtc: Annotated[
        float, typer.Option("--xtc", metavar="P", help="XTC's probability; 0: never.")
    ] = 0.0,
    xtc_threshold: Annotated[float, typer.Option("--xtc-threshold", metavar="P")] = 0.1,
    mirostat: Annotated[int, typer.Option("--mirostat", metavar="N", help="1 or 2; 0: none.")] = 0,
    mirostat_tau: Annotated[
        float, typer.Option("--mirostat-tau", metavar="X", help="Surprise in bits.")
    ] = 5.0,
    mirostat_eta: Annotated[
        float, typer.Option("--mirostat-eta", metavar="X", help="Its rate.")
    ] = 0.1,
    grammar: Annotated[
        str | None, typer.Option("--grammar", metavar="GBNF", help="File or text.")
    ] = None,
    json_schema: Annotated[
        str | None, typer.Option("--json-schema", metavar="SCHEMA", help="File or text.")
    ] = None,
    logit_bias: Annotated[
        list[str] | None,
        typer.Option("--logit-bias", metavar="ID=N", help="Or TEXT=N; false: never. Repeatable."),
    ] = None,
    seed: option.SEED = None,
    stop: option.STOP = None,
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Never choose a token that ends.")
    ] = False,
    no_special: NO_SPECIAL = False,
    no_parse_special: Annotated[
        bool, typer.Option("--no-parse-special", help="Special tokens in the prompt are text.")
    ] = False,
    show_special: Annotated[
        bool, typer.Option("--special", help="Show control tokens that are generated.")
    ] = False,
    ctx: option.CTX = None,
    batch: option.BATCH = 512,
    ubatch: option.UBATCH = 512,
    kv_type: option.KV_TYPE = "f16",
    flash_attention: option.FLASH = "on",
    threads: option.THREADS = None,
    wait: option.WAIT = "auto",
    gpu_layers: option.GPU_LAYERS = 0,
    device: option.DEVICE = None,
    tensor_split: option.SPLIT = None,
    mmap: option.MMAP = None,
    backends: option.BACKENDS = None,
    load_session: Annotated[
        str | None, typer.Option("--load-session", metavar="FILE", help="Go on from there.")
    ] = None,
    save_session: Annotated[
        str | None, typer.Option("--save-session", metavar="FILE", help="Write it at the end.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the session file.")] = False,
    check_tokenizer: Annotated[
        bool, typer.Option("--check-tokenizer", help="Compare with mtkit's own tokenizer.")
    ] = False,
    list_devices: Annotated[
        bool, typer.Option("--devices", help="List the compute devices and end.")
    ] = False,
    echo: Annotated[bool, typer.Option("--echo", help="Show the prompt's tokens first.")] = False,
    ids: Annotated[bool, typer.Option("--ids", help="Print ids instead of text.")] = False,
    as_json: AS_JSON = False,
    as_jsonl: Annotated[bool, typer.Option("--jsonl", help="Print one JSON line a token.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No timings.")] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show model, context, sampler, llama.cpp's log.")
    ] = False,
) -> None:
    """Let a GGUF model continue a text; the timings go to stderr.

    Without -m: MTKIT_MODEL, the configured model, or the small one that ships with mtkit.

    \b
    Examples:
      mtkit generate "To list files, use"
      mtkit generate "Once upon a time" -m model.gguf -n 200 --temp 0.8 --seed 1
      mtkit generate "A user:" -m model.gguf --json-schema schema.json
    """
    from mtkit.llama import log

    log.is_shown = verbose
    if list_devices:
        show_devices(backends, as_json=as_json)
        return
    from mtkit.commands import output
    from mtkit.commands.generate import screen
    from mtkit.errors import MtkitError
    from mtkit.llama import ContextSettings
    from mtkit.llm.generate import run
    from mtkit.llm.generate_settings import GenerateSettings
    from mtkit.llm.sampler_settings import SamplerSettings

    path = model_named(model)
    text = option.prompt_of(prompt, file, may_be_none=load_session is not None)
    sampler = SamplerSettings(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        typical=typical,
        top_n_sigma=top_n_sigma,
        repeat_penalty=repeat_penalty,
        frequency_penalty=frequency_penalty,
        presence_penalty=presence_penalty,
        penalty_last=penalty_last,
        dry=dry,
        dry_base=dry_base,
        dry_length=dry_length,
        xtc=xtc,
        xtc_threshold=xtc_threshold,
        mirostat=mirostat,
        mirostat_tau=mirostat_tau,
        mirostat_eta=mirostat_eta,
        ignore_eos=ignore_eos,
        grammar=option.grammar_of(grammar),
        json_schema=option.schema_of(json_schema),
        seed=option.seed_of(seed),
    )
    settings = GenerateSettings(
        n_predict=tokens,
        n_ctx=ctx,
        load=option.load_of(gpu_layers, device, tensor_split, mmap, backends),
        context=ContextSettings(
            n_batch=batch, n_ubatch=ubatch, kv_type=kv_type, flash_attention=flash_attention
        ),
        sampler=sampler,
        biases=option.biases_of(logit_bias),
        threads=threads,
        wait=wait,
        stops=tuple(stop or ()),
        add_special=not no_special,
        parse_special=not no_parse_special,
        special=show_special,
        load_session=load_session,
        save_session=save_session,
        force=force,
        check_tokenizer=check_tokenizer,
        logprobs=as_json or as_jsonl,
    )
    form = "json" if as_json else "jsonl" if as_jsonl else "text"
    if not quiet:
        screen.warn_unused(sampler, seed)
    watcher = screen.Screen(echo=echo, verbose=verbose, quiet=quiet, form=form, ids=ids)
    try:
        made = run(path, text, settings, watcher)
    except (KeyboardInterrupt, MtkitError):
        watcher.out.end()
        raise
    if as_json:
        output.write_json(screen.document(made, seed=sampler.seed, model=path))
    else:
        watcher.out.end()
    if not quiet:
        screen.show_timings(made.timings)


def show_devices(backends: str | None, *, as_json: bool) -> None:
    """List the compute devices."""
    from mtkit.commands import output
    from mtkit.llama import devices, library, system_info

    library(backends=backends)
    found = devices()
    if as_json:
        rows = [
            {
                "name": device.name,
                "description": device.description,
                "kind": device.kind,
                "free_bytes": device.free,
                "total_bytes": device.total,
            }
            for device in found
        ]
        output.write_json({"schema": "mtkit.devices/1", "devices": rows, "system": system_info()})
        return
    output.write_rows((d.name, d.kind, d.description, d.free, d.total) for d in found)
