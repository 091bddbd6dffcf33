"""Each language's catalogue holds every text of the pages, and pages are written with it."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from django.conf import settings

from tests.factories import make_dataset, make_job
from tests.reading import page_of

ROOT = settings.BASE_DIR
LANGUAGES = [code for code, _ in settings.LANGUAGES if code != "en"]
SOURCES = ("manage.py", "gligabao", "training", "datasets", "templates")
PLACEHOLDER = re.compile(r"%\(\w+\)s|%s|%%|\{\w+\}|<[^>]+>")


def catalogue(language, suffix):
    return ROOT / "gligabao" / "locale" / language / "LC_MESSAGES" / f"django.{suffix}"


def entries(text):
    """(original, plural, translations, is fuzzy) of each text of a .po file."""
    found = []
    for block in text.split("\n\n"):
        fields, key = {}, None
        for line in block.splitlines():
            match = re.match(r'(msg\w+(?:\[\d\])?) "(.*)"$', line)
            if match:
                key, value = match.groups()
                fields[key] = value
            elif line.startswith('"') and key:
                fields[key] += line[1:-1]
        if fields.get("msgid"):
            translations = [text for name, text in fields.items() if name.startswith("msgstr")]
            found.append(
                (fields["msgid"], fields.get("msgid_plural"), translations, "#, fuzzy" in block)
            )
    return found


@pytest.mark.gettext
@pytest.mark.parametrize("language", LANGUAGES)
def test_catalogue_holds_every_text(language, tmp_path):
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    command = [
        sys.executable,
        "manage.py",
        "makemessages",
        "--locale",
        language,
        "--no-location",
        "--no-obsolete",
    ]
    env = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "gligabao.settings",
        "GLIGABAO_DATA_DIR": str(tmp_path / "data"),
    }
    subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=120)

    wanted = entries((tmp_path / catalogue(language, "po").relative_to(ROOT)).read_text())
    written = entries(catalogue(language, "po").read_text())

    assert len(wanted) > 300
    assert {one[:2] for one in written} == {one[:2] for one in wanted}, "run make messages"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_is_translated_with_its_placeholders(language):
    wrong = [
        original
        for original, plural, translations, is_fuzzy in entries(
            catalogue(language, "po").read_text()
        )
        if is_fuzzy
        or not all(translations)
        or set(PLACEHOLDER.findall(translations[-1]))
        != set(PLACEHOLDER.findall(plural or original))
    ]

    assert wrong == []


@pytest.mark.gettext
@pytest.mark.parametrize("language", LANGUAGES)
def test_compiled_catalogue_is_of_this_text(language, tmp_path):
    compiled = tmp_path / "django.mo"
    subprocess.run(
        ["msgfmt", "--check-format", "-o", compiled, catalogue(language, "po")], check=True
    )

    assert catalogue(language, "mo").read_bytes() == compiled.read_bytes(), "run make messages"


@pytest.mark.django_db
def test_pages_are_in_the_language_that_the_browser_asks_for(client_as):
    make_dataset(num_rows=12345)
    job = make_job(name="<b>Lauf</b>")
    client = client_as("viewer", headers={"Accept-Language": "de-CH,de;q=0.9,en;q=0.5"})

    page = page_of(client, f"/console/jobs/{job.pk}/")

    assert page.all("html")[0]["lang"] == "de"
    assert page.text_of("h1").startswith("<b>Lauf</b>")
    assert "Eingereiht" in page.text
    assert "12.345" in page_of(client, "/console/datasets/").text
