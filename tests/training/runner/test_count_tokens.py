"""A worker counts the tokens that somebody asked for."""

import json
import subprocess
import sys
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from tests.factories import make_dataset
from training.models import TokenStatistics
from training.models.token_statistics import ASK_AGAIN, COUNT_LIFETIME, TokenStatus
from training.providers.local import trainer_environment
from training.runner.count_tokens import count_due, is_anything_due
from training.services.token_statistics import token_statistics
from training.token_summary import summary

pytestmark = pytest.mark.django_db(databases=["default", "pg"], transaction=True)


@pytest.fixture(scope="module", autouse=True)
def _tiny_model():
    """Built by the trainer itself, once."""
    command = [sys.executable, "-P", "-m", "trainer.base_models", "fetch", "tiny"]
    subprocess.run(
        command, env=trainer_environment(settings.MODELS_DIR), check=True, capture_output=True
    )


def test_counted_when_first_asked_for(any_db):
    make_dataset(db=any_db, num_rows=5)

    row = token_statistics("mine.jsonl", "tiny", db=any_db)
    assert row.status == TokenStatus.WAITING
    assert is_anything_due(any_db)
    count_due(any_db)

    row = token_statistics("mine.jsonl", "tiny", db=any_db)
    found = summary(row.lengths, row.firsts, max_length=256)
    assert (row.status, row.num_rows, found.count) == (TokenStatus.READY, 5, 5)
    assert 0 < row.num_trained < found.num_tokens
    assert not is_anything_due(any_db)
    assert TokenStatistics.objects.using(any_db).count() == 1


def test_new_content_is_counted_anew():
    make_dataset(num_rows=2)
    token_statistics("mine.jsonl", "tiny", db="default")
    count_due("default")

    make_dataset(num_rows=9)
    row = token_statistics("mine.jsonl", "tiny", db="default")

    assert row.status == TokenStatus.WAITING
    count_due("default")
    assert token_statistics("mine.jsonl", "tiny", db="default").num_rows == 9


def test_model_that_cannot_be_had_is_said_and_tried_again_later(settings, tmp_path):
    make_dataset()
    settings.MODELS_DIR = tmp_path / "empty"
    (tmp_path / "empty").write_text("a file where the folder of models should be")
    token_statistics("mine.jsonl", "tiny", db="default")

    count_due("default")

    row = token_statistics("mine.jsonl", "tiny", db="default")
    assert row.status == TokenStatus.FAILED
    assert "could not be fetched" in row.error
    TokenStatistics.objects.update(asked_at=timezone.now() - ASK_AGAIN - timedelta(seconds=1))
    assert token_statistics("mine.jsonl", "tiny", db="default").status == TokenStatus.WAITING


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% if %}", "chat template"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", ""),
        ("{{ raise_exception('not these') }}", "not these"),
    ],
)
def test_hostile_template_runs_nothing(settings, tmp_path, template, words):
    make_dataset()
    source = next((settings.MODELS_DIR / "tiny").glob("[!.]*"))
    folder = tmp_path / "tiny" / source.name
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(template)
    settings.MODELS_DIR = tmp_path
    token_statistics("mine.jsonl", "tiny", db="default")

    count_due("default")

    row = TokenStatistics.objects.get()
    assert row.status == TokenStatus.FAILED or row.num_refused == row.num_rows
    assert words in row.error + row.refused_why
    assert "<class" not in row.error + row.refused_why


def test_cut_off_model_is_said(settings, tmp_path):
    make_dataset()
    (tmp_path / "tiny" / "1").mkdir(parents=True)
    (tmp_path / "tiny" / "1" / "tokenizer_config.json").write_text("{")
    settings.MODELS_DIR = tmp_path
    token_statistics("mine.jsonl", "tiny", db="default")

    count_due("default")

    row = TokenStatistics.objects.get()
    assert (row.status, "cannot be read" in row.error) == (TokenStatus.FAILED, True)


def test_worker_that_died_is_made_up_for():
    make_dataset()
    token_statistics("mine.jsonl", "tiny", db="default")
    long_ago = timezone.now() - COUNT_LIFETIME - timedelta(seconds=1)
    TokenStatistics.objects.update(status=TokenStatus.COUNTING, claimed_at=timezone.now())
    assert not is_anything_due("default")

    TokenStatistics.objects.update(claimed_at=long_ago)
    count_due("default")

    assert TokenStatistics.objects.get().status == TokenStatus.READY
