"""``mtkit sx``: what ShenXing needs before it drafts, a command each."""

from __future__ import annotations

from mtkit.commands.options import application
from mtkit.commands.sx.bench import bench
from mtkit.commands.sx.prune import prune
from mtkit.commands.sx.quantize_embeddings import quantize_embeddings
from mtkit.commands.sx.tune import tune
from mtkit.commands.sx.vocab import vocab

app = application()


@app.callback()
def sx() -> None:
    """Prepare, measure and tune speculative decoding (docs/speculation.md).

    \b
    Examples:
      mtkit sx vocab corpus.txt -t model.gguf -n 32768 -o vocab.txt
      mtkit sx tune model.gguf small.gguf --prompts prompts.jsonl -o model.json
      mtkit generate -m model.gguf --draft small.gguf --sx-static-vocab vocab.txt --sx-learn
    """


app.command(name="vocab", also={"n_predict": "--predict --tokens"})(vocab)
app.command(name="prune")(prune)
app.command(name="quantize-embeddings")(quantize_embeddings)
app.command(
    name="bench",
    also={
        "tokens": "--predict --tokens",
        "count": "--prompts",
        "draft": "-md --model-draft",
        "draft_max": "--draft-n",
    },
)(bench)
app.command(name="tune", also={"tokens": "--predict --tokens"})(tune)
