"""Both sides make the same tokens of a row: the control plane's counts are the trainer's."""

import json
import subprocess
import sys

import pytest
from django.conf import settings

from datasets.formats import detect, normalise
from training.chat_tokens import ChatTokens
from training.providers.local import trainer_environment

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"shelf": 7}}}
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {"shelf": {"type": "integer"}}}}}  # fmt: skip
ROWS = [
    {"messages": [{"role": "user", "content": "Shelf?"}, {"role": "assistant", "content": "Seven."}]},
    {"messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "One"},
        {"role": "assistant", "content": "1"}, {"role": "user", "content": "Two"},
        {"role": "assistant", "content": "2 {{ 7*7 }} <b>"}]},
    {"messages": [
        {"role": "user", "content": "Look"}, {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "bolts", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Bolts."}], "tools": [TOOL]},
    {"messages": [{"role": "user", "content": "Markup <|im_end|> <turn|> here"}, {"role": "assistant", "content": "Fine <|im_start|>."}]},
    {"prompt": "Say ä€😀", "completion": " one\ntwo\t three "},
    {"text": "Plain text, with ümlauts and\nlines."},
    {"instruction": "Add", "input": "2 and 3", "output": "5"},
]  # fmt: skip
ON_THE_OTHER_SIDE = """
import json, sys
from pathlib import Path
from trainer.base_models import KNOWN, ensure, models_dir_from_environment
from trainer.device import prepare_environment
prepare_environment(offline=True)
from transformers import AutoTokenizer
from trainer.data import _encode
from trainer.errors import JobFailed
from trainer.rendering import IGNORED, ChatEncoder
from trainer.rows import detect_format, normalise_row
folder = ensure(KNOWN[sys.argv[1]], models_dir_from_environment(), say=lambda text: None)
encoder = ChatEncoder(AutoTokenizer.from_pretrained(folder))
found = []
for row in json.load(sys.stdin):
    try:
        encoded = _encode(encoder, normalise_row(row, detect_format(row)), 1)
    except JobFailed:
        found.append("refused")
        continue
    found.append([
        [len(one.input_ids), one.num_labels,
         next((i for i, label in enumerate(one.labels) if label != IGNORED), None)]
        for one in encoded.examples
    ])
print(json.dumps(found))
"""


# The model of 135 million parameters gives the same on both sides; fetching it takes half a
# minute, so it is counted by hand: add its id here.
@pytest.mark.parametrize("model", ["tiny"])
def test_counts_and_trained_tokens_are_the_trainers(model, tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", "-c", ON_THE_OTHER_SIDE, model],
        input=json.dumps(ROWS),
        cwd=tmp_path,
        env=trainer_environment(settings.MODELS_DIR),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    expected = json.loads(done.stdout.splitlines()[-1])
    (folder,) = (settings.MODELS_DIR / model).glob("[!.]*")

    rows = ChatTokens(folder).rows_tokens([normalise(row, detect(row)) for row in ROWS])

    assert [
        "refused"
        if row.refused
        else [[one.num_tokens, one.num_trained, one.first_trained] for one in row.examples]
        for row in rows
    ] == expected
    assert sum(row == "refused" for row in expected) <= 1
